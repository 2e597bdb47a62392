//! The newest events of a node are kept with it, from entries of version 7 on.

mod support;

use std::fmt::Write;

use berth_model::{
    NodeId,
    command::{Collect, Command, DrainNode, NewDrain},
    node::{NODE_EVENTS_KEPT, NodeStatus},
    store::NodeDetail,
};
use expect_test::expect;
use support::{World, node, restored};

fn status(status: NodeStatus) -> Command {
    Command::SetNodeStatus(NodeId(1), status, None)
}

fn drain(drain: Option<NewDrain>) -> Command {
    Command::DrainNode(Box::new(DrainNode { node: NodeId(1), drain, eligible: false, meta: [].into() }))
}

const WITHOUT_END: NewDrain = NewDrain { deadline: None, ignore_system: false, requested_ns: 0 };

fn detail(world: &World) -> &NodeDetail {
    let (slot, _) = world.store.node(NodeId(1)).expect("it is there");
    world.store.nodes().detail(slot).expect("it is there")
}

fn events_of(world: &World) -> String {
    let mut text = String::new();
    for event in detail(world).events() {
        let (subsystem, what) = (event.kind.subsystem(), event.kind.as_str());
        writeln!(text, "{} {}: {subsystem}: {what}", event.index.0, event.at.0).expect("memory takes it");
    }
    text
}

#[test]
fn what_changes_is_an_event_of_the_node_and_what_does_not_is_none() {
    let mut world = World::with_nodes(1);
    for command in [
        Command::RegisterNode(Box::new(node(1))),
        status(NodeStatus::Ready),
        status(NodeStatus::Disconnected),
        status(NodeStatus::Ready),
        status(NodeStatus::Down),
        status(NodeStatus::Down),
        status(NodeStatus::Initializing),
        Command::SetNodeEligibility(NodeId(1), true),
        Command::SetNodeEligibility(NodeId(1), false),
        drain(None),
        drain(Some(WITHOUT_END)),
        drain(Some(NewDrain { ignore_system: true, ..WITHOUT_END })),
    ] {
        assert_eq!(world.run(command), Ok(()));
    }
    let begun_at = detail(&world).draining().expect("it goes on").started_at;
    for _ in 0..2 {
        assert_eq!(world.run(Command::EndDrain(NodeId(1), begun_at)), Ok(()));
    }
    expect![[r#"
        1 1000: Cluster: registered
        4 4000: Heartbeat: disconnected: its agent was not heard for too long
        5 5000: Heartbeat: ready again
        6 6000: Heartbeat: down: its agent was not heard for too long
        10 10000: Cluster: ineligible for new work
        12 12000: Drain: drain begun
        13 13000: Drain: drain changed
        14 14000: Drain: drain completed
    "#]]
    .assert_eq(&events_of(&world));
    let read = restored(&world.store);
    assert_eq!(read.hash(), world.store.hash());
    let (slot, _) = read.node(NodeId(1)).expect("it is there");
    assert_eq!(read.nodes().detail(slot).expect("it is there").events(), detail(&world).events());
}

#[test]
fn the_newest_are_kept_and_a_node_that_comes_again_begins_anew() {
    let mut world = World::with_nodes(1);
    for number in 0..NODE_EVENTS_KEPT {
        assert_eq!(world.run(Command::SetNodeEligibility(NodeId(1), number % 2 == 1)), Ok(()));
    }
    assert_eq!(detail(&world).events().len(), NODE_EVENTS_KEPT);
    assert!(!events_of(&world).contains("registered"), "it was the oldest: {}", events_of(&world));
    assert_eq!(world.run(status(NodeStatus::Down)), Ok(()));
    let decided_on = Some(world.store.index());
    let collect = Collect { nodes: vec![NodeId(1)], decided_on, ..Collect::default() };
    assert_eq!(world.run(Command::Collect(Box::new(collect))), Ok(()));
    assert_eq!(world.run(Command::RegisterNode(Box::new(node(1)))), Ok(()));
    expect![[r#"
        14 14000: Cluster: registered
    "#]]
    .assert_eq(&events_of(&world));
}

/// A server that knows no newer entries keeps nothing of it, and comes to another state if others do.
#[test]
fn older_entries_keep_nothing() {
    let mut world = World::default();
    for command in [
        Command::RegisterNode(Box::new(node(1))),
        Command::SetNodeEligibility(NodeId(1), false),
        drain(Some(WITHOUT_END)),
        status(NodeStatus::Down),
    ] {
        assert_eq!(world.run_as_of(6, command), Ok(()));
    }
    assert_eq!((events_of(&world).as_str(), world.store.version()), ("", 6));
    assert_eq!(restored(&world.store).hash(), world.store.hash());
    assert!(world.run(Command::SetNodeEligibility(NodeId(1), true)).is_err(), "it is drained");
    assert_eq!(world.run(drain(None)), Ok(()));
    assert_eq!(events_of(&world).lines().count(), 1);
}
