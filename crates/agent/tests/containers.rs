//! Containers with real runtimes: busybox as the whole image.

#[allow(dead_code)]
mod common;
#[path = "common/exec.rs"]
#[allow(dead_code)]
mod exec;
#[cfg(target_arch = "x86_64")]
#[path = "containers/kernel.rs"]
mod kernel;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/containers.rs"]
#[allow(dead_code)]
mod world;

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use berth_api::agent::{ClientStatus, PortBinding, TaskEventEntry, TaskEventKind};
use common::{alloc_id, eventually};
use exec::Exec;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use server::Server;
use world::World;

fn output_and_exit_code(runtime: &str) {
    let Some(mut world) = World::new(runtime) else { return };
    let (root, archive) = (world.root(), world.archive());
    let first = world.first;
    world.shell(first, &root, "echo hello; id -u; hostname; exit 7");
    let status = world.server.wait_for_status(first, ClientStatus::Failed);
    assert_eq!((status.tasks[0].exit_code, status.tasks[0].signal), (7, 0), "{:?}", status.tasks[0].events);
    let host = format!("{first:02x}").repeat(4);
    assert_eq!(world.server.read_log(first, "t", 0, false), Ok(format!("hello\n0\n{host}\n")));
    for number in first + 1..=first + 2 {
        world.shell(number, &archive, "echo from an archive > /tmp/f; cat /tmp/f");
        world.server.wait_for_status(number, ClientStatus::Complete);
        assert_eq!(world.server.read_log(number, "t", 0, false).as_deref(), Ok("from an archive\n"));
    }
    let images = fs::read_dir(world.data.path().join("images/layers")).expect("the cache").count();
    assert_eq!((images, world.image.path().join("root/tmp/f").exists()), (1, false));
}

#[test]
fn crun_runs_a_container_and_its_exit_code_is_reported() {
    output_and_exit_code("/usr/bin/crun");
}

#[test]
fn runc_runs_a_container_and_its_exit_code_is_reported() {
    output_and_exit_code("/usr/sbin/runc");
}

/// Of 64 MiB of disk and 32 of memory, a call reserves at most the larger.
fn one_reservation(runtime: &str) {
    let Some(mut world) = World::new(runtime) else { return };
    world.disk_mb = 64;
    let first = world.first;
    let script = "busybox fallocate -l $((65 << 20)) /a 2>&1 | sed 's/.*: //'; busybox fallocate -l $((33 << 20)) /b; \
                  busybox stat -c %s /a /b";
    let expected = format!("No space left on device\n0\n{}\n", 33 << 20);
    world.shell(first, &world.root(), script);
    world.server.wait_for_status(first, ClientStatus::Complete);
    assert_eq!(world.server.read_log(first, "t", 0, false), Ok(expected));
    // What the host mounts has no limit.
    let script = "busybox fallocate -l $((65 << 20)) /mnt/a && busybox stat -c %s /mnt/a";
    let source = world.image.path().join("mounts/rw");
    let config = json!({
        "image": world.root(), "command": "/bin/sh", "args": ["-c", script],
        "mounts": [{"type": "bind", "source": source, "target": "/mnt"}],
    });
    world.run(first + 1, config);
    world.server.wait_for_status(first + 1, ClientStatus::Complete);
    assert_eq!(world.server.read_log(first + 1, "t", 0, false), Ok(format!("{}\n", 65 << 20)));
}

#[test]
fn crun_reserves_no_more_than_the_disk_limit_at_once() {
    one_reservation("/usr/bin/crun");
}

#[test]
fn runc_reserves_no_more_than_the_disk_limit_at_once() {
    one_reservation("/usr/sbin/runc");
}

/// What a task finds when it feels along the bars.
#[test]
fn a_container_is_a_cage() {
    // The fourth file is the directory that `ls` lists.
    let expected = expect_test::expect![[r#"
        0 1 2 3 /dev/null
        pid 1
        CapEff: 00000000a00405fb CapBnd: 00000000a00405fb NoNewPrivs: 1 Seccomp: 2 
        alloc bin dev etc local proc secrets sys tmp 
        lo 
        no mount
        read-only
        no device
        no namespace
        0
        local
        shared
    "#]];
    for runtime in ["/usr/bin/crun", "/usr/sbin/runc"] {
        let Some(mut world) = World::new(runtime) else { return };
        let root = world.root();
        let probe = "sh -c 'exec busybox ls /proc/self/fd' > /tmp/fds; tr '\\n' ' ' < /tmp/fds; readlink /proc/$$/fd/0; echo pid $$; \
                     grep -E 'Cap(Eff|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status | tr '\\n\\t' '  '; echo; \
                     ls / | tr '\\n' ' '; echo; ls /sys/class/net | tr '\\n' ' '; echo; \
                     mount -t tmpfs x /tmp 2>/dev/null || echo no mount; \
                     echo 1 > /proc/sys/kernel/panic 2>/dev/null || echo read-only; \
                     mknod /tmp/null c 1 3 2>/dev/null || echo no device; \
                     unshare -U true 2>/dev/null || echo no namespace; \
                     cat /proc/slabinfo /proc/vmallocinfo /proc/interrupts /proc/kpagecount 2>/dev/null | wc -c; \
                     wc -c < /proc/kcore; echo x > /local/x && echo local; echo x > /alloc/x && echo shared";
        let number = world.first;
        world.shell(number, &root, probe);
        world.server.wait_for_status(number, ClientStatus::Complete);
        let seen = world.server.read_log(number, "t", 0, false).expect("a log");
        expected.assert_eq(&seen);
    }
}

#[test]
fn a_container_is_stopped_and_leaves_nothing() {
    for runtime in ["/usr/bin/crun", "/usr/sbin/runc"] {
        let Some(mut world) = World::new(runtime) else { return };
        let root = world.root();
        let number = world.first;
        let both = [number, number + 1];
        world.shell(number, &root, "trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done");
        world.shell(number + 1, &root, "sleep 1000 & sleep 1000; true");
        both.iter().for_each(|number| drop(world.server.wait_for_status(*number, ClientStatus::Running)));
        let record = |number: u8| {
            let id = berth_api::agent::AllocId(alloc_id(number));
            let dir = world.data.path().join(format!("allocs/{id}/keepers/t"));
            berth_agent::keeper::plan::StartRecord::read(&dir).expect("readable").expect("a record")
        };
        let records = both.map(record);
        let log = world
            .data
            .path()
            .join(format!("allocs/{}/logs/t.stdout.0", berth_api::agent::AllocId(alloc_id(number))));
        eventually("the trap", || (fs::metadata(&log).ok()?.len() > 0).then_some(()));
        world.server.desire(Vec::new(), &both, &[], &[]);
        let ends = both.map(|number| {
            let status = world.server.wait_for_status(number, ClientStatus::Complete);
            (status.tasks[0].exit_code, status.tasks[0].signal)
        });
        assert_eq!(ends, [(3, 0), (137, 9)]);
        for record in records {
            assert!(!Path::new(&format!("/proc/{}", record.pid)).exists());
            let id = record.container.expect("a container").id;
            assert!(!Path::new("/sys/fs/cgroup/memory/berth").join(id).exists(), "a cgroup is left");
        }
    }
}

#[test]
fn a_container_without_a_keeper_is_cleaned_up() {
    let Some(mut world) = World::new("/usr/bin/crun") else { return };
    let root = world.root();
    let number = world.first;
    world.shell(number, &root, "while [ ! -e /alloc/go ]; do sleep 0.01; done");
    world.server.wait_for_status(number, ClientStatus::Running);
    let alloc = world.data.path().join(format!("allocs/{}", berth_api::agent::AllocId(alloc_id(number))));
    let record = berth_agent::keeper::plan::StartRecord::read(&alloc.join("keepers/t"))
        .expect("readable")
        .expect("one");
    let keeper = Pid::from_raw(record.keeper_pid).expect("a process");
    kill_process(keeper, Signal::KILL).expect("killed");
    fs::write(alloc.join("alloc/go"), "").expect("written");
    let status = world.server.wait_for_status(number, ClientStatus::Failed);
    assert_eq!(status.tasks[0].exit_code, -1);
    let id = record.container.expect("a container").id;
    assert!(!Path::new("/sys/fs/cgroup/memory/berth").join(id).exists(), "a cgroup is left");
}

/// What a task may replace is not what its agent changes.
#[test]
fn an_oom_kill_is_reported() {
    let Some(mut world) = World::new("/usr/bin/crun") else { return };
    let root = world.root();
    let number = world.first;
    world.shell(number, &root, "x=$(tail -c 200000000 /dev/zero | tr '\\0' x); echo survived");
    let status = world.server.wait_for(number, |status| status.status().is_terminal());
    if status.tasks[0].exit_code == 0 {
        eprintln!("skipped: the kernel does not limit memory here");
        return;
    }
    assert!(status.tasks[0].oom_killed, "{:?}", status.tasks[0].events);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let Some(mut world) = World::new("/usr/bin/crun") else { return };
    let root = world.root();
    let bad = [
        json!({"image": root, "command": "x", "privileged": true}),
        json!({"image": root, "command": "x", "network_mode": "weave"}),
        json!({"image": root}),
        json!({"image": "Redis:7", "command": "x"}),
        json!({"image": "/etc", "command": "x"}),
        json!({"image": root, "command": "/nowhere"}),
        json!({"image": root, "command": "x", "network_mode": "host"}),
        json!({"image": root, "command": "x", "network_mode": "none", "ports": ["http"]}),
        json!({"image": root, "command": "x", "ports": ["http"]}),
    ];
    let messages = bad.into_iter().zip(world.first..).map(|(config, number)| {
        world.run(number, config);
        let status = world.server.wait_for_status(number, ClientStatus::Failed);
        let event = &status.tasks[0].events[2];
        let message = event.message.split(", expected").next().unwrap_or_default();
        format!("{}: {message}", event.kind().as_str())
    });
    let told = messages.collect::<Vec<_>>().join("\n");
    let reasons =
        ["privileged", "--host-network", "leaves no use for `ports`", "the group's network has no ports"];
    assert_eq!(told.lines().count(), 9, "{told}");
    assert!(reasons.iter().all(|reason| told.contains(reason)), "{told}");
}

fn commands_run_within(runtime: &str) {
    let Some(mut world) = World::new(runtime) else { return };
    let first = world.first;
    let script = "busybox hostname > /tmp/mine; exec busybox sleep 1000";
    world.run(first, json!({"image": world.root(), "command": "sh", "args": ["-c", script]}));
    world.server.wait_for_status(first, ClientStatus::Running);
    let seen = r#"while ! busybox cat /tmp/mine; do busybox sleep 0.01; done 2> /dev/null; busybox hostname; echo $NOMAD_TASK_NAME; read x; echo "$x"; exit 7"#;
    let mut exec = Exec::start(&mut world.server, 1, first, &["sh", "-c", seen], false);
    exec.input(&mut world.server, b"typed\n");
    assert_eq!(exec.end(&mut world.server), Ok(7), "{:?}", exec.shown());
    let name = berth_api::agent::AllocId(alloc_id(first)).to_string()[..8].to_owned();
    assert_eq!(exec.shown(), format!("{name}\n{name}\nt\ntyped\n"));

    // With a terminal: its size, its foreground process, its end.
    let mut exec =
        Exec::start(&mut world.server, 2, first, &["sh", "-c", "busybox tty; busybox sleep 1000"], true);
    exec.resize(&mut world.server, 31, 97);
    exec.until(&mut world.server, |exec| exec.shown().contains("/dev/"));
    exec.input(&mut world.server, &[3]);
    assert_eq!(exec.end(&mut world.server), Ok(130));
    let mut exec = Exec::start(&mut world.server, 3, first, &["/nowhere"], false);
    let refusal = exec.end(&mut world.server).expect_err("there is none");
    assert!(refusal.text.contains("run a command in the container with"), "{}", refusal.text);

    // Nobody waits any more: the command is ended, the container is not.
    let script = "echo up; busybox sleep 998";
    let mut exec = Exec::start(&mut world.server, 4, first, &["sh", "-c", script], false);
    exec.until(&mut world.server, |exec| exec.shown() == "up\n");
    exec.cancel(&mut world.server);
    let count = |server: &mut Server, request| {
        let script = "busybox ps | busybox grep -c '[s]leep 998'";
        let mut exec = Exec::start(server, request, first, &["sh", "-c", script], false);
        let _ = exec.end(server);
        exec.shown().trim().parse::<u32>().expect("a number")
    };
    let mut request = 5;
    while count(&mut world.server, request) > 0 {
        request += 1;
    }
    let mut exec = Exec::start(&mut world.server, 1000, first, &["sh", "-c", "read forever"], true);
    exec.until(&mut world.server, |exec| exec.room > 0);
    world.server.desire(Vec::new(), &[first], &[], &[]);
    assert!(exec.end(&mut world.server) != Ok(0));
    world.server.wait_for_status(first, ClientStatus::Complete);
}

#[test]
fn crun_runs_commands_within_a_container() {
    commands_run_within("/usr/bin/crun");
}

#[test]
fn runc_runs_commands_within_a_container() {
    commands_run_within("/usr/sbin/runc");
}

/// What listens on the host's loopback addresses, and counts who comes.
fn tempting_service() -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (port, met) = (listener.local_addr().expect("an address").port(), Arc::new(AtomicU32::new(0)));
    let count = met.clone();
    std::thread::spawn(move || {
        for _ in listener.incoming() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, met)
}

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

fn read_from(port: u16) -> Option<String> {
    let mut text = String::new();
    TcpStream::connect(("127.0.0.1", port)).ok()?.read_to_string(&mut text).ok()?;
    (!text.is_empty()).then_some(text)
}

fn a_port_leads_in_and_nothing_leads_out(runtime: &str) {
    let Some(mut world) = World::new(runtime) else { return };
    let (tempting, met) = tempting_service();
    let (number, port) = (world.first, free_port());
    let hosts = "127.0.0.1 $NOMAD_IP_http 0.0.0.0 10.0.0.1 169.254.169.254";
    // A port below 1024, without any rights; what it was told of its ports goes to who asks.
    let script = format!(
        "for host in {hosts}; do echo x | busybox nc -w 2 $host {tempting} && echo reached $host; done; \
         busybox ip route; echo tried; \
         while :; do echo $NOMAD_PORT_http $NOMAD_HOST_PORT_http | busybox nc -l -p 80; done"
    );
    let config = json!({"image": world.root(), "command": "sh", "args": ["-c", script], "ports": ["http"]});
    let binding =
        PortBinding { label: "http".into(), host_port: port.into(), to: 80, ..PortBinding::default() };
    world.run_with_ports(number, config.clone(), vec![binding.clone()]);
    world.server.wait_for_status(number, ClientStatus::Running);
    assert_eq!(eventually("an answer", || read_from(port)), format!("80 {port}\n"));
    // What it has printed may still be on its way.
    let log = || world.server.read_log(number, "t", 0, false).ok().filter(|log| !log.is_empty());
    assert_eq!(eventually("a log", log), "tried\n");
    assert_eq!(met.load(Ordering::SeqCst), 0);

    // Its keeper is killed: another one listens again.
    let dir =
        world.data.path().join(format!("allocs/{}/keepers/t", berth_api::agent::AllocId(alloc_id(number))));
    let record = berth_agent::keeper::plan::StartRecord::read(&dir).expect("readable").expect("a record");
    let keeper = Pid::from_raw(record.keeper_pid).expect("a process");
    kill_process(keeper, Signal::KILL).expect("killed");
    eventually("an answer", || read_from(port));

    // The port is taken: that is said, and nothing runs.
    world.run_with_ports(number + 1, config, vec![binding]);
    let status = world.server.wait_for_status(number + 1, ClientStatus::Failed);
    let told = format!("{:?}", status.tasks[0].events);
    let reason = format!("listen on 127.0.0.1:{port} for the port \\\"http\\\": Address already in use");
    assert!(told.contains(&reason), "{told}");
    world.server.desire(Vec::new(), &[number], &[], &[]);
    world.server.wait_for_status(number, ClientStatus::Complete);
    assert_eq!(read_from(port), None);
}

#[test]
fn a_port_leads_into_a_container_of_crun_and_nothing_leads_out() {
    a_port_leads_in_and_nothing_leads_out("/usr/bin/crun");
}

#[test]
fn a_port_leads_into_a_container_of_runc_and_nothing_leads_out() {
    a_port_leads_in_and_nothing_leads_out("/usr/sbin/runc");
}

/// A keeper that is killed while its container is being made leaves a call of the runtime behind, and whatever that starts.
#[test]
fn a_keeper_killed_at_any_moment_of_a_start_leaves_no_second_container() {
    for runtime in ["/usr/bin/crun", "/usr/sbin/runc"] {
        let Some(mut world) = World::new(runtime) else { return };
        world.restarts = 1;
        let root = world.root();
        // It says who it is in a directory that outlives it, and stays.
        for (number, wait_ms) in (world.first..).zip([0, 5, 10, 15, 20, 30, 45, 70]) {
            world.shell(number, &root, "echo up >> /alloc/starts; exec sleep 1000");
            let id = berth_api::agent::AllocId(alloc_id(number));
            let dir = world.data.path().join(format!("allocs/{id}"));
            let record = eventually("its claim", || {
                berth_agent::keeper::plan::StartRecord::read(&dir.join("keepers/t")).ok().flatten()
            });
            std::thread::sleep(std::time::Duration::from_millis(wait_ms));
            let _ = kill_process(Pid::from_raw(record.keeper_pid).expect("a process"), Signal::KILL);
            world.server.wait_for_status(number, ClientStatus::Running);
            // Whichever start it is: one container of it lives.
            let name = id.to_string();
            let living = || {
                let processes = fs::read_dir("/proc").expect("processes").flatten();
                let inside = processes.filter(|process| {
                    let cgroups = fs::read_to_string(process.path().join("cgroup")).unwrap_or_default();
                    let line = fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
                    cgroups.contains(&name) && line.starts_with("sleep")
                });
                inside.count()
            };
            eventually("one container of it", || (living() == 1).then_some(()));
            world.server.desire(Vec::new(), &[number], &[], &[]);
            world.server.wait_for(number, |status| status.status().is_terminal());
            eventually("its end", || (living() == 0).then_some(()));
            let left =
                ["memory", "pids", "."].map(|name| Path::new("/sys/fs/cgroup").join(name).join("berth"));
            let left = left.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
            let left = left.filter(|entry| entry.file_name().to_string_lossy().contains(&name));
            assert_eq!(left.count(), 0, "cgroups are left");
        }
    }
}

/// runc writes a process's id to a hidden file first, and does not replace one that a call which was killed left there.
#[test]
fn what_a_killed_call_of_the_runtime_left_does_not_fail_the_next_start() {
    for runtime in ["/usr/bin/crun", "/usr/sbin/runc"] {
        let Some(mut world) = World::new(runtime) else { return };
        world.restarts = 1;
        let (root, number) = (world.root(), world.first);
        world.shell(number, &root, "test -e /alloc/second && exit 0; touch /alloc/second; sleep 1; exit 1");
        let id = berth_api::agent::AllocId(alloc_id(number));
        let keeper = world.data.path().join(format!("allocs/{id}/keepers/t"));
        world.server.wait_for_status(number, ClientStatus::Running);
        fs::write(keeper.join(".pid"), "7").expect("left");
        world.server.wait_for_status(number, ClientStatus::Complete);
        assert!(!keeper.join(".pid").exists(), "{runtime}: the next start met it");
    }
}

#[test]
fn what_a_container_made_is_removed_however_deep_it_is() {
    for runtime in ["/usr/bin/crun", "/usr/sbin/runc"] {
        let Some(mut world) = World::new(runtime) else { return };
        world.restarts = 1;
        let (root, number) = (world.root(), world.first);
        // Deeper than a recursion gets that holds each open. `cd -P` looks up no more than it is told.
        let steps = ["d"; 60].join("/");
        let script = format!(
            "[ -e /deep ] && exit 8; [ -e /alloc/second ] && exit 6; touch /alloc/second; mkdir /deep; cd /deep; i=0; \
             while [ $i -lt 200 ]; do mkdir -p {steps} && cd -P {steps} || exit 9; i=$((i+1)); done 2> /dev/null; exit 7"
        );
        world.shell(number, &root, &script);
        let status = world.server.wait_for_status(number, ClientStatus::Failed);
        let ended = |event: &&TaskEventEntry| event.kind() == TaskEventKind::Terminated;
        let ends = status.tasks[0].events.iter().filter(ended);
        let ends: Vec<(i32, &str)> = ends.map(|event| (event.exit_code, event.message.as_str())).collect();
        assert_eq!(ends, [(7, ""), (6, "")], "{runtime}");
        let id = berth_api::agent::AllocId(alloc_id(number));
        let keeper = world.data.path().join(format!("allocs/{id}/keepers/t"));
        assert!(!keeper.join("bundle").exists(), "{runtime}: its layer is left");
    }
}

/// The layer of an earlier start would show what that wrote.
#[test]
fn a_layer_that_cannot_be_removed_fails_the_next_start_by_name() {
    let Some(mut world) = World::new("/usr/bin/crun") else { return };
    world.restarts = 1;
    let (root, number) = (world.root(), world.first);
    let script = "[ -e /kept ] && exit 8; touch /kept; until [ -e /alloc/go ]; do sleep 0.01; done; exit 7";
    world.shell(number, &root, script);
    world.server.wait_for_status(number, ClientStatus::Running);
    let id = berth_api::agent::AllocId(alloc_id(number));
    let alloc = world.data.path().join(format!("allocs/{id}"));
    let kept = alloc.join("keepers/t/bundle/upper/kept");
    eventually("its file", || kept.exists().then_some(()));
    let chattr = |flag: &str| Command::new("chattr").arg(flag).arg(&kept).status();
    let is_set = chattr("+i").is_ok_and(|status| status.success());
    fs::write(alloc.join("alloc/go"), "").expect("written");
    let status = world.server.wait_for_status(number, ClientStatus::Failed);
    let told: Vec<&str> = status.tasks[0].events.iter().map(|event| event.message.as_str()).collect();
    if is_set {
        chattr("-i").expect("unset");
        assert!(
            told.iter().any(|message| message.contains("remove ") && message.contains("bundle")),
            "{told:?}"
        );
    } else {
        eprintln!("skipped: no file here can be made immutable");
    }
}
