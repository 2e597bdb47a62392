//! Garbage collection: what goes, and what stays although it was decided on an older state that it may go.

mod support;

use berth_model::{
    AllocId, EvalId, NodeId,
    alloc::{ClientStatus, Placement, StopReason},
    command::{Collect, Command, Refusal},
    deployment::{AllocHealth, DeploymentGroup},
    event::StateChange,
    job::{Job, JobType, Periodic, Update},
    node::NodeStatus,
    store::JobStatus,
};
use support::{World, job, key, node, place, restored, service, stop};

impl World {
    fn collect_allocs(&mut self, allocs: &[u128]) {
        let allocs = allocs.iter().copied().map(AllocId).collect();
        let decided_on = Some(self.store.index());
        self.collect(Collect { allocs, decided_on, ..Collect::default() });
    }
}

fn jobs(world: &World, ids: &[&str]) -> Collect {
    let decided_on = Some(world.store.index());
    Collect { jobs: ids.iter().map(|id| key(id)).collect(), decided_on, ..Collect::default() }
}

#[test]
fn a_job_that_was_registered_anew_stays() {
    let mut world = World::with_nodes(1);
    let mut cron = job("cron", JobType::Batch, 10, None);
    cron.periodic = Some(Box::new(Periodic { specs: vec!["0 0 * * *".into()], ..Periodic::default() }));
    let eval = world.register(cron.clone());
    world.plan(eval, vec![], vec![]).unwrap();
    let eval = world.stop("cron", false);
    world.plan(eval, vec![], vec![]).unwrap();
    assert!(world.store.job(&key("cron")).unwrap().is_over());
    let decided = jobs(&world, &["cron"]);
    let eval = world.register(cron);
    world.plan(eval, vec![], vec![]).unwrap();
    world.collect(decided);
    assert_eq!(world.store.job(&key("cron")).map(|row| row.status()), Some(JobStatus::Running));
}

#[test]
fn a_job_with_an_evaluation_since_stays_and_goes_once_that_was_seen() {
    let mut world = World::with_nodes(1);
    let eval = world.register(service("web", 10, None));
    world.plan(eval, vec![], vec![]).unwrap();
    let eval = world.stop("web", false);
    world.plan(eval, vec![], vec![]).unwrap();
    let decided = jobs(&world, &["web"]);
    let eval = world.stop("web", false);
    world.plan(eval, vec![], vec![]).unwrap();
    world.collect(decided);
    assert!(world.store.job(&key("web")).is_some());
    let decided = jobs(&world, &["web"]);
    world.collect(decided);
    assert!(world.store.job(&key("web")).is_none());
    assert!(world.store.evals().is_empty());
}

#[test]
fn a_job_that_is_not_over_stays() {
    let mut world = World::with_nodes(1);
    let eval = world.register(service("web", 10, None));
    world.plan(eval, vec![], vec![]).unwrap();
    let decided = jobs(&world, &["web"]);
    world.collect(decided);
    assert!(world.store.job(&key("web")).is_some(), "it is dead, and nobody stopped it");
}

#[test]
fn results_of_batch_work_stay_with_their_job() {
    let mut world = World::with_nodes(1);
    let eval = world.register(job("sum", JobType::Batch, 10, None));
    world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
    world.end(1, ClientStatus::Complete);
    world.collect_allocs(&[1]);
    assert_eq!(world.store.allocs().len(), 1);
}

/// What has failed on a node is why nothing of its system job is placed there: whoever forgets it leaves the node without
/// either.
#[test]
fn what_has_failed_of_a_system_job_stays_until_the_job_or_its_node_is_another() {
    let failed = || {
        let mut world = World::with_nodes(2);
        let eval = world.register(job("log", JobType::System, 10, None));
        world.plan(eval, vec![place(1, 1, &[], &[]), place(2, 2, &[], &[])], vec![]).unwrap();
        world.end(1, ClientStatus::Failed);
        world.collect_allocs(&[1]);
        assert_eq!(world.store.allocs().len(), 2, "it keeps its node covered");
        world
    };
    let mut changed = failed();
    let mut other = job("log", JobType::System, 10, None);
    other.priority += 1;
    changed.register(other.clone());
    changed.collect_allocs(&[1]);
    assert_eq!(changed.store.allocs().len(), 2, "what runs is the same");
    other.meta.insert("version".to_owned(), "2".to_owned());
    changed.register(other);
    changed.collect_allocs(&[1]);
    assert_eq!(changed.store.allocs().len(), 1);

    let mut stopped = failed();
    stopped.stop("log", false);
    stopped.collect_allocs(&[1]);
    assert_eq!(stopped.store.allocs().len(), 1);

    let mut purged = failed();
    purged.run(Command::SetNodeStatus(NodeId(1), NodeStatus::Down, None)).unwrap();
    purge(&mut purged);
    purged.collect_allocs(&[1]);
    assert_eq!(purged.store.allocs().len(), 1);
}

/// What has failed of a service waits for its delay, or is not replaced at all: whoever forgets it places another whatever the
/// policy says.
#[test]
fn what_has_failed_of_a_service_stays_until_another_is_in_its_place() {
    let failed = || {
        let mut world = World::with_nodes(1);
        let eval = world.register(service("web", 10, None));
        world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
        world.end(1, ClientStatus::Failed);
        world
    };
    let forget = |world: &World| {
        let (allocs, decided_on) = (vec![AllocId(1)], Some(world.store.index()));
        Command::Collect(Box::new(Collect { allocs, decided_on, ..Collect::default() }))
    };
    let is_there = |world: &World| world.store.alloc(AllocId(1)).is_some();

    let mut older = failed();
    let collect = forget(&older);
    older.run_as_of(7, collect).unwrap();
    assert!(!is_there(&older), "as it was");

    let mut replaced = failed();
    replaced.collect_allocs(&[1]);
    assert!(is_there(&replaced), "it has its place");
    let eval = replaced.register(service("web", 10, None));
    replaced.plan(eval, vec![Placement { after: vec![], ..place(2, 1, &[1], &[]) }], vec![]).unwrap();
    replaced.collect_allocs(&[1]);
    assert!(!is_there(&replaced));

    let mut changed = failed();
    changed.register(service("web", 11, None));
    changed.collect_allocs(&[1]);
    assert!(!is_there(&changed), "the new version has a place of its own");

    let mut stopped = failed();
    stopped.stop("web", false);
    stopped.collect_allocs(&[1]);
    assert!(!is_there(&stopped));

    let mut scaled = failed();
    scaled.register(counted("web", 10, 0));
    scaled.collect_allocs(&[1]);
    assert!(!is_there(&scaled), "nothing will ever be in its place");
}

fn counted(id: &str, memory_mb: u32, count: u32) -> Job {
    let mut job = service(id, memory_mb, None);
    job.groups[0].count = count;
    job
}

/// What no deployment asks for any more leaves no place behind, though the version after it changes nothing of it.
#[test]
fn a_failed_canary_stays_as_long_as_its_deployment_goes_on() {
    let mut world = World::with_nodes(1);
    let eval = world.register(counted("web", 10, 3));
    world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
    let group = DeploymentGroup { desired_canaries: 1, ..DeploymentGroup::default() };
    let canary = Placement { canary: true, ..place(2, 1, &[], &[]) };
    let first = world.deploy(counted("web", 11, 3), group.clone(), vec![canary]);
    world.end(2, ClientStatus::Failed);
    world.collect_allocs(&[2]);
    assert!(world.store.alloc(AllocId(2)).is_some(), "its deployment goes on with it");
    world.deploy(counted("web", 11, 4), group, vec![]);
    let decided_on = Some(world.store.index());
    let forget = Collect { deployments: vec![first], decided_on, ..Collect::default() };
    world.collect(forget.clone());
    assert!(world.store.deployments().get(first).is_some(), "it says that its canary was never promoted");
    world.collect_allocs(&[2]);
    assert!(world.store.alloc(AllocId(2)).is_none());
    world.collect(forget);
    assert!(world.store.deployments().get(first).is_none());
}

/// As it was registered, nobody has planned for the newest version yet: there is no deployment that would say that it waits for a
/// promotion.
#[test]
fn what_has_failed_stays_before_the_first_plan_of_a_version_with_canaries() {
    let mut world = World::with_nodes(1);
    let eval = world.register(service("web", 10, None));
    world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
    world.end(1, ClientStatus::Failed);
    let mut newest = service("web", 11, None);
    newest.groups[0].update = Some(Box::new(Update { canary: 1, ..Update::default() }));
    world.register(newest);
    world.collect_allocs(&[1]);
    assert!(world.store.alloc(AllocId(1)).is_some());
}

/// One of an older version that had to go while there was no capacity is succeeded as soon as there is, until the newest version
/// is promoted.
#[test]
fn what_had_to_go_before_a_promotion_stays_until_another_is_in_its_place() {
    let lost = |canaries: u32| {
        let mut world = World::with_nodes(1);
        let eval = world.register(service("web", 10, None));
        world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
        let group = DeploymentGroup { desired_canaries: canaries, ..DeploymentGroup::default() };
        let deployment = world.deploy(service("web", 11, None), group, vec![]);
        let eval = world.register(service("web", 11, None));
        world.plan(eval, vec![], vec![stop(1, StopReason::Preempted)]).unwrap();
        world.end(1, ClientStatus::Complete);
        world.collect_allocs(&[1]);
        (world, deployment)
    };
    assert!(lost(0).0.store.alloc(AllocId(1)).is_none(), "the newest version takes its place");
    let (mut waits, deployment) = lost(1);
    assert!(waits.store.alloc(AllocId(1)).is_some());
    waits.succeed(deployment);
    waits.collect_allocs(&[1]);
    assert!(waits.store.alloc(AllocId(1)).is_none());
}

#[test]
fn what_a_deployment_has_placed_is_judged_for_the_next_though_it_is_collected() {
    let mut world = World::with_nodes(1);
    let mut web = service("web", 10, None);
    let carrying = |carried| DeploymentGroup { carried, ..DeploymentGroup::default() };
    let first = world.deploy(web.clone(), carrying(vec![]), vec![place(1, 1, &[], &[])]);
    web.groups[0].count = 2;
    let second = world.deploy(web, carrying(vec![(0, 0)]), vec![place(2, 1, &[], &[])]);
    let decided_on = Some(world.store.index());
    let forget = Collect { deployments: vec![first], decided_on, ..Collect::default() };
    world.collect(forget.clone());
    let well = |id| AllocHealth { alloc: AllocId(id), healthy: true, message: String::new(), revision: None };
    world.run(Command::SetAllocHealth(vec![well(1), well(2)])).unwrap();
    let healthy = |world: &World| world.store.deployments().get(second).map(|d| d.groups[0].healthy);
    assert_eq!(healthy(&world), Some(2));
    world.succeed(second);
    world.collect(forget);
    assert!(world.store.deployments().get(first).is_none(), "nobody asks for it any more");
}

/// A node on which batch work is done, and that is down.
fn with_results() -> World {
    let mut world = World::with_nodes(2);
    let eval = world.register(job("sum", JobType::Batch, 10, None));
    world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
    world.end(1, ClientStatus::Complete);
    world.run(Command::SetNodeStatus(NodeId(1), NodeStatus::Down, None)).unwrap();
    world
}

fn purge(world: &mut World) {
    let decided_on = Some(world.store.index());
    world.collect(Collect { nodes: vec![NodeId(1)], decided_on, ..Collect::default() });
}

#[test]
fn a_purged_node_is_gone_for_everybody_and_its_results_are_not() {
    let mut world = with_results();
    purge(&mut world);
    assert!(matches!(world.events[..], [StateChange::NodeCollected(_, NodeId(1))]));
    for store in [world.store.clone(), restored(&world.store)] {
        assert_eq!(store.hash(), world.store.hash());
        assert_eq!(store.nodes().len(), 1);
        assert!(store.node(NodeId(1)).is_none());
        assert!(store.nodes().iter().all(|(_, row)| row.id != NodeId(1)));
        assert!(store.nodes().range(..).all(|(id, _)| id != NodeId(1)));
        let (_, result) = store.alloc(AllocId(1)).expect("it keeps the work from running again");
        let ran_on = store.nodes().row(result.node).expect("where it ran is known");
        assert_eq!((ran_on.id, ran_on.is_ready(), ran_on.capacity.memory_mb), (NodeId(1), false, 0));
    }
    let refused = world.run(Command::SetNodeStatus(NodeId(1), NodeStatus::Ready, None));
    assert_eq!(refused, Err(Refusal::NoNode(NodeId(1))));
}

#[test]
fn a_purged_node_goes_for_good_with_its_last_result() {
    let mut world = with_results();
    let slot = world.store.alloc(AllocId(1)).unwrap().1.node;
    purge(&mut world);
    let eval = world.stop("sum", true);
    world.plan(eval, vec![], vec![]).unwrap();
    let (jobs, decided_on) = (vec![key("sum").purged(eval)], Some(world.store.index()));
    world.collect(Collect { jobs, decided_on, ..Collect::default() });
    assert!(world.store.nodes().row(slot).is_none());
    assert_eq!(restored(&world.store).hash(), world.store.hash());
}

#[test]
fn a_purged_node_that_comes_back_is_a_new_one_that_knows_its_results() {
    let mut world = with_results();
    purge(&mut world);
    world.run(Command::RegisterNode(Box::new(node(1)))).unwrap();
    let (slot, row) = world.store.node(NodeId(1)).expect("it is there again");
    assert_eq!(
        (row.status, row.eligible, row.create_index),
        (NodeStatus::Initializing, true, world.store.index())
    );
    assert_eq!((row.capacity.memory_mb, world.store.nodes().ended(row).count()), (100_000, 1));
    assert_eq!(world.store.alloc(AllocId(1)).unwrap().1.node, slot);
    assert_eq!(restored(&world.store).hash(), world.store.hash());
}

#[test]
fn a_node_that_was_heard_of_meanwhile_stays() {
    let mut world = with_results();
    let decided_on = Some(world.store.index());
    world.run(Command::SetNodeStatus(NodeId(1), NodeStatus::Ready, None)).unwrap();
    world.run(Command::SetNodeStatus(NodeId(1), NodeStatus::Down, None)).unwrap();
    world.collect(Collect { nodes: vec![NodeId(1)], decided_on, ..Collect::default() });
    assert!(world.store.node(NodeId(1)).is_some());
}

#[test]
fn entries_of_version_1_forget_as_they_did() {
    let mut world = with_results();
    world.collect(Collect { nodes: vec![NodeId(1)], ..Collect::default() });
    assert!(world.store.node(NodeId(1)).is_some(), "something that ended there is kept");
    world.collect(Collect { nodes: vec![NodeId(1)], allocs: vec![AllocId(1)], ..Collect::default() });
    assert!(world.store.node(NodeId(1)).is_none() && world.store.allocs().is_empty());
    let eval = world.store.evals().iter().map(|(_, eval)| eval.id).next();
    assert!(eval.is_some_and(|eval| eval > EvalId(0)));
}

/// What stood in first has failed, and is forgotten while the node is still away: who stands in now is to be known once it is back.
#[test]
fn what_stands_in_for_an_allocation_is_known_after_what_failed_between_them_is_collected() {
    let linked = |version: u8| {
        let mut world = World::with_nodes(3);
        let eval = world.register(service("web", 10, None));
        world.plan(eval, vec![place(1, 1, &[], &[])], vec![]).unwrap();
        world.run(Command::SetNodeStatus(NodeId(1), NodeStatus::Disconnected, None)).unwrap();
        for (id, previous) in [(2, 1), (3, 2)] {
            if id == 3 {
                world.end(2, ClientStatus::Failed);
            }
            let eval = world.register(service("web", 10, None));
            let stand_in = Placement { previous: Some(AllocId(previous)), ..place(id, id, &[], &[]) };
            world.plan(eval, vec![stand_in], vec![]).unwrap();
        }
        let decided_on = Some(world.store.index());
        let collect = Collect { allocs: vec![AllocId(2)], decided_on, ..Collect::default() };
        world.run_as_of(version, Command::Collect(Box::new(collect))).unwrap();
        assert!(world.store.alloc(AllocId(2)).is_none());
        let extra = |id| world.store.allocs().extra(world.store.alloc(AllocId(id)).unwrap().0).unwrap();
        (extra(1).next, extra(3).previous)
    };
    let [first, last, gone] = [1, 3, 2].map(|id| Some(AllocId(id)));
    assert_eq!(linked(7), (gone, gone), "as it was");
    assert_eq!(linked(8), (last, first));
}
