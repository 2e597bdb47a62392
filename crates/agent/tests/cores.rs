//! Tasks that ask for MHz are kept off the cores of tasks that have some of their own, also after the agent was killed.

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

use berth_agent::keeper::plan::StartRecord;
use berth_api::agent::{ClientStatus, TaskDevices, TaskSpec};
use common::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use server::Run;
use world::{World, run_without_ports, shell, task};

/// Where a process may run, as the kernel lists it.
fn allowed(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
    list.trim().to_owned()
}

fn cores_of(world: &World, number: u8) -> String {
    let start = StartRecord::read(&world.path(number, "keepers/t")).expect("readable").expect("a start");
    allowed(&start.pid.to_string())
}

fn are(world: &World, number: u8, cores: &str) {
    eventually(&format!("allocation {number} on {cores}"), || {
        (cores_of(world, number) == cores).then_some(())
    });
}

fn sleeps() -> TaskSpec {
    shell("t", "exec sleep 1000")
}

fn own(number: u8, core: u32) -> Run {
    let mut run = run_without_ports(number, vec![sleeps()]);
    run.alloc.devices = vec![TaskDevices { task: "t".into(), cores: vec![core], ..TaskDevices::default() }];
    run
}

fn start(world: &mut World, number: u8, run: Run) {
    world.server.desire(vec![run], &[], &[], &[]);
    world.server.wait_for_status(number, ClientStatus::Running);
}

fn stop(world: &mut World, number: u8) {
    world.server.desire(Vec::new(), &[number], &[], &[]);
    world.server.wait_for(number, |status| status.status().is_terminal());
}

#[test]
fn who_asks_for_mhz_is_kept_off_the_cores_of_others_while_they_have_them() {
    let all = allowed("self");
    if !rustix::process::geteuid().is_root() || !matches!(all.as_str(), "0-1" | "0-3") {
        eprintln!("skipped: it takes root and two or four cores, and these are {all}");
        return;
    }
    let (last, rest) = if all == "0-1" { (1, "0") } else { (3, "0-2") };
    let (mut world, image) = match busybox::runtimes().into_iter().next() {
        Some(runtime) => {
            let image = busybox::image(&["sleep"]);
            (World::with_runtime(runtime, image.path()), Some(image))
        }
        None => (World::new(), None),
    };
    let container = image.as_ref().map(|image| {
        let config = json!({"image": image.path().join("root"), "command": "/bin/sleep", "args": ["1000"]});
        TaskSpec { memory_mb: 32, kill_timeout_ms: 50, ..task("t", "docker", config) }
    });
    let mut shared: Vec<u8> = vec![1];
    start(&mut world, 1, run_without_ports(1, vec![sleeps()]));
    if let Some(container) = &container {
        start(&mut world, 2, run_without_ports(2, vec![container.clone()]));
        shared.push(2);
    }
    shared.iter().for_each(|number| are(&world, *number, &all));

    // Before the task starts that has one.
    start(&mut world, 3, own(3, last));
    assert_eq!(cores_of(&world, 3), last.to_string());
    shared.iter().for_each(|number| assert_eq!(cores_of(&world, *number), rest));
    start(&mut world, 4, run_without_ports(4, vec![sleeps()]));
    shared.push(4);
    assert_eq!(cores_of(&world, 4), rest);
    if let Some(container) = container {
        start(&mut world, 5, run_without_ports(5, vec![container]));
        shared.push(5);
        assert_eq!(cores_of(&world, 5), rest);
    }
    stop(&mut world, 3);
    shared.iter().for_each(|number| assert_eq!(cores_of(&world, *number), all));

    // It ends while no agent lives.
    start(&mut world, 6, own(6, last));
    shared.iter().for_each(|number| assert_eq!(cores_of(&world, *number), rest));
    world.kill_agent();
    world.restart_agent();
    start(&mut world, 7, run_without_ports(7, vec![sleeps()]));
    assert_eq!(cores_of(&world, 7), rest, "the next agent knows of it");
    world.kill_agent();
    let dir = world.path(6, "keepers/t");
    let pid = StartRecord::read(&dir).expect("readable").expect("a start").pid;
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("killed");
    eventually("its end", || dir.join("exit").exists().then_some(()));
    world.restart_agent();
    world.server.wait_for(6, |status| status.status().is_terminal());
    shared.iter().chain([&7]).for_each(|number| are(&world, *number, &all));
}
