//! The exec driver with real runtimes: isolated commands of the host.

#[path = "common/busybox.rs"]
#[allow(dead_code)]
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

use std::fs;
use std::path::Path;

use berth_api::agent::{ClientStatus, TaskSpec};
use common::eventually;
use exec::Exec;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use world::{World, run_without_ports, task};

/// None, with the reason printed, where containers cannot run.
fn world() -> Option<World> {
    (!busybox::runtimes().is_empty()).then(World::new)
}

fn caged(config: Value) -> TaskSpec {
    TaskSpec { memory_mb: 64, cpu_mhz: 100, kill_timeout_ms: 500, ..task("t", "exec", config) }
}

fn shell(script: &str) -> TaskSpec {
    caged(json!({"command": "/bin/sh", "args": ["-c", script]}))
}

#[test]
fn a_command_of_the_host_is_in_a_cage() {
    let Some(mut world) = world() else { return };
    let probe = "id -u; id -g; pwd; echo pid $$; \
        grep -E 'Cap(Eff|Bnd|Prm)|NoNewPrivs|Seccomp:' /proc/self/status | tr '\\n\\t' '  '; echo; \
        for d in root home var opt srv mnt boot run; do ls -d /$d 2>/dev/null; done; \
        for f in /usr/x /etc/x /bin/x /x /proc/sys/kernel/panic; do (: > $f) 2>/dev/null && echo wrote $f; done; \
        for d in /tmp /local /alloc /secrets; do (: > $d/x) && echo $d; done; \
        head -c 1 /etc/shadow 2>/dev/null | wc -c; ls /proc > /tmp/p; grep -c '^[0-9]' /tmp/p; ls /dev | tr '\\n' ' '; echo; \
        ls /sys/class/net | tr '\\n' ' '; echo; grep -c . /etc/hosts; \
        echo $NOMAD_TASK_DIR $HOME";
    world.server.desire(vec![run_without_ports(1, vec![shell(probe)])], &[], &[], &[]);
    world.server.wait_for(1, |status| status.status().is_terminal());
    let seen = world.server.read_log(1, "t", 0, false).expect("a log");
    expect_test::expect![[r#"
        65534
        65534
        /
        pid 1
        CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 
        /tmp
        /local
        /alloc
        /secrets
        0
        2
        core fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero 
        lo 
        3
        /local /
    "#]]
    .assert_eq(&seen);
}

#[test]
fn it_has_the_rights_that_its_job_names() {
    let Some(mut world) = world() else { return };
    let probe = "id -u; grep Cap /proc/self/status | tr -d '\\t'; head -c 1 /etc/shadow 2>/dev/null | wc -c";
    let config =
        json!({"command": "/bin/sh", "args": ["-c", probe], "cap_add": ["net_bind_service", "CAP_KILL"]});
    world.server.desire(vec![run_without_ports(1, vec![caged(config)])], &[], &[], &[]);
    world.server.wait_for(1, |status| status.status().is_terminal());
    let rights = "0000000000000420";
    let sets = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}:{rights}\n"));
    let seen = world.server.read_log(1, "t", 0, false).expect("a log");
    assert_eq!(seen, format!("65534\n{}0\n", sets.concat()));
}

#[test]
fn it_ends_with_all_that_it_started_and_leaves_nothing() {
    let Some(mut world) = world() else { return };
    let script = "trap '' TERM INT; (setsid sleep 43210987 &) ; (setsid sleep 43210987 &); echo up; while :; do sleep 1; done";
    world.server.desire(vec![run_without_ports(2, vec![shell(script)])], &[], &[], &[]);
    world.server.wait_for_status(2, ClientStatus::Running);
    let record = world.path(2, "keepers/t");
    let record = berth_agent::keeper::plan::StartRecord::read(&record).expect("readable").expect("a record");
    let mut exec =
        Exec::start(&mut world.server, 1, 2, &["sh", "-c", "id -u; ls /proc | grep -c '^[0-9]'"], false);
    assert_eq!(exec.end(&mut world.server), Ok(0), "{}", exec.shown());
    assert!(exec.shown().starts_with("65534\n"), "{}", exec.shown());

    // Its keeper may be killed, and the agent too.
    let keeper = Pid::from_raw(record.keeper_pid).expect("a process");
    kill_process(keeper, Signal::KILL).expect("killed");
    world.kill_agent();
    world.restart_agent();
    world.server.desire(Vec::new(), &[2], &[], &[]);
    world.server.wait_for(2, |status| status.status().is_terminal());
    let processes = fs::read_dir("/proc").expect("listed").flatten();
    let of_task = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
    let left = processes.map(of_task).filter(|line| line.contains("43210987"));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
    let id = record.container.expect("a container").id;
    let cgroups = ["memory", "pids", "unified", ""]
        .map(|name| Path::new("/sys/fs/cgroup").join(name).join("berth").join(&id));
    assert!(cgroups.iter().all(|dir| !dir.exists()), "a cgroup is left");
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    assert!(!mounts.contains(&*world.data.path().to_string_lossy()), "{mounts}");
}

#[test]
fn a_killed_one_leaves_the_hosts_files_alone() {
    let Some(mut world) = world() else { return };
    let before = fs::read_dir("/usr/bin").expect("listed").count();
    world.server.desire(vec![run_without_ports(3, vec![shell("sleep 1000")])], &[], &[], &[]);
    world.server.wait_for_status(3, ClientStatus::Running);
    world.server.desire(Vec::new(), &[3], &[], &[]);
    world.server.wait_for(3, |status| status.status().is_terminal());
    world.server.desire(Vec::new(), &[], &[], &[3]);
    let dir = world.path(3, "");
    eventually("its directory is gone", || (!dir.exists()).then_some(()));
    assert_eq!(fs::read_dir("/usr/bin").expect("listed").count(), before);
}

#[test]
fn what_it_may_not_have_is_refused_by_name() {
    let Some(mut world) = world() else { return };
    let command = json!({"command": "/bin/true"});
    let with = |more: Value| {
        let mut config = command.clone();
        if let (Some(config), Some(more)) = (config.as_object_mut(), more.as_object()) {
            config.extend(more.clone());
        }
        caged(config)
    };
    let bad = [
        (TaskSpec { user: "root".into(), ..with(json!({})) }, "exec runs nothing as root"),
        (TaskSpec { user: "0".into(), ..with(json!({})) }, "exec runs nothing as root"),
        (TaskSpec { user: "ghost".into(), ..with(json!({})) }, "find the user ghost: there is none"),
        (with(json!({"pid_mode": "host"})), "pid_mode \\\"host\\\" would let it reach"),
        (with(json!({"ipc_mode": "host"})), "ipc_mode \\\"host\\\" would let it reach"),
        (with(json!({"cap_add": ["sys_admin"]})), "CAP_SYS_ADMIN"),
        // The host's files have the same owners for it.
        (
            with(json!({"cap_add": ["dac_override"]})),
            "gives to no command of the host: it may have CAP_AUDIT_WRITE",
        ),
        (with(json!({"image": "x"})), "unknown field `image`"),
        (caged(json!({})), "command is empty"),
    ];
    for ((task, reason), number) in bad.into_iter().zip(10..) {
        world.server.desire(vec![run_without_ports(number, vec![task])], &[], &[], &[]);
        let status = world.server.wait_for_status(number, ClientStatus::Failed);
        let message = format!("{:?}", status.tasks[0].events);
        assert!(message.contains(reason), "{reason}: {message}");
    }
}
