//! Limits are enforced: memory, processes and processors of tasks of the host, and processes of containers.

#[path = "common/busybox.rs"]
mod busybox;
#[allow(dead_code)]
mod common;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use std::fs;
use std::path::{Path, PathBuf};

use berth_agent::keeper::plan::StartRecord;
use berth_api::agent::{ClientStatus, TaskSpec};
use common::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;
use world::{World, run, run_without_ports, shell, task};

/// None, with the reason printed, where nothing limits tasks of the host.
fn started(world: &mut World, number: u8, spec: TaskSpec) -> Option<StartRecord> {
    world.server.desire(vec![run(number, vec![spec])], &[], &[], &[]);
    world.server.wait_for(number, |status| status.tasks.iter().any(|task| task.started_ns > 0));
    let start = StartRecord::read(&world.path(number, "keepers/t")).expect("readable").expect("a record");
    if file(&start, "pids.max").is_none() {
        eprintln!("skipped: this host has no controllers that Berth may use");
        return None;
    }
    Some(start)
}

/// The file of this name in one of the task's cgroups: those of version 1 are one for each controller.
fn file(start: &StartRecord, name: &str) -> Option<PathBuf> {
    cgroups(start).into_iter().map(|cgroup| cgroup.join(name)).find(|path| path.exists())
}

fn cgroups(start: &StartRecord) -> Vec<PathBuf> {
    [&start.cgroup].into_iter().chain(&start.limiting).map(PathBuf::from).collect()
}

fn are_gone(start: &StartRecord) -> bool {
    cgroups(start).iter().all(|cgroup| !cgroup.exists())
}

#[test]
fn a_task_of_the_host_that_takes_too_much_memory_is_killed_with_that_reason() {
    let mut world = World::new();
    let script = "x=$(tail -c 200000000 /dev/zero | tr '\\0' x); echo survived";
    let spec = TaskSpec { memory_mb: 32, ..shell("t", script) };
    let Some(start) = started(&mut world, 1, spec) else { return };
    let status = world.server.wait_for(1, |status| status.status().is_terminal());
    assert!(status.tasks[0].oom_killed, "{:?}", status.tasks[0].events);
    assert!(are_gone(&start), "{:?}", cgroups(&start));
}

#[test]
fn a_task_of_the_host_has_its_share_of_processes_and_processors_after_its_keeper_too() {
    let mut world = World::new();
    let spec = TaskSpec { cpu_mhz: 300, memory_mb: 40, memory_max_mb: 50, ..shell("t", "exec sleep 1000") };
    let Some(start) = started(&mut world, 1, spec) else { return };
    let read =
        |name: &str| fs::read_to_string(file(&start, name).expect(name)).expect("a file").trim().to_owned();
    let limits = match file(&start, "memory.max").is_some() {
        true => ["cpu.weight", "pids.max", "memory.max", "memory.low"].map(read),
        false => ["cpu.shares", "pids.max", "memory.limit_in_bytes", "memory.soft_limit_in_bytes"].map(read),
    };
    // A weight of 12 is what 300 shares are.
    assert!(["12", "300"].contains(&limits[0].as_str()), "{limits:?}");
    assert_eq!(limits[1..], ["4096".to_owned(), (50 << 20).to_string(), (40 << 20).to_string()]);
    assert_eq!(read("cgroup.procs"), start.pid.to_string());
    let keeper = Pid::from_raw(start.keeper_pid).expect("a process");
    kill_process(keeper, Signal::KILL).expect("killed");
    world.server.desire(Vec::new(), &[1], &[], &[]);
    world.server.wait_for(1, |status| status.status().is_terminal());
    assert!(are_gone(&start), "{:?}", cgroups(&start));
}

/// A world whose containers have busybox; none, with the reason printed, where containers cannot run.
fn world_of_containers() -> Option<(World, TempDir)> {
    let runtime = busybox::runtimes().into_iter().next()?;
    let images = busybox::image(&["sh"]);
    Some((World::with_runtime(runtime, images.path()), images))
}

fn contained(images: &TempDir, script: &str, pids: u32) -> TaskSpec {
    let image = images.path().join("root");
    let config = json!({"image": image, "command": "/bin/sh", "args": ["-c", script], "pids_limit": pids});
    TaskSpec { memory_mb: 64, kill_timeout_ms: 500, ..task("t", "docker", config) }
}

#[test]
fn a_container_that_forks_without_end_ends_with_all_that_it_forked() {
    let Some((mut world, images)) = world_of_containers() else { return };
    let bomb = "f() { f | f & }; f; while :; do busybox true; done";
    world.server.desire(vec![run(1, vec![contained(&images, bomb, 30)])], &[], &[], &[]);
    world.server.wait_for(1, |status| status.tasks.iter().any(|task| task.started_ns > 0));
    // Others are not held up.
    world.server.desire(vec![run(2, vec![contained(&images, "exit 0", 30)])], &[], &[], &[]);
    world.server.wait_for_status(2, ClientStatus::Complete);
    world.server.desire(Vec::new(), &[1], &[], &[]);
    world.server.wait_for(1, |status| status.status().is_terminal());
    let start = StartRecord::read(&world.path(1, "keepers/t")).expect("readable").expect("a record");
    let id = start.container.expect("a container").id;
    for hierarchy in ["pids", "memory", "."] {
        let cgroup = Path::new("/sys/fs/cgroup").join(hierarchy).join("berth").join(&id);
        assert!(!cgroup.exists(), "{} is left", cgroup.display());
    }
}

/// Waits for a sign, and forks without end from then on; its first process never does again.
const BOMB: &str = "while [ ! -e $SIGN ]; do sleep 0.05; done; f() { f | f & }; f; while :; do :; done";
const BOMB_PIDS: u32 = 40;

/// The cgroup in which a task's processes are counted: its own, or its container's.
fn counting(start: &StartRecord) -> Option<PathBuf> {
    let Some(container) = &start.container else {
        return Some(file(start, "pids.max")?.parent()?.to_owned());
    };
    let roots =
        ["pids", "."].map(|name| Path::new("/sys/fs/cgroup").join(name).join("berth").join(&container.id));
    roots.into_iter().find(|cgroup| cgroup.join("pids.max").exists())
}

#[test]
fn a_command_of_the_host_that_forks_without_end_ends_with_all_that_it_forked() {
    let Some((mut world, _images)) = world_of_containers() else { return };
    for (driver, number, sign) in [("raw_exec", 1, "local/go"), ("exec", 3, "/local/go")] {
        let command = |script: &str| {
            let config = json!({"command": "/bin/sh", "args": ["-c", script]});
            TaskSpec { memory_mb: 64, kill_timeout_ms: 500, ..task("t", driver, config) }
        };
        world.server.desire(
            vec![run_without_ports(number, vec![command(&BOMB.replace("$SIGN", sign))])],
            &[],
            &[],
            &[],
        );
        world.server.wait_for_status(number, ClientStatus::Running);
        let start = StartRecord::read(&world.path(number, "keepers/t")).expect("readable").expect("a record");
        let Some(counting) = counting(&start) else {
            eprintln!("skipped: this host has no controllers that Berth may use");
            return;
        };
        // What it may have is more than a test should take.
        fs::write(counting.join("pids.max"), BOMB_PIDS.to_string()).expect("limited");
        fs::write(world.path(number, "tasks/t/local/go"), "").expect("written");
        eventually("the limit", || {
            let events = fs::read_to_string(counting.join("pids.events")).expect("counted");
            let mut counts = events.lines().filter_map(|line| line.strip_prefix("max "));
            counts.any(|count| count != "0").then_some(())
        });
        // Others are not held up.
        world.server.desire(vec![run_without_ports(number + 1, vec![command("exit 0")])], &[], &[], &[]);
        world.server.wait_for_status(number + 1, ClientStatus::Complete);
        world.server.desire(Vec::new(), &[number], &[], &[]);
        world.server.wait_for(number, |status| status.status().is_terminal());
        assert!(are_gone(&start) && !counting.exists(), "{driver}: {} is left", counting.display());
    }
}

/// As much as a log may have: two files, and one that is begun.
const LOG_BYTES_MAX: u64 = 3 << 20;

#[test]
fn a_container_that_floods_its_log_ends_well_and_its_log_keeps_to_its_size() {
    let Some((mut world, images)) = world_of_containers() else { return };
    // More than is taken at once.
    let flood = "busybox yes 0123456789abcde | busybox head -c 80000000; echo the end";
    world.server.desire(vec![run_without_ports(1, vec![contained(&images, flood, 30)])], &[], &[], &[]);
    world.server.wait_for(1, |status| status.tasks.iter().any(|task| task.started_ns > 0));
    let logs = world.path(1, "logs");
    let size = || -> u64 {
        let files = fs::read_dir(&logs).expect("a directory").flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    };
    let newest = || -> Option<u32> {
        let names = fs::read_dir(&logs).expect("a directory").flatten().map(|file| file.file_name());
        names.filter_map(|name| name.to_str()?.strip_prefix("t.stdout.")?.parse().ok()).max()
    };
    let mut largest = 0;
    eventually("one of its last files", || {
        largest = size().max(largest);
        newest().filter(|index| *index >= 60)
    });
    world.server.wait_for_status(1, ClientStatus::Complete);
    assert!(size().max(largest) <= LOG_BYTES_MAX, "{largest} bytes");
    let last = world.server.read_log(1, "t", 100, true).expect("a log");
    assert!(last.ends_with("0123456789abcde\nthe end\n"), "{last}");
}
