//! A task that tries every way out of its isolation, in a container and as a command of the host. Its agent was started with much
//! that no task may have.

#[path = "common/busybox.rs"]
mod busybox;
#[allow(dead_code)]
mod common;
#[path = "common/exec.rs"]
#[allow(dead_code)]
mod exec;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use berth_api::agent::{ClientStatus, TaskSpec};
use exec::Exec;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, setrlimit, umask};
use serde_json::json;
use world::{World, run_without_ports, shell, task};

/// What is so of a cage. Where it is not so, the probe must harm nobody: it sets what is set already, and mounts where only a
/// cage has a directory.
struct Fact {
    name: &'static str,
    /// Prints one line.
    probe: &'static str,
    /// In a container, where root is root of its own.
    container: &'static str,
    /// For a command of the host, which is nobody.
    command: &'static str,
}

const fn fact(name: &'static str, probe: &'static str, told: &'static str) -> Fact {
    Fact { name, probe, container: told, command: told }
}

const fn differs(
    name: &'static str,
    probe: &'static str,
    container: &'static str,
    command: &'static str,
) -> Fact {
    Fact { name, probe, container, command }
}

const FACTS: [Fact; 44] = [
    // What it was given.
    // The last is the directory that is read.
    fact("open files", "cd /proc/self/fd; echo *", "0 1 2 3"),
    fact("input", "readlink /proc/$$/fd/0 | sed 's/^.*\\///'", "null"),
    fact("environment of the agent", "env | grep -c AGENT_", "0"),
    // But for those that the C library keeps to itself.
    fact("ignored signals", "echo $(( 0x$(grep SigIgn /proc/self/status | cut -f2) & 0x7fffffff ))", "0"),
    fact("blocked signals", "grep SigBlk /proc/$$/status | tr -d '\\t'", "SigBlk:0000000000000000"),
    fact("mask of new files", "umask", "0022"),
    fact("open files at most", "ulimit -Sn", "1024"),
    fact("score when memory runs out", "cat /proc/$$/oom_score_adj", "0"),
    // Who it is.
    differs("user", "id -u", "0", "65534"),
    differs("group", "id -g", "0", "65534"),
    fact(
        "users of its own",
        "set -- $(cat /proc/$$/uid_map); echo $1 $(( $2 >= 0x70000000 )) $3",
        "0 1 65536",
    ),
    fact(
        "groups of its own",
        "set -- $(cat /proc/$$/gid_map); echo $1 $(( $2 >= 0x70000000 )) $3",
        "0 1 65536",
    ),
    fact("may have groups denied", "cat /proc/$$/setgroups", "allow"),
    // What it may do.
    differs(
        "rights",
        "grep CapEff /proc/$$/status | tr -d '\\t'",
        "CapEff:00000000a00405fb",
        "CapEff:0000000000000000",
    ),
    differs(
        "rights it can get",
        "grep CapBnd /proc/$$/status | tr -d '\\t'",
        "CapBnd:00000000a00405fb",
        "CapBnd:0000000000000000",
    ),
    fact("rights it hands on", "grep CapInh /proc/$$/status | tr -d '\\t'", "CapInh:0000000000000000"),
    fact("rights of others it keeps", "grep CapAmb /proc/$$/status | tr -d '\\t'", "CapAmb:0000000000000000"),
    fact("no new rights", "grep NoNewPrivs /proc/$$/status | tr -d '\\t'", "NoNewPrivs:1"),
    fact("filtered calls", "grep Seccomp: /proc/$$/status | tr -d '\\t'", "Seccomp:2"),
    fact("mounting", "mount -t tmpfs x /local 2> /dev/null || echo refused", "refused"),
    fact("unmounting", "umount /local 2> /dev/null || echo refused", "refused"),
    // Docker's usual rights have it.
    differs(
        "another root",
        "chroot / true 2> /dev/null && echo granted || echo refused",
        "granted",
        "refused",
    ),
    fact("devices of its own", "mknod /local/null c 1 3 2> /dev/null || echo refused", "refused"),
    fact("namespaces of its own", "unshare -U true 2> /dev/null || echo refused", "refused"),
    fact("another name of its host", "hostname \"$(hostname)\" 2> /dev/null || echo refused", "refused"),
    fact("the kernel's messages", "dmesg > /dev/null 2>&1 || echo refused", "refused"),
    fact(
        "better treatment by the scheduler",
        "own=$(cut -d' ' -f19 /proc/$$/stat); nice -n -5 sh -c 'cut -d\" \" -f19 /proc/$$/stat' 2> /dev/null \
         | grep -vxe \"$own\" || echo refused",
        "refused",
    ),
    // Whom it sees.
    fact("its number", "echo $$", "1"),
    fact(
        "processes of others",
        "ls /proc | grep '^[0-9]' | while read pid; do [ -e /proc/$pid/comm ] && cat /proc/$pid/comm; done \
         | grep -c 'agent\\|keeper\\|systemd'",
        "0",
    ),
    fact("interfaces", "ls /sys/class/net | tr '\\n' ' '", "lo "),
    fact("its cgroups", "cut -d: -f3 /proc/$$/cgroup | sort -u | tr '\\n' ' '", "/ "),
    fact("its host's name", "hostname | cut -c1-7", "HOSTNAME"),
    // What of the kernel it reaches.
    fact(
        "settings of the kernel",
        "value=$(cat /proc/sys/kernel/panic); (echo $value > /proc/sys/kernel/panic) 2> /dev/null || echo refused",
        "refused",
    ),
    fact("sysrq", "(echo h > /proc/sysrq-trigger) 2> /dev/null || echo refused", "refused"),
    fact(
        "hidden files of /proc",
        "cat /proc/slabinfo /proc/vmallocinfo /proc/interrupts /proc/kpagecount /proc/keys /proc/timer_list \
         /proc/sched_debug /proc/kmsg /proc/iomem /proc/ioports /proc/buddyinfo 2> /dev/null | wc -c",
        "0",
    ),
    fact("the kernel's memory", "head -c 1 /proc/kcore 2> /dev/null | wc -c", "0"),
    fact("firmware", "ls /sys/firmware 2> /dev/null | wc -l", "0"),
    fact("/sys", "(: > /sys/x) 2> /dev/null || mkdir /sys/kernel/x 2> /dev/null || echo refused", "refused"),
    fact("controls of its cgroups", "find /sys/fs/cgroup -name '*.max' -writable 2> /dev/null | wc -l", "0"),
    fact(
        "devices",
        // A link to /proc/kcore, which some runtimes make only where the kernel has that.
        "ls /dev | grep -v '^core$' | tr '\\n' ' '",
        "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero ",
    ),
    fact("disks", "ls -l /dev | grep -c '^b'", "0"),
    // What it has of files.
    fact(
        "where secrets lie",
        "grep ' /secrets ' /proc/mounts | cut -d' ' -f3,4 | grep -c '^tmpfs rw,nosuid,nodev,noexec'",
        "1",
    ),
    fact("logs of the others", "(: > /alloc/logs/x) 2> /dev/null || echo refused", "refused"),
    differs("its root", "(: > /x) 2> /dev/null && echo its own || echo refused", "its own", "refused"),
];

/// What an agent that somebody started by hand may have, and hands on to whatever it starts, unless it minds.
fn carry_much() -> fs::File {
    let file = fs::File::open("/etc/passwd").expect("a file");
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).expect("inherited");
    umask(Mode::from_bits_truncate(0o077));
    let open_files = |most| Rlimit { current: Some(4_096), maximum: Some(most) };
    setrlimit(Resource::Nofile, open_files(1 << 20))
        .or_else(|_| setrlimit(Resource::Nofile, open_files(4_096)))
        .expect("set");
    // Not all of whoever is root may do so.
    let _ = fs::write("/proc/self/oom_score_adj", "-500");
    file
}

/// What a process of the host must not have of its agent, though it is in no cage. Nothing else is tried there.
const OF_PROCESSES: [&str; 7] = [
    "mask of new files",
    "open files",
    "environment of the agent",
    "ignored signals",
    "blocked signals",
    "open files at most",
    "score when memory runs out",
];

/// How many files a process may have open, and how far it may raise that.
const OPEN_FILES: &str = "open files at most";
const OPEN_FILES_HARD: &str = "4096";

/// Prints a line for each fact.
fn script(facts: impl Iterator<Item = Fact>) -> String {
    facts
        .map(|Fact { name, probe, .. }| format!("printf '%s: %s\\n' \"{name}\" \"$( {probe} )\"\n"))
        .collect()
}

/// What a probe prints to its end.
fn printed(world: &mut World, number: u8) -> String {
    let status = world.server.wait_for(number, |status| status.status().is_terminal());
    let log = world.server.read_log(number, "t", 0, false).expect("a log");
    let complaints = fs::read_to_string(world.path(number, "logs/t.stderr.0")).unwrap_or_default();
    assert_eq!(status.status(), ClientStatus::Complete, "{log}{complaints}");
    log
}

fn probed_facts(world: &mut World, number: u8) -> BTreeMap<String, String> {
    pairs(&printed(world, number))
}

fn pairs(log: &str) -> BTreeMap<String, String> {
    let pairs = log.lines().filter_map(|line| line.split_once(": "));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// What of these facts is not so, where `whose` was asked.
fn wrong(facts: &[Fact], whose: &str, told: &BTreeMap<String, String>, is_container: bool) -> Vec<String> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let mut wrong = Vec::new();
    for Fact { name, container, command, .. } in facts {
        let expected = if is_container { *container } else { *command };
        let found = told.get(*name).map_or("", String::as_str);
        let is_so = match expected {
            "HOSTNAME" => !found.is_empty() && !host.starts_with(found),
            expected => found == expected.trim_end() || found == expected,
        };
        if !is_so {
            wrong.push(format!("{whose}, {name}: {found:?} instead of {expected:?}"));
        }
    }
    wrong
}

/// Has an agent of each runtime that there is, which has inherited much, and a directory of images with a shell.
fn with_each_runtime(check: impl Fn(&str, World, &Path)) {
    let runtimes = busybox::runtimes();
    if runtimes.is_empty() {
        return;
    }
    let _inherited = carry_much();
    let images = busybox::image(&["sh"]);
    for runtime in runtimes {
        let settings = vec![("AGENT_HOST_IP", "127.0.0.1")];
        check(runtime, World::with_settings(runtime, images.path(), settings), images.path());
    }
}

#[test]
fn each_fact_of_a_cage_is_so() {
    with_each_runtime(|runtime, mut world, images| {
        let image = images.join("root");
        let of_process = script(FACTS.into_iter().filter(|fact| OF_PROCESSES.contains(&fact.name)));
        let script = script(FACTS.into_iter());
        let of_image = format!("/bin/busybox --install -s /bin; mkdir -p /tmp; {script}");
        let in_image = json!({"image": image, "command": "/bin/sh", "args": ["-c", of_image]});
        let of_host = json!({"command": "/bin/sh", "args": ["-c", script]});
        let spec = |driver, config| TaskSpec { memory_mb: 64, ..task("t", driver, config) };
        let runs = vec![
            run_without_ports(1, vec![spec("docker", in_image)]),
            run_without_ports(2, vec![spec("exec", of_host)]),
            run_without_ports(3, vec![shell("t", &of_process)]),
        ];
        world.server.desire(runs, &[], &[], &[]);
        let (container, command, process) =
            (probed_facts(&mut world, 1), probed_facts(&mut world, 2), probed_facts(&mut world, 3));
        let mut wrong = wrong(&FACTS, &format!("{runtime}, container"), &container, true);
        wrong.extend(self::wrong(&FACTS, &format!("{runtime}, command"), &command, false));
        assert!(wrong.is_empty(), "{wrong:#?}");
        // A process of the host is in no cage, but has nothing of its agent either.
        let expected = [
            ("mask of new files", "0022"),
            ("open files", "0 1 2 3"),
            ("ignored signals", "0"),
            ("blocked signals", "SigBlk:0000000000000000"),
            ("open files at most", "1024"),
            ("score when memory runs out", "0"),
            ("environment of the agent", "0"),
        ];
        for (name, expected) in expected {
            assert_eq!(process.get(name).map(|told| told.trim_end()), Some(expected.trim_end()), "{name}");
        }
    });
}

/// Somebody who runs a command within a cage: what is not so of it is who was there first, and what it reads.
const OF_TASKS_ALONE: [&str; 2] = ["its number", "input"];

const KINDS: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

#[test]
fn each_fact_of_a_cage_is_so_of_a_command_within_it() {
    with_each_runtime(|runtime, mut world, images| {
        let of_image = "/bin/busybox --install -s /bin; mkdir -p /tmp; touch /alloc/ready; exec sleep 1000";
        let in_image = json!({"image": images.join("root"), "command": "/bin/sh", "args": ["-c", of_image]});
        let of_host = json!({"command": "/bin/sh", "args": ["-c", "exec sleep 1000"]});
        let spec = |driver, config| TaskSpec { memory_mb: 64, ..task("t", driver, config) };
        let runs = vec![
            run_without_ports(1, vec![spec("docker", in_image)]),
            run_without_ports(2, vec![spec("exec", of_host)]),
        ];
        world.server.desire(runs, &[], &[], &[]);
        (1..=2).for_each(|number| drop(world.server.wait_for_status(number, ClientStatus::Running)));
        let ready = world.path(1, "alloc/ready");
        common::eventually("its programs", || ready.exists().then_some(()));
        let facts: Vec<Fact> =
            FACTS.into_iter().filter(|fact| !OF_TASKS_ALONE.contains(&fact.name)).collect();
        let namespaces = format!(
            "for kind in {}; do echo \"ns of $kind: $(readlink /proc/self/ns/$kind) $(readlink /proc/1/ns/$kind)\"; done",
            KINDS.join(" ")
        );
        let probes = FACTS.into_iter().filter(|fact| !OF_TASKS_ALONE.contains(&fact.name));
        let script = script(probes) + &namespaces;
        let mut wrong = Vec::new();
        for (request, (number, tty)) in (1..).zip([(1, false), (1, true), (2, false), (2, true)]) {
            let mut exec = Exec::start(&mut world.server, request, number, &["/bin/sh", "-c", &script], tty);
            let end = exec.end(&mut world.server);
            let whose =
                format!("{runtime}, {}, terminal {tty}", ["container", "command"][usize::from(number) - 1]);
            assert_eq!(end, Ok(0), "{whose}: {}{}", exec.shown(), String::from_utf8_lossy(&exec.stderr));
            let mut told = pairs(&exec.shown());
            // Versions of runc race with the runtime of Go, which raises this limit as far as the process might itself.
            if runtime.ends_with("runc") && told.get(OPEN_FILES).is_some_and(|most| most == OPEN_FILES_HARD) {
                told.insert(OPEN_FILES.to_owned(), "1024".to_owned());
            }
            wrong.extend(self::wrong(&facts, &whose, &told, number == 1));
            for kind in KINDS {
                let both = told
                    .get(&format!("ns of {kind}"))
                    .map_or("", String::as_str)
                    .split_once(' ')
                    .unwrap_or_default();
                let of_host = fs::read_link(format!("/proc/self/ns/{kind}")).expect("a namespace");
                if both.0.is_empty() || both.0 != both.1 || *both.0 == *of_host.to_string_lossy() {
                    wrong.push(format!(
                        "{whose}, namespace {kind}: {both:?}, that of the host is {of_host:?}"
                    ));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

/// What an operator allows is there for those who add it, and for nobody else.
#[test]
fn a_container_may_add_what_the_operator_allows() {
    let Some(runtime) = busybox::runtimes().into_iter().next() else { return };
    let images = busybox::image(&["sh"]);
    // What asks for a socket that reads packets, on an interface where it has no use for it.
    let probe = "grep CapEff /proc/self/status; /bin/busybox arping -c 1 -I lo 127.0.0.1 2>&1";
    let container = |added: &[&str]| {
        let in_image = json!({"image": images.path().join("root"), "command": "/bin/busybox",
            "args": ["sh", "-c", format!("/bin/busybox --install -s /bin; {probe}; true")], "cap_add": added});
        TaskSpec { memory_mb: 64, ..task("t", "docker", in_image) }
    };
    for (allowed, added, rights, said) in [
        ("net_raw sys_ptrace", &["net_raw"][..], Some("00000000a00425fb"), "not ARPable"),
        ("net_raw sys_ptrace", &[], Some("00000000a00405fb"), "not permitted"),
        ("", &["net_raw"], None, "--extra-capabilities net_raw"),
    ] {
        let mut world = World::with_settings(runtime, images.path(), vec![("AGENT_CAPABILITIES", allowed)]);
        world.server.desire(vec![run_without_ports(1, vec![container(added)])], &[], &[], &[]);
        let status = world.server.wait_for(1, |status| status.status().is_terminal());
        let seen = match rights {
            Some(_) => world.server.read_log(1, "t", 0, false).expect("a log"),
            None => format!("{:?}", status.tasks[0].events),
        };
        assert!(seen.contains(rights.unwrap_or_default()) && seen.contains(said), "{added:?}: {seen}");
    }
}

/// Namespaces are told by numbers: none of a cage is the host's.
#[test]
fn no_namespace_is_the_hosts() {
    let Some(runtime) = busybox::runtimes().into_iter().next() else { return };
    let images = busybox::image(&["sh"]);
    let mut world = World::with_runtime(runtime, images.path());
    let probe = format!("exec 2>&1; for kind in {}; do readlink /proc/$$/ns/$kind; done", KINDS.join(" "));
    let of_image = format!("/bin/busybox --install -s /bin; {probe}");
    let in_image =
        json!({"image": images.path().join("root"), "command": "/bin/sh", "args": ["-c", of_image]});
    let of_host = json!({"command": "/bin/sh", "args": ["-c", probe]});
    let runs = vec![
        run_without_ports(1, vec![task("t", "docker", in_image)]),
        run_without_ports(2, vec![task("t", "exec", of_host)]),
    ];
    world.server.desire(runs, &[], &[], &[]);
    for number in 1..=2 {
        let told = printed(&mut world, number);
        let of_host = |kind: &str| fs::read_link(format!("/proc/self/ns/{kind}")).expect("a namespace");
        let told: Vec<&str> = told.lines().collect();
        assert_eq!(told.len(), KINDS.len(), "{told:?}");
        for (kind, told) in KINDS.iter().zip(told) {
            assert_ne!(of_host(kind).to_string_lossy(), told, "{kind}");
        }
    }
}
