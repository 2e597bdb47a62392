//! An agent that is killed at each step of preparing an allocation and of cleaning it up: the next one continues, starts nothing
//! twice, and leaves nothing.

#[path = "common/busybox.rs"]
#[allow(dead_code)]
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

use berth_agent::setup_steps;
use berth_api::agent::{
    ClientStatus, GroupSpec, HookSpec, NetworkSpec, PortBinding, RunAlloc, TaskEventKind, TaskSpec,
    VolumeMountSpec, VolumeSpec,
};
use common::{alloc_id, eventually};
use prost::Message;
use server::Run;
use world::{World, shell};

const PORT: u32 = 25_000;

/// Says that it was started, in a directory that all tasks share, and lives on.
const MAIN: &str = "echo main >> \"$NOMAD_ALLOC_DIR/starts\"; exec sleep 1000";
const FIRST: &str = "echo first >> \"$NOMAD_ALLOC_DIR/starts\"";
const LAST: &str = "echo last >> \"$NOMAD_ALLOC_DIR/starts\"";

/// Whether allocations have networks of their own here.
fn with_networks() -> Option<World> {
    let runtime = busybox::runtimes().into_iter().next()?;
    if !host::can_be_made() {
        return None;
    }
    host::become_one();
    let images = tempfile::tempdir().expect("a directory");
    let settings = vec![("AGENT_BRIDGE", "berth"), ("AGENT_HOST_IP", host::HOST)];
    Some(World::with_settings(runtime, images.path(), settings))
}

fn run(number: u8, mode: &str, tasks: Vec<TaskSpec>) -> Run {
    let network = NetworkSpec { mode: mode.into(), ..NetworkSpec::default() };
    let (job_type, network) = ("service".into(), Some(network).filter(|network| !network.mode.is_empty()));
    let group = GroupSpec { job_type, tasks, network, ..GroupSpec::default() };
    let host_port = PORT + u32::from(number);
    let ports = vec![PortBinding { label: "web".into(), host_port, to: 80, ..PortBinding::default() }];
    let alloc = RunAlloc { alloc_id: alloc_id(number).to_vec(), ports, ..RunAlloc::default() };
    Run { alloc, group: group.encode_to_vec().into() }
}

fn hooked(name: &str, script: &str, hook: HookSpec) -> TaskSpec {
    TaskSpec { hook: hook.into(), kill_timeout_ms: 50, ..shell(name, script) }
}

fn tasks() -> Vec<TaskSpec> {
    vec![
        hooked("first", FIRST, HookSpec::Prestart),
        hooked("t", MAIN, HookSpec::Main),
        hooked("last", LAST, HookSpec::Poststop),
    ]
}

fn starts(world: &World, number: u8) -> String {
    fs::read_to_string(world.path(number, "alloc/starts")).unwrap_or_default()
}

/// What there is on the host of what was prepared for an allocation.
fn prepared(world: &World, number: u8) -> Vec<String> {
    let port = (PORT + u32::from(number)).to_string();
    let rules = host::rules().contains(&port).then(|| format!("a rule for port {port}"));
    let records = fs::read_dir(world.data.path().join("networks")).into_iter().flatten().flatten();
    let records = records.map(|entry| entry.path().display().to_string());
    let mounts = fs::read_to_string("/proc/thread-self/mounts").expect("mounts");
    let mounts: Vec<String> = mounts
        .lines()
        .filter(|line| line.contains(&*world.data.path().to_string_lossy()))
        .map(str::to_owned)
        .collect();
    host::namespaces()
        .into_iter()
        .chain(host::interfaces())
        .chain(rules)
        .chain(records)
        .chain(mounts)
        .collect()
}

/// Waits until the agent has ended where it was to, and starts one that lives.
fn next_agent(world: &mut World) {
    eventually("the agent's end", || world.agent.try_wait().expect("asked"));
    world.server.disconnect();
    world.ends_at = None;
    world.respawn_agent();
}

fn ends_while_it_prepares(world: &mut World, number: u8, moment: String) {
    let what = moment.clone();
    world.kill_agent();
    world.ends_at = Some(moment);
    world.respawn_agent();
    let desired = || run(number, "bridge", tasks());
    world.server.desire(vec![desired()], &[], &[], &[]);
    next_agent(world);
    world.server.desire(vec![desired()], &[], &[], &[]);
    world.server.wait_for(number, |status| status.tasks[1].started_ns > 0);
    eventually("its start", || starts(world, number).contains("main").then_some(()));
    assert_eq!(host::namespaces().len(), 1, "{what}");
    world.server.desire(Vec::new(), &[number], &[], &[]);
    world.server.wait_for_status(number, ClientStatus::Complete);
    assert_eq!(starts(world, number), "first\nmain\nlast\n", "{what}");
    assert_eq!(prepared(world, number), [""; 0], "{what}");
    world.server.desire(Vec::new(), &[], &[number], &[number]);
    let dir = world.path(number, "");
    eventually("the files to be removed", || (!dir.exists()).then_some(()));
}

fn ends_while_it_cleans_up(world: &mut World, number: u8, moment: String) {
    let what = moment.clone();
    world.kill_agent();
    world.ends_at = Some(moment);
    world.respawn_agent();
    world.server.desire(vec![run(number, "bridge", tasks())], &[], &[], &[]);
    world.server.wait_for(number, |status| status.tasks[1].started_ns > 0);
    eventually("its start", || starts(world, number).contains("main").then_some(()));
    world.server.desire(Vec::new(), &[number], &[], &[]);
    next_agent(world);
    world.server.desire(Vec::new(), &[number], &[], &[]);
    world.server.wait_for_status(number, ClientStatus::Complete);
    assert_eq!(starts(world, number), "first\nmain\nlast\n", "{what}");
    assert_eq!(prepared(world, number), [""; 0], "{what}");
    world.server.desire(Vec::new(), &[], &[number], &[number]);
    let dir = world.path(number, "");
    eventually("the files to be removed", || (!dir.exists()).then_some(()));
}

#[test]
fn an_agent_that_ends_at_any_step_prepares_and_cleans_up_in_the_end_and_starts_nothing_twice() {
    let Some(mut world) = with_networks() else { return };
    let mut number = 1;
    for step in setup_steps() {
        for side in ["before", "after"] {
            ends_while_it_prepares(&mut world, number, format!("prepare {step} {side}"));
            ends_while_it_cleans_up(&mut world, number + 1, format!("clean-up {step} {side}"));
            number += 2;
        }
    }
}

#[test]
fn what_cannot_be_prepared_fails_all_tasks_by_name_and_starts_none() {
    let Some(mut world) = with_networks() else { return };
    let failure = |world: &mut World, number: u8, desired: Run| {
        world.server.desire(vec![desired], &[], &[], &[]);
        let status = world.server.wait_for(number, |status| status.status().is_terminal());
        assert_eq!(status.status(), ClientStatus::Failed, "{status:?}");
        assert_eq!(starts(world, number), "");
        let told = status.tasks.iter().map(|task| {
            let event = task.events.iter().find(|event| event.kind() == TaskEventKind::SetupFailure);
            assert!(task.failed && task.restarts == 0 && task.started_ns == 0, "{task:?}");
            event.expect("why").message.clone()
        });
        let told: Vec<String> = told.collect();
        assert!(told.len() == 3 && told.iter().all(|one| *one == told[0]), "{told:?}");
        assert_eq!(prepared(world, number), [""; 0]);
        told[0].clone()
    };
    let held = std::net::TcpListener::bind((host::HOST, 25_001)).expect("free");
    let told = failure(&mut world, 1, run(1, "bridge", tasks()));
    assert!(
        told.starts_with("prepare the allocation's network: take 10.9.9.1:25001 for the port \"web\": "),
        "{told}"
    );
    drop(held);

    // The same in the host's network; and one whose holder lets go is waited for.
    let held = std::net::TcpListener::bind((host::HOST, 25_002)).expect("free");
    let told = failure(&mut world, 2, run(2, "", tasks()));
    assert!(
        told.starts_with("prepare the allocation's ports: find the port \"web\" free on 10.9.9.1:25002: "),
        "{told}"
    );
    drop(held);
    let held = std::net::TcpListener::bind((host::HOST, 25_003)).expect("free");
    let waits = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(held);
    });
    world.server.desire(vec![run(3, "bridge", tasks())], &[], &[], &[]);
    world.server.wait_for(3, |status| status.tasks[1].started_ns > 0);
    waits.join().expect("let go");

    let mut lacking = tasks();
    lacking[1].volume_mounts = vec![VolumeMountSpec {
        volume: "data".into(),
        destination: "/data".into(),
        ..VolumeMountSpec::default()
    }];
    let mut desired = run(4, "", lacking);
    let mut group = GroupSpec::decode(&*desired.group).expect("a group");
    let (name, source) = ("data".into(), "nowhere".into());
    group.volumes = vec![VolumeSpec { name, source, ..VolumeSpec::default() }];
    desired.group = group.encode_to_vec().into();
    world.server.desire(Vec::new(), &[3], &[], &[]);
    world.server.wait_for(3, |status| status.status().is_terminal());
    let told = failure(&mut world, 4, desired);
    assert!(
        told.contains("volumes: mount the volume \"data\": this node has no volume \"nowhere\""),
        "{told}"
    );
}
