//! An agent that takes up what runs on its node, after its own end and after a restart of the machine.
//!
//! `BERTH_TEST_ROUNDS` says how often it is killed while two hundred tasks run.

#[path = "common/busybox.rs"]
mod busybox;
#[allow(dead_code)]
mod common;
#[path = "common/host.rs"]
#[allow(dead_code)]
mod host;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use berth_agent::keeper::plan::StartRecord;
use berth_api::agent::{AllocId, ClientStatus, IdentitySpec, PortBinding, TaskSpec};
use common::{alloc_id, eventually, unmount_below};
use prost::Message;
use rustix::process::{Pid, Signal, kill_process};
use world::{World, run, run_without_ports, shell, task};

const TASKS: u8 = 200;
const ROUNDS: u8 = 5;

/// How long an agent may take until all that it took up, and all that ended meanwhile, is known.
const REATTACH_MAX: Duration = Duration::from_secs(2);

/// Says which process it is, and ends with this code once somebody writes to its pipe; it takes no time of the processor.
fn waiting(exit_code: u8) -> String {
    format!(
        "echo $$ >> ../starts; mkfifo ../go.new && mv ../go.new ../go; read -r _ < ../go; exit {exit_code}"
    )
}

fn starts(world: &World, number: u8) -> Option<String> {
    fs::read_to_string(world.path(number, "tasks/starts")).ok().filter(|starts| starts.ends_with('\n'))
}

/// Lets a task end, and waits until its keeper has written down how.
fn release(world: &World, number: u8) {
    let pipe = eventually("its pipe", || Some(world.path(number, "tasks/go")).filter(|path| path.exists()));
    fs::write(pipe, "\n").expect("written");
    eventually("its end", || world.path(number, "keepers/t/exit").exists().then_some(()));
}

#[test]
fn two_hundred_tasks_outlive_an_agent_that_is_killed_again_and_again() {
    let rounds = std::env::var("BERTH_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    // Other tests of an ordinary run take their part of the machine.
    let judged = rounds.map(|_: u8| REATTACH_MAX);
    let rounds: u8 = rounds.unwrap_or(ROUNDS).min(TASKS);
    let mut world = World::new();
    let runs = (1..=TASKS).map(|number| run(number, vec![shell("t", &waiting(number))])).collect();
    world.server.desire(runs, &[], &[], &[]);
    (1..=TASKS).for_each(|number| drop(world.server.wait_for_status(number, ClientStatus::Running)));
    let pids: Vec<String> =
        (1..=TASKS).map(|number| eventually("its pid", || starts(&world, number))).collect();

    let mut living = 1..=TASKS;
    for round in 1..=rounds {
        world.kill_agent();
        let ended: Vec<u8> = living.by_ref().take(usize::from(TASKS / rounds)).collect();
        ended.iter().for_each(|number| release(&world, *number));
        let began = Instant::now();
        world.restart_agent();
        for number in ended {
            let status = world.server.wait_for_status(number, ClientStatus::Failed);
            assert_eq!((status.tasks[0].exit_code, status.tasks[0].restarts), (i32::from(number), 0));
        }
        let took = began.elapsed();
        eprintln!("round {round}: all told {} ms after the start", took.as_millis());
        assert!(
            judged.is_none_or(|most| took <= most),
            "round {round}: {} ms are too long",
            took.as_millis()
        );
    }
    for number in living {
        release(&world, number);
        let status = world.server.wait_for_status(number, ClientStatus::Failed);
        assert_eq!((status.tasks[0].exit_code, status.tasks[0].restarts), (i32::from(number), 0));
    }
    let after: Vec<_> = (1..=TASKS).filter_map(|number| starts(&world, number)).collect();
    assert_eq!(after, pids, "each was started once");
}

/// A process of somebody else's.
struct Stranger(Child);

impl Stranger {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("it starts"))
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("a pid")
    }

    fn lives(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_record(dir: &Path) -> StartRecord {
    StartRecord::read(dir).expect("readable").expect("a record")
}

/// Ends a task and its keeper, as the end of their machine does.
fn end(dir: &Path) {
    let record = start_record(dir);
    for pid in [record.keeper_pid, record.pid] {
        kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("killed");
    }
}

/// Rewrites what was written down when a task started.
fn forge(dir: &Path, change: impl FnOnce(&mut StartRecord)) {
    let (path, mut record) = (dir.join("start"), start_record(dir));
    change(&mut record);
    let version = fs::read(dir.join("claim")).expect("bytes")[..8].to_vec();
    let forged = record.encode_to_vec();
    let length = u32::try_from(forged.len()).expect("short").to_be_bytes();
    let checksum = crc32c::crc32c(&forged).to_be_bytes();
    fs::write(path, [&version[..], &length, &checksum, &forged].concat()).expect("written");
}

/// Another boot than that of now.
fn earlier(record: &mut StartRecord) {
    record.boot_id = "earlier".into();
}

#[test]
fn after_a_reboot_what_ran_is_lost() {
    let mut world = World::new();
    let mock = task("m", "mock_driver", serde_json::json!({"run_for": "1h"}));
    world.server.desire(vec![run(1, vec![shell("t", "exec sleep 100")]), run(2, vec![mock])], &[], &[], &[]);
    (1..=2).for_each(|number| drop(world.server.wait_for_status(number, ClientStatus::Running)));
    world.kill_agent();
    let (process, mock) = (world.path(1, "keepers/t"), world.path(2, "keepers/m"));
    end(&process);
    [process, mock].iter().for_each(|dir| forge(dir, earlier));
    world.restart_agent();
    (1..=2).for_each(|number| drop(world.server.wait_for_status(number, ClientStatus::Lost)));
}

/// All that the host has of an allocation: namespaces, interfaces and rules, mounts, cgroups, and what its container wrote.
fn of_containers(world: &World, numbers: &[u8]) -> Vec<String> {
    let mut found = host::namespaces();
    found.extend(host::interfaces());
    found.extend(host::rules().lines().filter(|line| line.contains("2508")).map(str::to_owned));
    for number in numbers {
        let id = AllocId(alloc_id(*number)).to_string();
        let mounts = fs::read_to_string("/proc/thread-self/mounts").expect("mounts");
        found.extend(mounts.lines().filter(|line| line.contains(&id)).map(str::to_owned));
        let hierarchies = ["memory", "pids", "cpu", "."].map(|name| Path::new("/sys/fs/cgroup").join(name));
        let cgroups =
            hierarchies.iter().filter_map(|dir| fs::read_dir(dir.join("berth")).ok()).flatten().flatten();
        let cgroups = cgroups.map(|entry| entry.path().display().to_string());
        found.extend(cgroups.filter(|path| path.contains(&id)));
        let bundle = world.path(*number, "keepers/t/bundle");
        found.extend(bundle.exists().then(|| bundle.display().to_string()));
    }
    found
}

/// Also where the host still has all of it but the processes, as after an end of the agent alone.
#[test]
fn after_a_reboot_nothing_of_a_container_is_left() {
    let Some(runtime) = busybox::runtimes().into_iter().next() else { return };
    if !host::can_be_made() {
        return;
    }
    host::become_one();
    let images = busybox::image(&["sh", "sleep"]);
    let settings = vec![("AGENT_BRIDGE", "berth"), ("AGENT_HOST_IP", host::HOST)];
    let mut world = World::with_settings(runtime, images.path(), settings);
    world.server.tokens_live_ms = Some(3_600_000);
    let numbers = [1, 2];
    for number in numbers {
        let script = "echo written > /layer; exec sleep 1000";
        let config = serde_json::json!({
            "image": images.path().join("root"), "command": "/bin/sh", "args": ["-c", script], "ports": ["web"],
        });
        let identity = IdentitySpec { name: "aws".into(), file: "aws".into(), ..IdentitySpec::default() };
        let spec = TaskSpec { memory_mb: 32, identities: vec![identity], ..task("t", "docker", config) };
        let mut run = run_without_ports(number, vec![spec]);
        let host_port = 25_080 + u32::from(number);
        let port = PortBinding { label: "web".into(), host_port, to: 80, ..PortBinding::default() };
        run.alloc.ports.push(port);
        world.server.desire(vec![run], &[], &[], &[]);
        world.server.wait_for_status(number, ClientStatus::Running);
        let layer = world.path(number, "keepers/t/bundle/upper/layer");
        eventually("what it writes", || layer.exists().then_some(()));
    }
    let had = of_containers(&world, &numbers);
    for kind in ["berth-", "25081", "/secrets", "/memory ", "/sys/fs/cgroup", "/bundle"] {
        assert!(had.iter().any(|found| found.contains(kind)), "no {kind} in {had:#?}");
    }
    world.kill_agent();
    numbers.iter().for_each(|number| end(&world.path(*number, "keepers/t")));
    // Cgroups are gone with it, and here all that the second one had in the kernel.
    for cgroup in had.iter().filter(|found| found.starts_with("/sys/fs/cgroup")) {
        let is_gone = || fs::remove_dir(cgroup).is_ok() || !Path::new(cgroup).exists();
        eventually("its processes to end", || is_gone().then_some(()));
    }
    for name in host::namespaces().into_iter().skip(1) {
        host::sh(&format!("ip netns del {name}"));
    }
    numbers.iter().for_each(|number| forge(&world.path(*number, "keepers/t"), earlier));
    unmount_below(&world.path(2, ""));
    world.restart_agent();
    numbers.iter().for_each(|number| drop(world.server.wait_for_status(*number, ClientStatus::Lost)));
    eventually("nothing to be left", || {
        let left = of_containers(&world, &numbers);
        if !left.is_empty() {
            eprintln!("left so far: {left:#?}");
            std::thread::sleep(Duration::from_millis(500));
        }
        left.is_empty().then_some(())
    });
    world.server.desire(Vec::new(), &[], &numbers, &numbers);
    for number in numbers {
        let dir = world.path(number, "");
        eventually("its files to be removed", || (!dir.exists()).then_some(()));
    }
    let records = fs::read_dir(world.data.path().join("networks")).expect("listed").count();
    assert_eq!(records, 0, "records of networks are left");
}

#[test]
fn pids_that_are_somebody_elses_by_now_are_left_alone() {
    let mut world = World::new();
    let runs = (1..=2).map(|number| run(number, vec![shell("t", &waiting(0))])).collect();
    world.server.desire(runs, &[], &[], &[]);
    (1..=2).for_each(|number| drop(world.server.wait_for_status(number, ClientStatus::Running)));
    world.kill_agent();
    let mut strangers: Vec<Stranger> = (0..4).map(|_| Stranger::new()).collect();
    for (number, strangers) in (1..).zip(strangers.chunks(2)) {
        let dir = world.path(number, "keepers/t");
        end(&dir);
        forge(&dir, |record| (record.keeper_pid, record.pid) = (strangers[0].pid(), strangers[1].pid()));
    }
    forge(&world.path(1, "keepers/t"), earlier);
    world.restart_agent();
    world.server.wait_for_status(1, ClientStatus::Lost);
    let status = world.server.wait_for_status(2, ClientStatus::Failed);
    let terminated = status.tasks[0].events.iter().find(|event| event.kind().as_str() == "Terminated");
    assert!(
        terminated.is_some_and(|event| event.message.starts_with("how it ended is unknown")),
        "{status:?}"
    );
    world.server.desire(Vec::new(), &[], &[1, 2], &[1, 2]);
    for number in 1..=2 {
        let dir = world.path(number, "");
        eventually("its files to be removed", || (!dir.exists()).then_some(()));
    }
    assert!(strangers.iter_mut().all(Stranger::lives), "they are nobody's tasks");
}
