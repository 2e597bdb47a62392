//! Whatever follows the state is the same, made again from a state or followed there through any history.

use std::sync::Arc;

use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus, Departure, MigrateAlloc, Placement, Stop, StopReason},
    command::{
        Collect, Command, DeregisterJob, DrainNode, Entry, EvalOutcome, NewDrain, NextEval, PlanRecord,
        RegisterJob,
    },
    deployment::{AllocHealth, DeploymentGroup, DeploymentStatus, NewDeployment, SetDeployment},
    eval::{EvalStatus, Trigger},
    ids::IdSeed,
    job::{Group, Job, JobType, Task},
    namespace::Namespace,
    node::{Node, NodeStatus},
    observed::{Observed, ObservedAlloc},
    resources::Resources,
    store::{AllocRow, Store},
};

use super::*;
use crate::messages::ReportedAlloc;

/// What follows the state, and nothing else.
struct Followers {
    blocked: Blocked,
    tenants: Tenants,
    collector: Collector,
    periodic: Periodic,
    rollouts: Rollouts,
    drains: Drains,
}

impl Followers {
    fn of(store: &Store) -> Self {
        Self {
            blocked: Blocked::of(store),
            tenants: Tenants::of(store),
            collector: Collector::of(store),
            periodic: Periodic::of(store),
            rollouts: Rollouts::of(store),
            drains: Drains::of(store),
        }
    }
}

/// A state that changes as it is drawn.
struct History {
    random: IdSeed,
    store: Store,
    observed: Observed,
    followed: Followers,
}

impl History {
    fn new(seed: u64) -> Self {
        let store = Store::default();
        let observed = Observed::default();
        Self { random: IdSeed::new(seed), followed: Followers::of(&store), store, observed }
    }

    fn draw(&mut self, below: u128) -> u128 {
        self.random.mint() % below
    }

    fn apply(&mut self, command: Command) {
        let index = Index(self.store.index().0 + 1);
        let at = Timestamp(index.0 * 60_000_000_000);
        let applied = self.store.apply(Entry::new(index, at, vec![command]));
        for change in &applied.events {
            self.followed.blocked.on_change(&self.store, change, at);
            self.followed.tenants.on_change(&self.store, change, at);
            self.followed.collector.on_change(&self.store, change, at);
            self.followed.periodic.on_change(&self.store, change, at);
            self.followed.rollouts.on_change(&self.store, change, at);
            self.followed.drains.on_change(&self.store, change, at);
        }
        self.followed.tenants.follow(&self.store);
        self.followed.rollouts.follow(&self.store);
    }

    fn step(&mut self) {
        let id = self.random.mint();
        let command = match self.draw(19) {
            0 | 1 => Command::RegisterNode(Box::new(node(1 + self.draw(3)))),
            2 => {
                let status = [NodeStatus::Ready, NodeStatus::Down][self.draw(2) as usize];
                Command::SetNodeStatus(NodeId(1 + self.draw(3)), status, None)
            }
            3 | 4 => {
                let job = Arc::new(job(self.draw(4), self.draw(2) == 0));
                Command::RegisterJob(Box::new(RegisterJob {
                    job,
                    eval: EvalId(id),
                    only_if: None,
                    submission: None,
                }))
            }
            5 => {
                let (job, purge) = (key(self.draw(4)), self.draw(2) == 0);
                Command::DeregisterJob(DeregisterJob { job, purge, eval: EvalId(id) })
            }
            6..=8 => return self.plan(),
            9 => return self.end(),
            10 => Command::PutNamespace(Box::new(Namespace {
                description: format!("{id}"),
                ..Namespace::new("default")
            })),
            11 => return self.collect(),
            12 | 13 => return self.show(),
            14 => {
                let deadline = (self.draw(2) == 0).then_some(Timestamp(id as u64));
                let drain = NewDrain { deadline, ignore_system: false, requested_ns: 0 };
                let drain = (self.draw(3) > 0).then_some(drain);
                let node = NodeId(1 + self.draw(3));
                Command::DrainNode(Box::new(DrainNode { node, drain, eligible: true, meta: [].into() }))
            }
            15 => {
                let alloc = self.store.allocs().iter().next().map(|(_, row)| row.id);
                let alloc = alloc.map(|alloc| MigrateAlloc { alloc, how: Departure::AtOnce });
                Command::MigrateAllocs(alloc.into_iter().collect())
            }
            16 | 17 => return self.observe(),
            _ => return self.decide(id),
        };
        self.apply(command);
    }

    /// An open evaluation is planned, whatever it asks for.
    fn plan(&mut self) {
        let open = self.store.evals().iter().find(|(_, eval)| !eval.status.is_terminal());
        let Some(eval) = open.map(|(_, eval)| eval.clone()) else { return };
        let Some(version) = self.store.job(&eval.job).map(|row| row.current().version) else { return };
        let placement = placement(AllocId(self.random.mint()), NodeId(1 + self.draw(3)));
        let waits = self.draw(2) == 0;
        // As the leader does: a job waits in one evaluation.
        let others =
            self.store.evals().blocked().filter(|other| other.job == eval.job && other.id != eval.id);
        for other in others.map(|other| other.id).collect::<Vec<_>>() {
            self.apply(Command::SetEvalStatus(other, EvalStatus::Canceled, String::new()));
        }
        let next = waits.then(|| NextEval {
            id: EvalId(self.random.mint()),
            status: EvalStatus::Blocked,
            trigger: Trigger::QueuedAllocs,
            wait_until: Timestamp(0),
        });
        let stops = self.store.allocs().iter().filter(|(_, row)| row.is_desired()).take(1);
        let stops = stops
            .map(|(_, row)| Stop { alloc: row.id, reason: StopReason::NotNeeded, observed_at: None })
            .collect();
        let is_old = |row: &AllocRow| row.is_desired() && row.job_version < version;
        let old: Vec<_> =
            self.store.allocs().iter().filter(|(_, row)| is_old(row)).map(|(_, row)| row.id).collect();
        let updates: Vec<AllocId> = old.into_iter().skip(1).filter(|_| self.draw(2) == 0).collect();
        let group = DeploymentGroup {
            name: "g".to_owned(),
            desired_total: 2,
            promoted: true,
            progress_deadline: Duration::from_secs(600),
            carried: vec![(version.saturating_sub(1), 0)],
            ..DeploymentGroup::default()
        };
        let id = berth_model::DeploymentId(self.random.mint());
        let deployment = (self.draw(2) == 0).then(|| Box::new(NewDeployment { id, groups: vec![group] }));
        self.apply(Command::CommitPlan(Box::new(PlanRecord {
            eval: eval.id,
            job: eval.job.clone(),
            job_version: version,
            snapshot_index: self.store.index(),
            placements: vec![placement],
            stops,
            deployment,
            outcome: Some(EvalOutcome {
                status: EvalStatus::Complete,
                description: String::new(),
                failures: vec![].into(),
                next: next.into_iter().collect(),
            }),
            updates: Some(updates).filter(|updates| !updates.is_empty()),
        })));
    }

    fn end(&mut self) {
        let live = self.store.allocs().iter().find(|(_, row)| !row.is_terminal()).map(|(_, row)| row.id);
        if let Some(alloc) = live {
            let status = [ClientStatus::Complete, ClientStatus::Failed][self.draw(2) as usize];
            self.apply(Command::EndAllocs(vec![AllocEnd {
                alloc,
                status,
                tasks: vec![],
                observed_at: None,
            }]));
        }
    }

    /// An agent finds an allocation well, or not.
    fn show(&mut self) {
        let live: Vec<AllocId> =
            self.store.allocs().iter().filter(|(_, row)| row.is_desired()).map(|(_, row)| row.id).collect();
        if !live.is_empty() {
            let alloc = live[self.draw(live.len() as u128) as usize];
            let health =
                AllocHealth { alloc, healthy: self.draw(3) > 0, message: String::new(), revision: None };
            self.apply(Command::SetAllocHealth(vec![health]));
        }
    }

    /// Something becomes of a deployment.
    fn decide(&mut self, id: u128) {
        let Some(deployment) = self.store.deployments().active().next().map(|active| active.id) else {
            return;
        };
        let statuses = [
            DeploymentStatus::Running,
            DeploymentStatus::Paused,
            DeploymentStatus::Successful,
            DeploymentStatus::Failed,
        ];
        let status = statuses[self.draw(4) as usize];
        self.apply(Command::SetDeployment(Box::new(SetDeployment {
            id: deployment,
            status,
            description: String::new(),
            revert_to: None,
            eval: Some(EvalId(id)),
        })));
    }

    fn collect(&mut self) {
        if self.draw(2) == 0 {
            // What is asked for is refused, as something has changed meanwhile.
            let long_after = Timestamp((self.store.index().0 + 24 * 60) * 60_000_000_000);
            let due = self.followed.collector.due(&self.store, long_after);
            let rest = due
                .map(|due| Collect { allocs: vec![], jobs: vec![], ..due })
                .filter(|rest| !rest.is_empty());
            return rest.into_iter().for_each(|rest| self.apply(Command::Collect(Box::new(rest))));
        }
        let ended = self.store.allocs().iter().filter(|(_, row)| row.is_terminal());
        let collect = Collect {
            allocs: ended.map(|(_, row)| row.id).take(2).collect(),
            jobs: vec![key(self.draw(4))],
            nodes: vec![NodeId(1 + self.draw(3))],
            decided_on: Some(self.store.index()),
            ..Collect::default()
        };
        self.apply(Command::Collect(Box::new(collect)));
    }

    /// An agent reports the status of an allocation.
    fn observe(&mut self) {
        let living = self.store.allocs().iter().filter(|(_, row)| !row.is_terminal());
        let living: Vec<_> = living.map(|(slot, row)| (slot, *row)).collect();
        let Some((slot, row)) = living.get(self.draw(1 + living.len() as u128) as usize).copied() else {
            return;
        };
        let alloc = Arc::new(ObservedAlloc {
            status: [ClientStatus::Pending, ClientStatus::Running][self.draw(2) as usize],
            healthy: [None, Some(false), Some(true)][self.draw(3) as usize],
            ..(*ReportedAlloc::nothing(slot, row.id).alloc).clone()
        });
        self.observed.record(slot, row.job, row.group, alloc.clone(), self.store.index());
        self.followed.drains.on_recorded(&self.store, [ReportedAlloc::new(slot, alloc)].iter());
    }

    /// What drains lead to is written, or still on its way.
    fn drain(&mut self) {
        let at = Timestamp(self.store.index().0 * 60_000_000_000);
        let leaving = self.followed.drains.judge(&self.store, &self.observed, at);
        if self.draw(2) == 0 {
            let allocs = leaving.allocs.into_iter().map(|(alloc, _)| alloc).collect();
            self.apply(Command::MigrateAllocs(allocs));
        }
        let [counted, anew] = self.followed.drains.recounted(&self.store, &self.observed, at);
        assert_eq!(counted, anew, "what is counted of services that leave");
    }

    fn compare(&self) {
        let anew = Followers::of(&self.store);
        assert_eq!(self.followed.blocked.waiting(), anew.blocked.waiting());
        assert_eq!(self.followed.periodic, anew.periodic);
        assert_eq!(self.followed.rollouts.deadlines(), anew.rollouts.deadlines());
        assert_eq!(self.followed.drains.followed(), anew.drains.followed());
        assert_eq!(self.followed.tenants.shares(), anew.tenants.shares());
        // In the end the same is garbage-collected, in whatever order it became due.
        let collected = |mut collector: Collector| {
            let mut sum = Collect::default();
            while let Some(mut due) = collector.due(&self.store, Timestamp::NEVER) {
                sum.jobs.append(&mut due.jobs);
                sum.allocs.append(&mut due.allocs);
                sum.evals.append(&mut due.evals);
                sum.nodes.append(&mut due.nodes);
                sum.deployments.append(&mut due.deployments);
                if collector.due_at().is_none() {
                    break;
                }
            }
            let mut store = self.store.clone();
            sum.decided_on = Some(store.index());
            let (index, at) = (Index(store.index().0 + 1), store.at());
            store.apply(Entry::new(index, at, vec![Command::Collect(Box::new(sum))]));
            store.hash()
        };
        let followed = collected(self.followed.collector.clone());
        assert_eq!(followed, collected(anew.collector), "other things are forgotten");
    }
}

fn key(number: u128) -> JobKey {
    JobKey::new("default", &format!("job-{number}"))
}

fn job(number: u128, periodic: bool) -> Job {
    let kind = if number < 2 { JobType::Service } else { JobType::Batch };
    let group = Group { tasks: vec![Task::new("t", "mock_driver", kind)], ..Group::new("g", kind) };
    let mut job = Job { groups: vec![group], ..Job::new(key(number), kind) };
    if periodic && kind == JobType::Batch {
        let specs = vec!["*/5 * * * *".to_owned()];
        job.periodic =
            Some(Box::new(berth_model::job::Periodic { enabled: true, specs, ..Default::default() }));
    }
    job
}

fn placement(id: AllocId, node: NodeId) -> Placement {
    Placement {
        id,
        node,
        group: 0,
        name_index: 0,
        ports: vec![],
        after: vec![],
        previous: None,
        reschedules: vec![],
        devices: vec![],
        cores: vec![],
        canary: false,
        job_version: None,
    }
}

fn node(id: u128) -> Node {
    Node::new(
        NodeId(id),
        &format!("n{id}"),
        Resources { cpu_mhz: 40_000, memory_mb: 100_000, disk_mb: 100_000 },
    )
}

#[test]
fn followed_through_any_history_or_made_anew_they_are_the_same() {
    for seed in 0..60 {
        let mut history = History::new(seed);
        for _ in 0..120 {
            history.step();
            history.drain();
            history.compare();
        }
    }
}

#[test]
fn a_batch_job_that_lost_its_work_is_not_done_by_its_counts() {
    let mut history = History::new(0);
    history.apply(Command::RegisterNode(Box::new(node(1))));
    history.apply(Command::SetNodeStatus(NodeId(1), NodeStatus::Ready, None));
    let register =
        RegisterJob { job: Arc::new(job(2, false)), eval: EvalId(1), only_if: None, submission: None };
    history.apply(Command::RegisterJob(Box::new(register)));
    let job = key(2);
    history.apply(Command::CommitPlan(Box::new(PlanRecord {
        eval: EvalId(1),
        job: job.clone(),
        job_version: 0,
        snapshot_index: history.store.index(),
        placements: [1, 2].map(|id| placement(AllocId(id), NodeId(1))).into(),
        stops: vec![],
        deployment: None,
        outcome: None,
        updates: None,
    })));
    let mut has_all_after = |alloc: u128, status| {
        history.apply(Command::EndAllocs(vec![AllocEnd {
            alloc: AllocId(alloc),
            status,
            tasks: vec![],
            observed_at: None,
        }]));
        let open = history.store.evals().iter().filter(|(_, eval)| !eval.status.is_terminal());
        for eval in open.map(|(_, eval)| eval.id).collect::<Vec<_>>() {
            history.apply(Command::SetEvalStatus(eval, EvalStatus::Complete, String::new()));
        }
        // Only then may something there be declared lost.
        history.apply(Command::SetNodeStatus(NodeId(1), NodeStatus::Down, None));
        let row = history.store.job(&job).expect("it was registered");
        (row.live, changes::has_all_by_its_counts(row))
    };
    assert_eq!(has_all_after(1, ClientStatus::Complete), (1, false));
    assert_eq!(
        has_all_after(2, ClientStatus::Lost),
        (0, false),
        "the first may have left a node that was drained"
    );
}
