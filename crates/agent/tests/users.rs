//! Users of containers with real runtimes: root in one is an unprivileged user of the host, and files keep their owners on disk.

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

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use berth_agent::keeper::plan::StartRecord;
use berth_api::agent::{ClientStatus, HookSpec, TaskSpec};
use busybox::{image, runtimes};
use common::eventually;
use exec::Exec;
use serde_json::{Value, json};
use tempfile::TempDir;
use world::{World, run_without_ports, shell, task};

/// The first id of a container on the host, by default.
const FIRST: u32 = 0x7000_0000;

/// An image of busybox, and worlds of both runtimes; none, with the reason printed, where containers cannot run.
fn worlds() -> Vec<(World, TempDir)> {
    let world = |runtime: &str| {
        let images =
            image(&["sh", "id", "cat", "stat", "chown", "sleep", "ls", "touch", "true", "mkdir", "tr"]);
        let root = images.path().join("root");
        for dir in ["tmp", "etc", "own"] {
            fs::create_dir_all(root.join(dir)).expect("made");
        }
        fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nwww:x:33:33::/own:\n")
            .expect("written");
        chown(root.join("own"), Some(33), Some(33)).expect("given");
        (World::with_runtime(runtime, images.path()), images)
    };
    runtimes().into_iter().map(world).collect()
}

fn contained(image: &Path, user: &str, script: &str) -> TaskSpec {
    let config = json!({"image": image, "command": "/bin/sh", "args": ["-c", script]});
    TaskSpec {
        user: user.into(),
        memory_mb: 64,
        cpu_mhz: 100,
        kill_timeout_ms: 500,
        ..task("t", "docker", config)
    }
}

fn record(world: &World, number: u8) -> StartRecord {
    StartRecord::read(&world.path(number, "keepers/t")).expect("readable").expect("a record")
}

/// The ids that a process has on the host: real, effective, saved, of files.
fn ids_on_host(pid: i32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("ids");
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn root_of_a_container_is_nobody_of_the_host_and_files_have_the_owners_of_the_disk() {
    for (mut world, images) in worlds() {
        let image = images.path().join("root");
        let script = "cat /proc/self/uid_map | tr -s ' '; stat -c '%n %u' / /etc /bin/busybox /own /etc/hosts; \
                      echo mine > /own/file; chown 33:33 /own/file; stat -c %u /own/file; \
                      echo kept > /local/file; chown 33:33 /local/file; mkdir /alloc/data/d; \
                      echo to the pipe > /dev/stdout; exec sleep 1000";
        world.server.desire(vec![run_without_ports(1, vec![contained(&image, "", script)])], &[], &[], &[]);
        world.server.wait_for_status(1, ClientStatus::Running);
        eventually("its output", || {
            world.server.read_log(1, "t", 0, false).ok().filter(|log| log.contains("to the pipe"))
        });
        let seen = world.server.read_log(1, "t", 0, false).expect("a log");
        let owners = "/ 0\n/etc 0\n/bin/busybox 0\n/own 33\n/etc/hosts 0\n33\nto the pipe";
        assert_eq!(seen.trim(), format!("0 {FIRST} 65536\n{owners}"));
        let start = record(&world, 1);
        assert_eq!(
            (start.first_id, ids_on_host(start.pid)),
            (FIRST, format!("{FIRST} {FIRST} {FIRST} {FIRST}"))
        );
        // What it wrote is, on disk, whose it was within.
        let owner = |path: &str| world.path(1, path).metadata().expect("a file").uid();
        assert_eq!([owner("tasks/t/local/file"), owner("alloc/data/d")], [33, 0]);

        // Nothing of the host became its own.
        let null = fs::metadata("/dev/null").expect("a device");
        assert_eq!((null.uid(), null.gid()), (0, 0), "somebody has the host's /dev/null");

        // A command within is as much a nobody, and may use what its standard output is called.
        let mut exec = Exec::start(
            &mut world.server,
            1,
            1,
            &["sh", "-c", "id -u; cat /own/file; echo out > /dev/stdout"],
            false,
        );
        assert_eq!(exec.end(&mut world.server), Ok(0), "{}", exec.shown());
        assert_eq!(exec.shown(), "0\nmine\nout\n");

        // Another allocation has other ids, after the agent was killed, too.
        world.kill_agent();
        world.restart_agent();
        let script = "id -u; id -g; echo x > /own/x && stat -c %u /own/x; echo y > /local/y && stat -c %u /local/y; \
                      echo z 2>/dev/null > /etc/z || echo no; echo said > /dev/stdout; exec sleep 1000";
        world.server.desire(
            vec![run_without_ports(2, vec![contained(&image, "www", script)])],
            &[],
            &[],
            &[],
        );
        world.server.wait_for_status(2, ClientStatus::Running);
        eventually("its output", || {
            world.server.read_log(2, "t", 0, false).ok().filter(|log| log.contains("said"))
        });
        assert_eq!(world.server.read_log(2, "t", 0, false).as_deref(), Ok("33\n33\n33\n33\nno\nsaid\n"));
        let second = record(&world, 2);
        let www = second.first_id + 33;
        assert_eq!(
            (second.first_id, ids_on_host(second.pid)),
            (FIRST + 65_536, format!("{www} {www} {www} {www}"))
        );
        world.server.desire(Vec::new(), &[1, 2], &[], &[]);
        [1, 2]
            .iter()
            .for_each(|number| drop(world.server.wait_for(*number, |status| status.status().is_terminal())));
    }
}

#[test]
fn a_user_beyond_the_ids_of_a_container_is_refused_by_name() {
    let Some((mut world, images)) = worlds().into_iter().next() else { return };
    let image = images.path().join("root");
    let mut hosts = contained(&image, "", "true");
    let mut config: Value = serde_json::from_str(&hosts.config_json).expect("json");
    config["userns_mode"] = "host".into();
    hosts.config_json = config.to_string();
    let refused =
        [(contained(&image, "100000", "true"), "its id 100000 is beyond the 65536"), (hosts, "--host-users")];
    for ((task, why), number) in refused.into_iter().zip(1..) {
        world.server.desire(vec![run_without_ports(number, vec![task])], &[], &[], &[]);
        let status = world.server.wait_for_status(number, ClientStatus::Failed);
        let message = format!("{:?}", status.tasks[0].events);
        assert!(message.contains(why), "{message}");
    }
}

/// What tasks of a group share stays theirs, whichever of them starts last.
#[test]
fn a_tasks_start_does_not_shut_out_its_siblings() {
    for (mut world, images) in worlds() {
        let image = images.path().join("root");
        let sees = |dir: &str| {
            format!(
                "until [ -e {dir}/data/go ]; do sleep 0.1; done; echo x > {dir}/data/mine && echo done; sleep 1000"
            )
        };
        let last = || {
            let script = "touch \"$NOMAD_ALLOC_DIR/data/go\"; exec sleep 1000";
            TaskSpec { hook: HookSpec::Poststart.into(), kill_timeout_ms: 500, ..shell("last", script) }
        };
        let host = TaskSpec { user: "daemon".into(), ..shell("t", &sees("$NOMAD_ALLOC_DIR")) };
        fs::set_permissions(world.data.path(), fs::Permissions::from_mode(0o711)).expect("set");
        for (number, first) in [(1, contained(&image, "www", &sees("/alloc"))), (2, host)] {
            let first = TaskSpec { kill_timeout_ms: 500, ..first };
            world.server.desire(vec![run_without_ports(number, vec![first, last()])], &[], &[], &[]);
            world.server.wait_for_status(number, ClientStatus::Running);
            eventually("what another has written", || {
                world.server.read_log(number, "t", 0, false).ok().filter(|log| log.contains("done"))
            });
        }
    }
}
