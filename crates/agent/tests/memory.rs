//! The memory that a lab process needs for a node: printed, and compared with the documented limit.

use std::fs;

use berth_agent::lifecycle::{Action, Event, GroupCache, Node, RunSpec, TaskRef};
use berth_api::agent::{
    AgentSession, AllocId, Desired, Down, GroupSpec, NodeSpec, RunAlloc, TaskSpec, UPDATE_DELAY_NS, Welcome,
};
use prost::Message;

const NODES: u32 = 20_000;
const IDLE_BYTES_MAX: u64 = 1_024;
const BUSY_BYTES_MAX: u64 = 4_096;

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1_024
}

fn two_tasks() -> GroupSpec {
    let task =
        |name: &str| TaskSpec { name: name.into(), driver: "mock_driver".into(), ..TaskSpec::default() };
    GroupSpec {
        job_type: "service".into(),
        tasks: vec![task("task_one"), task("task_two")],
        ..GroupSpec::default()
    }
}

/// Gives a node an allocation whose two tasks run.
fn occupy(node: &mut Node, session: &mut AgentSession, number: u32, groups: &mut GroupCache, group: &[u8]) {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    let mut desired = Desired { seq: 1, ..Desired::default() };
    let group_ref = desired.group_ref(&group.to_vec().into());
    let run = RunAlloc { alloc_id: id.to_vec(), group_ref, ..RunAlloc::default() };
    desired.run.push(run.clone());
    session.on_down(Down::Welcome(Welcome::default()), 0);
    session.on_down(Down::Desired(desired), 0);
    let mut actions = Vec::new();
    node.handle(Event::Run(RunSpec::from_wire(run, group, groups).expect("desired state")), 1, &mut actions);
    for task in 0..2 {
        let of = TaskRef { alloc: AllocId(id), task, attempt: 1 };
        node.handle(Event::Started { of, at_ns: 1 }, 1, &mut actions);
    }
    for action in actions {
        if let Action::Report { alloc, urgent } = action {
            session.observe(alloc, node.alloc(alloc).expect("known").status(), urgent, 1);
        }
    }
}

#[test]
fn tens_of_thousands_of_nodes_fit_a_process() {
    let (mut groups, group) = (GroupCache::default(), two_tasks().encode_to_vec());
    let before = resident_bytes();
    let mut nodes: Vec<_> =
        (0..NODES).map(|number| (Node::new(number.into()), AgentSession::new(1, UPDATE_DELAY_NS))).collect();
    let identity = berth_api::agent::AgentIdentity {
        node_id: [0; 16],
        secret: Vec::new(),
        boot_id: String::new(),
        instance: [0; 16],
    };
    nodes.iter_mut().for_each(|(_, session)| drop(session.hello(&identity, NodeSpec::default(), 0)));
    let idle = (resident_bytes() - before) / u64::from(NODES);
    for ((node, session), number) in nodes.iter_mut().zip(0..) {
        occupy(node, session, number, &mut groups, &group);
    }
    let busy = (resident_bytes() - before) / u64::from(NODES);
    println!("a node costs {idle} bytes idle, {busy} with an allocation of two tasks");
    assert!(idle <= IDLE_BYTES_MAX && busy <= BUSY_BYTES_MAX);
}
