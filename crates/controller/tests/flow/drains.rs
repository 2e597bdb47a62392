//! Nodes that are drained: what leaves them when, who stands in for it, and what calls it all off.

use berth_model::{
    alloc::{self, MigrateAlloc, StopReason},
    command::{DrainNode, NewDrain},
    eval::Eval,
    job::Migrate,
    node::DrainStatus,
};

use super::*;

/// Long enough for everything to move.
const HOUR_S: u64 = 3_600;

impl Shell {
    fn drain(&mut self, node: u128, seconds: Option<u64>, ignore_system: bool) {
        let deadline = seconds.map(|seconds| Timestamp(self.at().0 + seconds * 1_000_000_000));
        let drain = Some(NewDrain { deadline, ignore_system, requested_ns: 0 });
        let drain = DrainNode { node: NodeId(node), drain, eligible: false, meta: BTreeMap::new() };
        self.seeds += 1;
        self.request(self.seeds + 10_000, Command::DrainNode(Box::new(drain)));
    }

    /// The log has more in the end than its leader has seen.
    fn write_behind(&mut self, commands: Vec<Command>) {
        let entry = Entry::new(Index(self.store.index().0 + 1), self.at(), commands);
        let applied = self.store.apply(entry);
        assert!(applied.outcomes.iter().all(Result::is_ok), "{:?}", applied.outcomes);
    }

    fn call_off(&mut self, node: u128) {
        let drain = DrainNode { node: NodeId(node), drain: None, eligible: true, meta: BTreeMap::new() };
        self.seeds += 1;
        self.request(self.seeds + 10_000, Command::DrainNode(Box::new(drain)));
    }

    fn status_of(&self, node: u128) -> DrainStatus {
        let (slot, _) = self.store.node(NodeId(node)).expect("it is there");
        let last = self.store.nodes().detail(slot).and_then(|detail| detail.drain.clone());
        last.expect("it was drained").status
    }

    /// The allocations that should run there.
    fn on(&self, node: u128) -> Vec<AllocId> {
        let desired = self.wanted();
        desired.into_iter().filter(|(_, _, home)| *home == NodeId(node)).map(|(_, id, _)| id).collect()
    }

    /// Those that are to end there and have not.
    fn ending(&self, node: u128) -> Vec<AllocId> {
        let (_, row) = self.store.node(NodeId(node)).expect("it is there");
        let live = self.store.nodes().live(row).filter_map(|slot| self.store.allocs().row(slot));
        live.filter(|row| !row.is_desired()).map(|row| row.id).collect()
    }

    /// All that should run does, and all that should end has.
    fn obey(&mut self) {
        for node in [1, 2, 3] {
            if self.store.node(NodeId(node)).is_none() {
                continue;
            }
            let runs = self.on(node).into_iter().map(|id| (id, ClientStatus::Running));
            let ends = self.ending(node).into_iter().map(|id| (id, ClientStatus::Complete));
            let all: Vec<_> = runs.chain(ends).collect();
            self.observe(node as u64, &all);
        }
    }

    /// The agents find all that runs well.
    fn become_healthy(&mut self) {
        for node in [1, 2, 3] {
            if self.store.node(NodeId(node)).is_none() {
                continue;
            }
            let all: Vec<_> = self.on(node).into_iter().map(|id| (id, ClientStatus::Running)).collect();
            self.observe_as(node as u64, &all, Some(true));
        }
        self.tick(1);
    }

    fn reason(&self, id: AllocId) -> Option<StopReason> {
        self.store.allocs().extra(self.store.allocs().find(id)?)?.stop_reason
    }
}

/// Three nodes, and the one of them that has two of the three allocations of a job.
fn crowded(job: Job) -> (Shell, u128) {
    let mut shell = Shell::new();
    (1..=2).for_each(|node| shell.join(node, u128::from(node)));
    shell.register_job(job);
    shell.obey();
    let node = (1..=2).find(|node| shell.on(*node).len() == 2).expect("one of them has two");
    shell.join(3, 3);
    (shell, node)
}

#[test]
fn allocations_move_one_after_the_other_each_once_the_one_before_is_well() {
    let (mut shell, node) = crowded(job(3, 100));
    let all = shell.on(node);
    shell.drain(node, Some(HOUR_S), false);
    for left in (0..all.len()).rev() {
        assert_eq!(shell.on(node).len(), left, "one leaves at a time");
        assert_eq!(shell.wanted().len(), 3, "another stands in for it at once");
        shell.obey();
        assert_eq!(shell.on(node).len(), left, "its successor has not shown that it is well");
        assert_eq!(shell.status_of(node) == DrainStatus::Complete, left == 0);
        shell.become_healthy();
    }
    assert!(all.iter().all(|id| shell.reason(*id) == Some(StopReason::Migrated)));
    assert_eq!(shell.status_of(node), DrainStatus::Complete);
    let eligible = shell.store.node(NodeId(node)).unwrap().1.eligible;
    assert!(!eligible, "a node that was emptied stays closed");
}

#[test]
fn a_group_says_how_many_move_at_a_time() {
    let mut three = job(3, 100);
    three.groups[0].migrate = Some(Box::new(Migrate { max_parallel: 3, ..Migrate::default() }));
    let (mut shell, node) = crowded(three);
    shell.drain(node, Some(HOUR_S), false);
    assert_eq!(shell.on(node).len(), 0);
    assert_eq!(shell.wanted().len(), 3);
}

#[test]
fn what_has_no_other_place_stays_until_the_deadline() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(2, 100);
    shell.obey();
    shell.drain(1, Some(60), false);
    shell.obey();
    assert_eq!(shell.on(1).len(), 2, "there is no room elsewhere");
    shell.pass(61);
    assert_eq!(shell.on(1).len(), 0);
    shell.obey();
    assert_eq!(shell.status_of(1), DrainStatus::Complete);
    assert_eq!(shell.store.evals().blocked().count(), 1, "they wait for room");
    shell.join(2, 2);
    assert_eq!(shell.on(2).len(), 2);
}

#[test]
fn batch_work_runs_to_its_end_and_system_work_leaves_last() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.join(2, 2);
    let typed = |id: &str, job_type: JobType| {
        let mut of_type = job(1, 50);
        (of_type.key, of_type.job_type) = (JobKey::new("default", id), job_type);
        of_type
    };
    shell.register_job(typed("agent", JobType::System));
    shell.register_job(typed("count", JobType::Batch));
    shell.obey();
    let (node, batch) = {
        let count = shell.store.job(&JobKey::new("default", "count")).expect("it is registered");
        let slot = shell.store.jobs().allocs(count).next().expect("it is placed");
        let row = shell.store.allocs().row(slot).expect("it is there");
        (shell.store.nodes().row(row.node).expect("it is there").id.0, row.id)
    };
    shell.drain(node, None, false);
    shell.pass(HOUR_S);
    assert_eq!(shell.on(node).len(), 2, "batch work runs on, and system work beside it");
    shell.observe(node as u64, &[(batch, ClientStatus::Complete)]);
    assert_eq!(shell.on(node), []);
    shell.obey();
    assert_eq!(shell.status_of(node), DrainStatus::Complete);
    assert_eq!(shell.wanted().len(), 1, "the system job runs on the other node alone");
}

#[test]
fn system_work_may_be_left_alone() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let mut system = job(1, 50);
    system.job_type = JobType::System;
    shell.register_job(system);
    shell.obey();
    shell.drain(1, Some(0), true);
    shell.obey();
    assert_eq!(shell.on(1).len(), 1);
    assert_eq!(shell.status_of(1), DrainStatus::Complete);
}

#[test]
fn a_drain_that_is_called_off_leaves_alone_what_has_not_moved() {
    let (mut shell, node) = crowded(job(3, 100));
    let before = shell.on(node).len();
    shell.drain(node, Some(60), false);
    shell.call_off(node);
    assert_eq!(shell.status_of(node), DrainStatus::Canceled);
    shell.obey();
    shell.pass(120);
    shell.become_healthy();
    assert_eq!(shell.on(node).len(), before - 1);
    assert!(shell.store.node(NodeId(node)).unwrap().1.eligible);
    // It can be drained again, and is.
    shell.drain(node, Some(0), false);
    shell.obey();
    assert_eq!(shell.on(node).len(), 0);
    assert_eq!(shell.status_of(node), DrainStatus::Complete);
}

#[test]
fn whoever_leads_next_goes_on_with_a_drain() {
    let (mut shell, node) = crowded(job(3, 100));
    shell.drain(node, Some(60), false);
    let remaining = shell.on(node).len();
    shell.lead(2);
    (1..=3).for_each(|node| shell.join(node, u128::from(node)));
    shell.obey();
    assert_eq!(shell.on(node).len(), remaining, "its successor has still to show that it is well");
    shell.pass(61);
    assert_eq!(shell.on(node).len(), 0, "the deadline holds under any leader");
    shell.obey();
    assert_eq!(shell.status_of(node), DrainStatus::Complete);
}

#[test]
fn an_agent_that_dies_in_between_ends_its_drain() {
    let (mut shell, node) = crowded(job(3, 100));
    shell.drain(node, Some(HOUR_S), false);
    for _ in 0..6 {
        shell.tick(5);
        (1..=3).filter(|other| *other != node as u64).for_each(|other| shell.heartbeat(other));
    }
    assert_eq!(shell.store.node(NodeId(node)).unwrap().1.status, NodeStatus::Down);
    assert_eq!(shell.wanted().len(), 3, "what was lost runs elsewhere");
    assert_eq!(shell.status_of(node), DrainStatus::Complete);
}

#[test]
fn a_node_that_is_drained_again_meanwhile_keeps_to_the_newer_deadline() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(2, 100);
    shell.obey();
    shell.drain(1, Some(60), false);
    shell.pass(30);
    shell.drain(1, Some(600), false);
    shell.pass(100);
    assert_eq!((shell.on(1).len(), shell.status_of(1)), (2, DrainStatus::Draining), "it has more time now");
    shell.drain(1, Some(10), false);
    shell.pass(11);
    assert_eq!(shell.on(1).len(), 0, "it has less time now");
    shell.obey();
    assert_eq!(shell.status_of(1), DrainStatus::Complete);
}

#[test]
fn a_node_that_was_drained_can_be_drained_again_with_another_deadline() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(2, 100);
    shell.obey();
    shell.drain(1, Some(0), false);
    shell.obey();
    assert_eq!((shell.on(1).len(), shell.status_of(1)), (0, DrainStatus::Complete));
    // There is nothing left: it is over at once.
    shell.drain(1, Some(HOUR_S), false);
    shell.tick(1);
    assert_eq!(shell.status_of(1), DrainStatus::Complete);
    shell.call_off(1);
    assert_eq!(shell.on(1).len(), 2, "it takes work again, and what had no room comes back");
    shell.obey();
    shell.drain(1, Some(60), false);
    shell.pass(59);
    assert_eq!(
        (shell.on(1).len(), shell.status_of(1)),
        (2, DrainStatus::Draining),
        "the first deadline is gone"
    );
    shell.pass(2);
    shell.obey();
    assert_eq!((shell.on(1).len(), shell.status_of(1)), (0, DrainStatus::Complete));
}

/// As when an agent is killed while it waits for its node to be drained before it stops.
#[test]
fn an_agent_that_dies_and_comes_back_goes_on_with_its_drain() {
    let (mut shell, node) = crowded(job(3, 100));
    shell.drain(node, Some(HOUR_S), false);
    let moved = shell.ending(node);
    assert_eq!((shell.on(node).len(), moved.len()), (1, 1));
    shell.sessions.remove(&(node as u64));
    shell.tell(Event::SessionClosed(SessionId(node as u64)));
    shell.pass(5);
    assert_eq!(shell.store.node(NodeId(node)).unwrap().1.status, NodeStatus::Ready, "it may be on its way");
    // Its next process finds what ran: one has ended meanwhile, the other goes on.
    let stays = shell.on(node)[0];
    shell.hello(10, node, 2, 7);
    shell.observe(10, &[(moved[0], ClientStatus::Complete), (stays, ClientStatus::Running)]);
    assert_eq!((shell.status_of(node), shell.on(node).len()), (DrainStatus::Draining, 1));
    let eligible = |shell: &Shell| shell.store.node(NodeId(node)).unwrap().1.eligible;
    assert!(!eligible(&shell), "its return lets no work in");
    let others: Vec<u64> = (1..=3).filter(|other| u128::from(*other) != node).collect();
    for other in others {
        let all: Vec<_> = shell.on(other.into()).into_iter().map(|id| (id, ClientStatus::Running)).collect();
        shell.observe_as(other, &all, Some(true));
    }
    shell.tick(1);
    assert_eq!(shell.on(node).len(), 0, "the next one leaves once the one before is well elsewhere");
    shell.observe(10, &[(stays, ClientStatus::Complete)]);
    assert_eq!(shell.status_of(node), DrainStatus::Complete);
    assert!(!eligible(&shell) && shell.wanted().len() == 3);
}

/// The leader that told it to leave was the last to write, and had not come to plan where to.
#[test]
fn what_was_asked_to_leave_is_planned_by_the_next_leader() {
    let (mut shell, node) = crowded(job(3, 100));
    let migrations =
        shell.on(node).into_iter().map(|alloc| MigrateAlloc { alloc, how: alloc::Departure::AtOnce });
    let migrations = Command::MigrateAllocs(migrations.collect());
    let drain = Some(NewDrain { deadline: None, ignore_system: false, requested_ns: 0 });
    let drain = DrainNode { node: NodeId(node), drain, eligible: false, meta: BTreeMap::new() };
    shell.write_behind(vec![Command::DrainNode(Box::new(drain)), migrations]);
    shell.lead(2);
    (1..=3).for_each(|node| shell.join(node, u128::from(node)));
    assert_eq!((shell.on(node).len(), shell.wanted().len()), (0, 3));
}

#[test]
fn one_plan_answers_what_the_leader_found_before_it_and_people_are_answered_themselves() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register_job(job(3, 100));
    let triggers = [Trigger::NodeDrain, Trigger::AllocFailure, Trigger::NodeDrain, Trigger::JobRegister];
    let evals = (1..).zip(triggers).map(|(id, trigger)| {
        let key = shell.store.jobs().iter().next().expect("it is registered").1.key.clone();
        Eval::pending(EvalId(id), key, JobType::Service, 50, trigger)
    });
    let evals = Command::CreateEvals(evals.collect());
    shell.write_behind(vec![evals]);
    shell.lead(2);
    shell.join(1, 1);
    let became = (1..=4).map(|id| shell.store.eval(EvalId(id)).expect("it is kept").clone());
    let became: Vec<_> = became.map(|eval| (eval.status, eval.description.clone())).collect();
    let answered = || (EvalStatus::Canceled, format!("superseded by evaluation {}", EvalId(1)));
    let done = || (EvalStatus::Complete, String::new());
    assert_eq!(became, [done(), answered(), answered(), done()]);
}
