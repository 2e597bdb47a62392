//! A host of one test, with interfaces, rules and mounts of its own, and another host beside it.

use std::fs;
use std::path::Path;
use std::process::Command;

use berth_agent::unshare;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;

/// The address of the host in front of its agent, and one beyond it.
pub const HOST: &str = "10.9.9.1";
pub const BEYOND: &str = "10.9.9.2";
/// The same in IPv6.
pub const HOST_V6: &str = "fd99::1";
pub const BEYOND_V6: &str = "fd99::2";

/// Whether there may be one; the reason is printed.
pub fn can_be_made() -> bool {
    let missing = ["/usr/sbin/nft", "/usr/sbin/ip"].into_iter().find(|path| !Path::new(path).exists());
    if let Some(missing) = missing {
        eprintln!("no networks: {missing} is missing");
    }
    missing.is_none()
}

/// Runs a script, which must succeed.
pub fn sh(script: &str) {
    let status = Command::new("/bin/sh").args(["-ec", script]).status().expect("a shell");
    assert!(status.success(), "{script}");
}

/// The calling thread, and whatever it starts from now on, is on a host of its own.
pub fn become_one() {
    unshare(UnshareFlags::NEWNET | UnshareFlags::NEWNS).expect("namespaces");
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).expect("private");
    fs::create_dir_all("/run/netns").expect("a directory");
    mount("none", "/run/netns", "tmpfs", MountFlags::empty(), None).expect("mounted");
    sh(&format!(
        "echo 1 > /proc/sys/net/ipv4/ip_forward; ip link set lo up; ip netns add beyond; \
         ip link add veth0 type veth peer name veth0 netns beyond; ip addr add {HOST}/24 dev veth0; \
         ip link set veth0 up; ip -n beyond link set lo up; ip -n beyond addr add {BEYOND}/24 dev veth0; \
         ip -n beyond link set veth0 up"
    ));
}

/// The host forwards IPv6 from now on, and both have addresses of it. Whether it can; the reason is printed.
pub fn speak_v6() -> bool {
    let forwarding = "/proc/sys/net/ipv6/conf/all/forwarding";
    if !Path::new(forwarding).exists() {
        eprintln!("skipped: the kernel has no IPv6");
        return false;
    }
    sh(&format!(
        "echo 1 > {forwarding}; ip addr add {HOST_V6}/64 dev veth0 nodad; \
         ip -n beyond addr add {BEYOND_V6}/64 dev veth0 nodad"
    ));
    true
}

/// Names of network namespaces, without that of the other host.
pub fn namespaces() -> Vec<String> {
    let found = fs::read_dir("/run/netns").expect("listed").flatten();
    let names = found.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name != "beyond").collect()
}

/// Interfaces that allocations have.
pub fn interfaces() -> Vec<String> {
    let counters = fs::read_to_string("/proc/thread-self/net/dev").expect("listed");
    let names = counters.lines().filter_map(|line| Some(line.split_once(':')?.0.trim_start()));
    names.filter(|name| name.starts_with("berth-")).map(str::to_owned).collect()
}

/// All rules for packets.
pub fn rules() -> String {
    let output = Command::new("/usr/sbin/nft").args(["list", "ruleset"]).output().expect("nft");
    String::from_utf8(output.stdout).expect("text")
}
