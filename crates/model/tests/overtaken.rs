//! Placements whose node is not what it was when they were decided: they are left out, and planned again.

mod support;

use std::collections::BTreeSet;

use berth_model::{
    AllocId, NodeId,
    alloc::{ClientStatus, Placement, StopReason},
    command::{Collect, Command, DrainNode, ENTRY_VERSION, NewDrain, Refusal},
    device::{DeviceGrant, DeviceInstance, NodeDevice},
    eval::{Eval, EvalStatus, Trigger},
    job::JobType,
    node::{Node, NodeStatus},
    resources::Resources,
};
use support::{World, job, key, node, place, restored, service, stop, used_memory};

/// The evaluation that plans again what came too late.
fn again(world: &World) -> Option<&Eval> {
    let mut evals = world.store.evals().iter().map(|(_, eval)| &**eval);
    evals.find(|eval| eval.status == EvalStatus::Pending)
}

/// Commits a placement on node 1 after something else happened there.
fn overtaken_by(command: Command) -> World {
    let mut world = World::with_nodes(2);
    let eval = world.register(service("web", 10, None));
    let plan = world.plan_of(eval, vec![place(1, 1, &[], &[]), place(2, 2, &[], &[])], vec![]);
    world.run(command).unwrap();
    assert_eq!(world.run(plan), Ok(()), "the rest of the plan is carried out");
    assert!(world.store.alloc(AllocId(2)).is_some());
    assert_eq!(world.store.eval(eval).unwrap().status, EvalStatus::Complete);
    world
}

#[test]
fn a_placement_on_a_node_that_went_down_is_planned_again() {
    let world = overtaken_by(Command::SetNodeStatus(NodeId(1), NodeStatus::Down, None));
    assert!(world.store.alloc(AllocId(1)).is_none());
    let eval = again(&world).expect("what is missing is planned again");
    let why = "1 placements came too late; the first one: node 00000000-0000-0000-0000-000000000001 is down";
    assert_eq!((eval.trigger, eval.node, &*eval.description), (Trigger::NodeUpdate, Some(NodeId(1)), why));
    assert_eq!(eval.job, key("web"));
    assert_eq!(restored(&world.store).hash(), world.store.hash());
}

#[test]
fn a_placement_on_a_node_that_was_closed_or_purged_is_planned_again() {
    let closed = overtaken_by(Command::SetNodeEligibility(NodeId(1), false));
    assert!(closed.store.alloc(AllocId(1)).is_none() && again(&closed).is_some());

    let mut world = World::with_nodes(1);
    let eval = world.register(service("web", 10, None));
    let plan = world.plan_of(eval, vec![place(1, 1, &[], &[])], vec![]);
    world.run(Command::SetNodeStatus(NodeId(1), NodeStatus::Down, None)).unwrap();
    let decided_on = Some(world.store.index());
    world.collect(Collect { nodes: vec![NodeId(1)], decided_on, ..Collect::default() });
    world.run(plan).unwrap();
    assert!(again(&world).is_some_and(|eval| eval.description.ends_with("is gone")));
}

/// Were it open, what is placed there would have to leave at once, and be placed there again, without end.
#[test]
fn a_node_that_is_drained_by_now_is_not_opened() {
    let mut world = World::with_nodes(1);
    let drain = |drain| DrainNode { node: NodeId(1), drain, eligible: true, meta: [].into() };
    let start = drain(Some(NewDrain { deadline: None, ignore_system: false, requested_ns: 0 }));
    world.run(Command::DrainNode(Box::new(start))).unwrap();
    let refused = world.run(Command::SetNodeEligibility(NodeId(1), true));
    assert_eq!(refused, Err(Refusal::NodeDrained(NodeId(1))));
    assert_eq!(world.run(Command::SetNodeEligibility(NodeId(1), false)), Ok(()));
    world.run(Command::DrainNode(Box::new(drain(None)))).unwrap();
    assert_eq!(world.run(Command::SetNodeEligibility(NodeId(1), true)), Ok(()));
}

#[test]
fn capacity_that_somebody_else_has_by_now_is_not_given_twice() {
    let mut world = World::with_nodes(1);
    let total = Resources { cpu_mhz: 10_000, memory_mb: 1000, disk_mb: 10_000 };
    world.run(Command::RegisterNode(Box::new(Node { total, ..node(1) }))).unwrap();
    let old = world.register(service("old", 800, Some(80)));
    world.plan(old, vec![place(1, 1, &[], &[80])], vec![]).unwrap();
    let (new, other) =
        (world.register(service("new", 900, None)), world.register(service("other", 500, Some(80))));
    // Decided while the first one was there: its successor needs 100 more. Then it ends before that applies.
    let late = world.plan_of(new, vec![place(2, 1, &[1], &[])], vec![stop(1, StopReason::Preempted)]);
    world.end(1, ClientStatus::Complete);
    world.plan(other, vec![place(3, 1, &[], &[80])], vec![]).unwrap();
    world.run(late).unwrap();
    assert_eq!((used_memory(&world.store, 1), world.store.alloc(AllocId(2)).is_some()), (500, false));
    assert!(again(&world).is_some_and(|eval| eval.description.ends_with("has too little memory left")));

    let third = world.register(service("third", 10, Some(80)));
    world.plan(third, vec![place(4, 1, &[], &[80])], vec![]).unwrap();
    assert!(world.store.alloc(AllocId(4)).is_none(), "its port is in use");
}

#[test]
fn a_port_goes_to_one_successor() {
    let mut world = World::with_nodes(1);
    let eval = world.register(service("web", 10, Some(80)));
    let placements = vec![
        place(1, 1, &[], &[80]),
        place(2, 1, &[1], &[80]),
        place(3, 1, &[1], &[80]),
        place(4, 1, &[2], &[80]),
        place(5, 1, &[2], &[80]),
    ];
    world.plan(eval, placements, vec![]).unwrap();
    let placed = [2, 3, 4, 5].map(|id| world.store.alloc(AllocId(id)).is_some());
    assert_eq!(placed, [true, false, true, false], "the fourth has it after the second");
    assert!(again(&world).is_some_and(|eval| eval.description.ends_with("has port 80 in use")));
}

#[test]
fn a_device_or_core_that_somebody_else_has_by_now_is_not_given_twice() {
    let gpu = |instances: &[&str]| NodeDevice {
        vendor: "nvidia".into(),
        kind: "gpu".into(),
        model: "A100".into(),
        instances: instances.iter().map(|id| DeviceInstance { id: (*id).into(), healthy: true }).collect(),
        ..NodeDevice::default()
    };
    let with = |instances: &[&str]| Node { devices: vec![gpu(instances)], cores: vec![0, 1], ..node(1) };
    let mut world = World::with_nodes(1);
    world.run(Command::RegisterNode(Box::new(with(&["g0", "g1"])))).unwrap();
    let grant = |id: &str, milli_each| DeviceGrant {
        device: "nvidia/gpu/A100".into(),
        instances: vec![id.into()],
        milli_each,
    };
    let placement = |id, after: &[u128], devices: &[(&str, u16)], cores: &[u16]| Placement {
        devices: devices.iter().map(|(id, milli)| grant(id, *milli)).collect(),
        cores: cores.to_vec(),
        ..place(id, 1, after, &[])
    };
    let eval = world.register(service("web", 10, None));
    let placements = vec![
        placement(1, &[], &[("g0", 600)], &[0]),
        placement(2, &[], &[("g0", 500)], &[]),
        placement(3, &[], &[("g0", 400)], &[1]),
        placement(4, &[], &[], &[1]),
        placement(5, &[1], &[("g0", 600)], &[0]),
        placement(6, &[1], &[("g0", 600)], &[]),
        placement(7, &[1], &[], &[0]),
    ];
    world.plan(eval, placements, vec![]).unwrap();
    let placed = |world: &World, ids: std::ops::RangeInclusive<u128>| -> Vec<u128> {
        ids.filter(|id| world.store.alloc(AllocId(*id)).is_some()).collect()
    };
    assert_eq!(placed(&world, 1..=7), [1, 3, 5]);
    let why = again(&world).map(|eval| eval.description.clone()).unwrap_or_default();
    assert!(why.ends_with("has not got device nvidia/gpu/A100 g0 free"), "{why}");
    assert!(why.starts_with("4 placements"), "{why}");

    // The node describes itself again while a plan is on its way.
    let eval = world.register(service("other", 10, None));
    let plan = world.plan_of(eval, vec![placement(8, &[], &[("g1", 1000)], &[])], vec![]);
    world.run(Command::RegisterNode(Box::new(with(&["g0"])))).unwrap();
    world.run(plan).unwrap();
    assert_eq!(placed(&world, 8..=8), [0; 0]);
}

#[test]
fn a_placement_on_a_node_that_is_not_ready_or_reserves_its_port_is_planned_again() {
    let unconfirmed = overtaken_by(Command::SetNodeStatus(NodeId(1), NodeStatus::Initializing, None));
    assert!(again(&unconfirmed).is_some_and(|eval| eval.description.ends_with("is not ready")));

    let mut world = World::with_nodes(1);
    let eval = world.register(service("web", 10, Some(80)));
    let plan = world.plan_of(eval, vec![place(1, 1, &[], &[80])], vec![]);
    let node = Node { reserved_ports: vec![80], ..node(1) };
    world.run(Command::RegisterNode(Box::new(node))).unwrap();
    world.run(plan).unwrap();
    assert!(again(&world).is_some_and(|eval| eval.description.ends_with("has port 80 reserved")));
}

/// Two run on nodes 1 and 2; the first is to move to node 3, and the second to where the first was.
fn moving_on() -> (World, Command) {
    let mut world = World::with_nodes(3);
    let eval = world.register(service("web", 10, None));
    world.plan(eval, vec![place(1, 1, &[], &[]), place(2, 2, &[], &[])], vec![]).unwrap();
    let eval = world.register(service("web", 20, None));
    let first = Placement { previous: Some(AllocId(1)), ..place(11, 3, &[], &[]) };
    let second = Placement { previous: Some(AllocId(2)), ..place(12, 1, &[1], &[]) };
    let stops = [1, 2].map(|id| stop(id, StopReason::JobUpdated)).to_vec();
    let plan = world.plan_of(eval, vec![second, first], stops);
    (world, plan)
}

fn desired(world: &World) -> Vec<u128> {
    let desired = world.store.allocs().iter().filter(|(_, row)| row.is_desired());
    let mut ids: Vec<u128> = desired.map(|(_, row)| row.id.0).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn what_is_replaced_stays_where_its_successor_comes_too_late_and_so_does_who_was_to_follow_it() {
    let (mut world, plan) = moving_on();
    world.run(Command::SetNodeEligibility(NodeId(3), false)).unwrap();
    world.run(plan).unwrap();
    assert_eq!(desired(&world), [1, 2]);
    let why = "keeps an allocation that was to make room";
    assert!(again(&world).is_some_and(|eval| eval.description.contains("2 placements came too late")));
    assert!(again(&world).is_some_and(|eval| eval.description.ends_with(why)));
    assert_eq!(restored(&world.store).hash(), world.store.hash());

    let (mut world, plan) = moving_on();
    world.run(plan).unwrap();
    assert_eq!(desired(&world), [11, 12]);
}

#[test]
fn what_was_to_run_a_version_that_is_gone_is_planned_again_and_whom_it_replaces_stays() {
    let (mut world, plan) = moving_on();
    let Command::CommitPlan(mut plan) = plan else { unreachable!("it is a plan") };
    plan.placements.retain(|placement| placement.id == AllocId(11));
    plan.placements[0].job_version = Some(77);
    plan.stops.retain(|stop| stop.alloc == AllocId(1));
    world.run(Command::CommitPlan(plan)).unwrap();
    assert_eq!(desired(&world), [1, 2]);
    assert!(
        again(&world).is_some_and(|eval| eval.description.ends_with("was to run version 77, which is gone"))
    );
}

/// Its node is drained, and it ends well before the plan is written that places another in its stead.
#[test]
fn batch_work_that_was_done_before_the_plan_is_written_is_not_placed_anew() {
    let replaced = |version: u8, ends_as: ClientStatus| {
        let mut world = World::with_nodes(2);
        let sum = || job("sum", JobType::Batch, 10, None);
        let eval = world.register(sum());
        world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
        let eval = world.register(sum());
        let other = Placement { after: vec![], ..place(2, 2, &[1], &[]) };
        let plan = world.plan_of(eval, vec![other], vec![stop(1, StopReason::Drained)]);
        world.end(1, ends_as);
        world.run_as_of(version, plan).unwrap();
        assert_eq!(
            world.store.alloc(AllocId(2)).is_none(),
            again(&world).is_some(),
            "or it is planned again"
        );
        world.store.alloc(AllocId(2)).is_some()
    };
    assert!(replaced(7, ClientStatus::Complete), "as it was");
    assert!(!replaced(ENTRY_VERSION, ClientStatus::Complete));
    assert!(replaced(ENTRY_VERSION, ClientStatus::Failed), "it is still to be done");
}

/// Who was placed to come after an allocation does not wait forever for it, though that one's own successor found no room.
#[test]
fn what_another_comes_after_frees_capacity_though_its_own_successor_does_not_fit() {
    let (mut world, plan) = moving_on();
    let small = Resources { cpu_mhz: 10_000, memory_mb: 5, disk_mb: 10_000 };
    world.run(Command::RegisterNode(Box::new(Node { total: small, ..node(3) }))).unwrap();
    world.run(plan).unwrap();
    assert_eq!(desired(&world), [12]);
    assert!(again(&world).is_some_and(|eval| eval.description.ends_with("has too little memory left")));
}

#[test]
fn an_old_log_is_replayed_as_it_was_applied() {
    let mut world = World::with_nodes(1);
    let eval = world.register(service("web", 10, None));
    let Command::CommitPlan(plan) = world.plan_of(eval, vec![place(1, 1, &[], &[])], vec![]) else {
        unreachable!("it is a plan")
    };
    world.run(Command::SetNodeStatus(NodeId(1), NodeStatus::Down, None)).unwrap();
    world.run(Command::CommitPlanUnchecked(plan)).unwrap();
    assert!(world.store.alloc(AllocId(1)).is_some() && again(&world).is_none());
}

/// Updates of a job while its agent is away, each of which replaces the one before; all want port 80.
fn updated_while_away(updates: u128, memory_mb: impl Fn(u128) -> u32) -> World {
    let mut world = World::with_nodes(1);
    for update in 1..=updates {
        let eval = world.register(service("web", memory_mb(update), Some(80)));
        let before: Vec<u128> = (1..update).rev().collect();
        let stops = before.first().map(|id| stop(*id, StopReason::JobUpdated)).into_iter().collect();
        world.plan(eval, vec![place(update, 1, &before, &[80])], stops).unwrap();
    }
    world
}

fn waits_for(world: &World, id: u128) -> BTreeSet<u128> {
    let slot = world.store.allocs().find(AllocId(id)).expect("it is placed");
    world.store.waits_for(slot).into_iter().map(|id| id.0).collect()
}

#[test]
fn updates_while_agents_are_away_take_the_capacity_of_the_largest() {
    let world = updated_while_away(20, |update| 10 + u32::try_from(update).unwrap());
    assert_eq!(used_memory(&world.store, 1), 30, "one of them runs at a time");
    assert_eq!(
        world
            .store
            .node(NodeId(1))
            .map(|(slot, _)| { world.store.nodes().detail(slot).unwrap().ports.to_vec() }),
        Some(vec![80])
    );
    assert_eq!(waits_for(&world, 20), (1..20).collect(), "whichever of them runs ends first");
    for id in 1..=20 {
        let slot = world.store.allocs().find(AllocId(id)).unwrap();
        let listed = world.store.allocs().extra(slot).map_or(0, |extra| extra.after.len());
        assert!(listed <= 2, "update {id} lists {listed}: each is found through the others");
    }
    assert_eq!(restored(&world.store).hash(), world.store.hash());
}

#[test]
fn what_was_promised_to_one_that_never_ran_goes_to_its_successor_and_to_nobody_else() {
    // They end in any order: as their agent says, or as it is lost.
    for seed in 0..200_u64 {
        let sizes = if seed < 100 { [100; 6] } else { [100, 80, 120, 60, 110, 90] };
        let size = |id: u128| sizes[id as usize - 1];
        let mut world = updated_while_away(6, size);
        let all = used_memory(&world.store, 1);
        let mut left: Vec<u128> = (1..=5).collect();
        let mut random = seed;
        while !left.is_empty() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let ended = left.remove((random >> 33) as usize % left.len());
            world.end(ended, ClientStatus::Complete);
            assert_eq!(waits_for(&world, 6), left.iter().copied().collect(), "seed {seed} after {ended}");
            let most = left.iter().chain([&6]).map(|id| size(*id)).max().unwrap();
            let used = used_memory(&world.store, 1);
            assert!((most..=all).contains(&used), "seed {seed} after {ended}: {used} of {most} to {all}");
            let restored = restored(&world.store);
            assert_eq!(used_memory(&restored, 1), used_memory(&world.store, 1));
        }
        assert_eq!((all, used_memory(&world.store, 1)), (*sizes.iter().max().unwrap(), size(6)));
        world.end(6, ClientStatus::Complete);
        assert_eq!(used_memory(&world.store, 1), 0);
    }
}

/// The third was planned to come after 2, which waits for 1, and 2 ends before its turn while the plan is on its way.
fn comes_after_one_that_has_ended(version: u8, ports: &[u16]) -> World {
    let mut world = World::with_nodes(1);
    for update in [1, 2] {
        let eval = world.register(service("web", 100, ports.first().copied()));
        let before: &[u128] = if update == 1 { &[] } else { &[1] };
        let stops = before.iter().map(|id| stop(*id, StopReason::JobUpdated)).collect();
        world.plan(eval, vec![place(update, 1, before, ports)], stops).unwrap();
    }
    let eval = world.register(service("web", 80, ports.first().copied()));
    let late = world.plan_of(eval, vec![place(3, 1, &[2], ports)], vec![stop(2, StopReason::JobUpdated)]);
    world.end(2, ClientStatus::Complete);
    assert_eq!(used_memory(&world.store, 1), 100, "the first runs on");
    world.run_as_of(version, late).unwrap();
    world
}

#[test]
fn what_comes_after_one_that_has_ended_before_its_turn_waits_for_whom_that_waited() {
    for ports in [&[][..], &[80]] {
        let mut world = comes_after_one_that_has_ended(ENTRY_VERSION, ports);
        assert_eq!(waits_for(&world, 3), [1].into(), "with ports {ports:?}");
        assert_eq!(used_memory(&world.store, 1), 100, "one of them runs at a time");
        assert_eq!(restored(&world.store).hash(), world.store.hash());
        world.end(1, ClientStatus::Complete);
        assert_eq!((waits_for(&world, 3), used_memory(&world.store, 1)), ([].into(), 80));
    }
}

#[test]
fn entries_of_version_5_had_it_wait_for_nobody() {
    let world = comes_after_one_that_has_ended(5, &[]);
    assert_eq!((waits_for(&world, 3), used_memory(&world.store, 1)), ([].into(), 180));
}

/// One allocation runs on node 1, which is silent.
fn on_a_silent_node() -> World {
    let mut world = World::with_nodes(1);
    let eval = world.register(service("web", 10, None));
    world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
    world.run(Command::SetNodeStatus(NodeId(1), NodeStatus::Down, None)).unwrap();
    world
}

/// The plan that declares it lost.
fn lose(world: &mut World) -> Command {
    let eval = world.scale("web", 1);
    world.plan_of(eval, vec![], vec![stop(1, StopReason::NodeLost)])
}

#[test]
fn a_node_that_was_confirmed_before_something_there_was_lost_is_not_ready() {
    let mut world = on_a_silent_node();
    let confirmed_at = world.store.index();
    let lost = lose(&mut world);
    world.run(lost).unwrap();
    assert_eq!(world.store.alloc(AllocId(1)).unwrap().1.client, ClientStatus::Lost);
    let ready = |at| Command::SetNodeStatus(NodeId(1), NodeStatus::Ready, Some(at));
    assert_eq!(world.run(ready(confirmed_at)), Err(Refusal::LostMeanwhile(NodeId(1))), "it may run on there");
    let confirmed_since = world.store.index();
    assert_eq!(world.run(ready(confirmed_since)), Ok(()));
}

#[test]
fn what_is_declared_lost_on_a_node_that_is_back_holds_its_capacity_until_it_has_ended() {
    let mut world = on_a_silent_node();
    let lost = lose(&mut world);
    let ready = Command::SetNodeStatus(NodeId(1), NodeStatus::Ready, Some(world.store.index()));
    world.run(ready).unwrap();
    world.run(lost).unwrap();
    let (_, row) = world.store.alloc(AllocId(1)).unwrap();
    assert!(!row.is_terminal() && !row.is_desired());
    assert_eq!(used_memory(&world.store, 1), 10);
}
