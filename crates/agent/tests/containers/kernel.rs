//! What a container reaches of the kernel: the calls and sockets that its profile refuses, on x86-64.

use std::fs;
use std::path::Path;
use std::process::Command;

use berth_api::agent::ClientStatus;
use serde_json::json;

use super::world::World;

/// Calls that no container may make, with their numbers on x86-64; whatever their arguments, they are refused before
/// these are looked at.
const REFUSED_CALLS: [(&str, u32); 24] = [
    ("add_key", 248),
    ("bpf", 321),
    ("clone3", 435),
    ("fanotify_init", 300),
    ("fsmount", 432),
    ("fsopen", 430),
    ("init_module", 175),
    ("io_uring_setup", 425),
    ("kcmp", 312),
    ("kexec_load", 246),
    ("keyctl", 250),
    ("mount", 165),
    ("move_mount", 429),
    ("name_to_handle_at", 303),
    ("open_by_handle_at", 304),
    ("open_tree", 428),
    ("perf_event_open", 298),
    ("pivot_root", 155),
    ("process_vm_readv", 310),
    ("request_key", 249),
    ("setns", 308),
    ("syslog", 103),
    ("unshare", 272),
    ("userfaultfd", 323),
];

/// All numbers on x86-64 that the profile names for nobody: calls that need a right, that are obsolete, and what later kernels
/// have or may have.
fn unlisted_calls() -> Vec<u32> {
    let known = [
        103..=103,
        134..=134,
        136..=136,
        139..=139,
        153..=153,
        155..=156,
        159..=159,
        163..=185,
        212..=212,
        214..=215,
        227..=227,
        236..=239,
        246..=246,
        248..=250,
        256..=256,
        272..=272,
        279..=279,
        298..=298,
        300..=301,
        303..=305,
        308..=308,
        310..=313,
        320..=321,
        323..=323,
        425..=433,
        435..=435,
        438..=438,
        440..=440,
        442..=443,
        450..=450,
    ];
    // Beyond, those are left out that newer runtimes know: cachestat to futex_requeue, and mseal.
    let later = [457..=461, 463..=600];
    known.into_iter().chain(later).flatten().collect()
}

/// Sockets that lead to parts of the kernel which no container needs: family, type, protocol.
const REFUSED_SOCKETS: [(&str, [u32; 3]); 8] = [
    ("alg", [38, 5, 0]),
    ("key", [15, 3, 2]),
    ("netlink audit", [16, 3, 9]),
    ("netlink netfilter", [16, 3, 12]),
    ("packet", [17, 3, 0]),
    ("raw", [2, 3, 1]),
    ("vsock", [40, 1, 0]),
    ("xdp", [44, 3, 0]),
];

/// Copies perl, which can make any call, and what it is linked with; none where the host has none.
fn install_perl(root: &Path) -> Option<()> {
    let linked = Command::new("ldd").arg("/usr/bin/perl").output().ok().filter(|ldd| ldd.status.success())?;
    let linked = String::from_utf8(linked.stdout).expect("text");
    let libraries = linked.split_whitespace().filter(|word| word.starts_with('/'));
    for file in libraries.chain(["/usr/bin/perl"]) {
        let target = root.join(file.trim_start_matches('/'));
        fs::create_dir_all(target.parent().expect("a directory")).expect("made");
        fs::copy(file, target).expect("copied");
    }
    Some(())
}

#[test]
fn a_container_reaches_little_of_the_kernel() {
    // Refused, or not there: EPERM, ENOSYS. getpid and an ordinary socket show that the probe works.
    let calls = REFUSED_CALLS.iter().map(|(name, number)| format!("t('{name}', {number}, 0, 0, 0, 0, 0);"));
    let sockets = REFUSED_SOCKETS.iter().map(|(name, [family, kind, protocol])| {
        format!("t('socket {name}', 41, {family}, {kind}, {protocol}, 0, 0);")
    });
    let numbers =
        unlisted_calls().into_iter().map(|number| format!("t('{number}', {number}, 0, 0, 0, 0, 0);"));
    // Addresses that can be guessed.
    let personality = "t('personality', 135, 0x40000, 0, 0, 0, 0);".to_owned();
    let probe = format!(
        "sub t {{ my $name = shift; my $got = syscall(shift, map {{ $_ + 0 }} @_); \
         print \"$name\\n\" unless $got == -1 && ($! == 1 || $! == 38); }} \
         t('getpid', 39, 0, 0, 0, 0, 0); t('socket inet', 41, 2, 1, 0, 0, 0); {}",
        calls.chain(sockets).chain(numbers).chain([personality]).collect::<String>()
    );
    for runtime in ["/usr/bin/crun", "/usr/sbin/runc"] {
        let Some(mut world) = World::new(runtime) else { return };
        let root = world.root();
        if install_perl(Path::new(&root)).is_none() {
            eprintln!("skipped: there is no perl");
            return;
        }
        let first = world.first;
        let in_cage = json!({"command": "/usr/bin/perl", "args": ["-e", probe]});
        let mut in_image = in_cage.clone();
        in_image["image"] = root.into();
        for (driver, number, config) in [("docker", first, in_image), ("exec", first + 1, in_cage)] {
            world.run_driver(driver, number, config, Vec::new());
            world.server.wait_for_status(number, ClientStatus::Complete);
            let done = world.server.read_log(number, "t", 0, false);
            let allowed = "getpid\nsocket inet\n";
            assert_eq!(done.as_deref(), Ok(allowed), "{runtime}, {driver}: these calls are not refused");
        }
    }
}
