//! One network namespace, and the pair of virtual interfaces that connects it to the host.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::fs::fstatfs;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::net::netdevice::name_to_index;
use rustix::thread::UnshareFlags;

use super::address::{Addresses, Subnets};
use super::namespaces_dir;
use super::programs::IP;
use crate::failure::{Failure, FailureContext};
use crate::namespaces::unshare;

/// `NSFS_MAGIC` of linux/magic.h.
const NSFS: u64 = 0x6e73_6673;

/// What containers see of theirs.
const WITHIN: &str = "eth0";

/// An interface's `tag`, a number without a meaning to the kernel, once the last of its network is made: an agent that is
/// killed half-way leaves one without.
const MADE: &str = "1";

/// On the host's side every interface has it.
const GATEWAY_V6: &str = "fe80::1";

/// Named by its address, which is its own on this host: interfaces' names are short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NetworkLink {
    name: String,
}

impl NetworkLink {
    pub(super) fn new(prefix: &str, offset: u32) -> Self {
        Self { name: format!("{prefix}-{offset:x}") }
    }

    /// The name of the namespace's file, and of the interface on the host's side.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn path(&self) -> PathBuf {
        namespaces_dir().join(&self.name)
    }

    /// Whether the namespace is there, and all of its interfaces was made.
    pub(super) fn is_whole(&self) -> bool {
        let tag = fs::read_to_string(self.setting("ipv4", "tag"));
        is_namespace(&self.path()) && tag.is_ok_and(|tag| tag.trim() == MADE)
    }

    /// The file of a kernel's setting of the interface on the host's side.
    fn setting(&self, family: &str, setting: &str) -> String {
        format!("/proc/sys/net/{family}/conf/{}/{setting}", self.name)
    }

    /// Makes both; nothing of the name may be there.
    pub(super) fn make(&self, subnets: &Subnets, addresses: Addresses) -> Result<(), Failure> {
        let doing = || format!("make the network namespace {}", self.name);
        fs::create_dir_all(namespaces_dir()).doing(doing)?;
        File::create(self.path()).doing(doing)?;
        let (path, within) = (self.path(), self.within(subnets, addresses));
        // A thread enters the new namespace and ends there; the program that it calls is born into it.
        let thread = std::thread::Builder::new().name("network".into());
        let made = thread.spawn(move || make_within(&path, &within)).doing(doing)?.join();
        made.map_err(|_| Failure::other(doing(), "it panicked"))??;
        self.outside(subnets, addresses)
    }

    /// The other end is born beside this process.
    fn within(&self, subnets: &Subnets, addresses: Addresses) -> String {
        let (gateway, v4, name, pid) = (subnets.gateway(), addresses.v4, &self.name, std::process::id());
        let mut lines = format!(
            "link set lo up\n\
             link add {WITHIN} type veth peer name {name} netns {pid}\n\
             address add {v4}/32 dev {WITHIN}\n\
             link set {WITHIN} up\n\
             route add {gateway} dev {WITHIN} scope link\n"
        );
        if subnets.forwards() {
            // Without it, what cannot be reached is refused at once.
            lines += &format!("route add default via {gateway}\n");
        }
        if let Some(v6) = addresses.v6 {
            lines += &format!(
                "address add {v6}/128 dev {WITHIN} nodad\nroute add default via {GATEWAY_V6} dev {WITHIN}\n"
            );
        }
        lines
    }

    fn outside(&self, subnets: &Subnets, addresses: Addresses) -> Result<(), Failure> {
        let (gateway, v4, name) = (subnets.gateway(), addresses.v4, &self.name);
        let set = |family: &str, setting: &str, value: &str| {
            let path = self.setting(family, setting);
            fs::write(&path, value).doing(|| format!("set {path}"))
        };
        // What is sent to a port of the loopback address keeps that as its source until it leaves.
        set("ipv4", "route_localnet", "1")?;
        // It sends under its own address alone.
        set("ipv4", "rp_filter", "1")?;
        if Path::new("/proc/sys/net/ipv6").exists() {
            set("ipv6", "accept_ra", "0")?;
        }
        let mut lines = format!(
            "address add {gateway}/32 dev {name}\n\
             link set {name} up\n\
             route add {v4} dev {name} src {gateway}\n"
        );
        if let Some(v6) = addresses.v6 {
            lines += &format!("address add {GATEWAY_V6}/64 dev {name} nodad\nroute add {v6} dev {name}\n");
        }
        IP.run(&lines)?;
        set("ipv4", "tag", MADE)
    }

    /// Removes what is there of both. Whoever still is in the namespace has the loopback address alone.
    pub(super) fn remove(&self) -> Result<(), Failure> {
        // Of any kind: the kernel asks for one to ask it by.
        let socket = UnixDatagram::unbound().doing(|| format!("look for the interface {}", self.name))?;
        if name_to_index(&socket, &self.name).is_ok() {
            IP.run(&format!("link delete {}\n", self.name))?;
        }
        remove_namespace(&self.path())
    }
}

fn make_within(path: &Path, interfaces: &str) -> Result<(), Failure> {
    let doing = || format!("make the network namespace {}", path.display());
    unshare(UnshareFlags::NEWNET).doing(doing)?;
    let own = Path::new("/proc/thread-self/ns/net");
    mount_bind(own, path).doing(doing)?;
    // The ports below 1024 are its own, whoever listens.
    let low_ports = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
    fs::write(low_ports, "0").doing(|| format!("set {low_ports}"))?;
    IP.run(interfaces)
}

fn is_namespace(path: &Path) -> bool {
    File::open(path)
        .ok()
        .and_then(|file| fstatfs(file).ok())
        .is_some_and(|found| u64::try_from(found.f_type) == Ok(NSFS))
}

/// Removing the file lets go of the namespace in all mount namespaces, such as those in which keepers make containers.
fn remove_namespace(path: &Path) -> Result<(), Failure> {
    let doing = || format!("remove {}", path.display());
    loop {
        match unmount(path, UnmountFlags::DETACH) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOENT) => break,
            Err(errno) => return Err(Failure::new(doing(), errno)),
        }
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::new(doing(), error)),
        _ => Ok(()),
    }
}

/// The names of all interfaces in this thread's network. No name has a colon in it.
fn interfaces() -> io::Result<Vec<String>> {
    let counters = fs::read_to_string("/proc/thread-self/net/dev")?;
    let names = counters.lines().filter_map(|line| line.split_once(':'));
    Ok(names.map(|(name, _)| name.trim_start().to_owned()).collect())
}

/// Removes namespaces and interfaces of this prefix but the `known` ones. One that cannot be removed keeps neither the others
/// nor the agent's start: the next start tries again.
pub(super) fn remove_others(prefix: &str, known: &BTreeSet<String>) -> Result<(), Failure> {
    let prefix = format!("{prefix}-");
    let is_ours =
        |name: &str| name.strip_prefix(&prefix).is_some_and(|rest| u32::from_str_radix(rest, 16).is_ok());
    let is_left = |name: &String| is_ours(name) && !known.contains(name);
    let interfaces = interfaces().doing(|| "list the host's interfaces".into())?;
    let files = fs::read_dir(namespaces_dir()).into_iter().flatten().flatten();
    let files = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let left: BTreeSet<String> = interfaces.into_iter().chain(files).filter(is_left).collect();
    if !left.is_empty() {
        tracing::info!(count = left.len(), "removing networks that belong to no allocation");
    }
    for link in left.into_iter().map(|name| NetworkLink { name }) {
        if let Err(failure) = link.remove() {
            tracing::error!(%failure, "could not remove a network that belongs to no allocation");
        }
    }
    Ok(())
}
