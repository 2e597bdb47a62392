//! A cluster of simulated nodes in a store, with one planner: what a planner decides is applied, and what has ended makes
//! room.

use std::{
    collections::{BTreeMap, VecDeque},
    hint::black_box,
    sync::Arc,
    time::Duration,
};

use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus},
    command::{Collect, Command, DeregisterJob, Entry, EvalOutcome, PlanRecord, RegisterJob},
    eval::{Eval, EvalStatus, Trigger},
    job::{Group, Job, JobType, Task, TaskResources},
    node::{Node, NodeStatus},
    resources::Resources,
    store::Store,
};
use berth_scheduler::{Claims, Plan, Planner};
use criterion::measurement::{Measurement, WallTime};

/// Racks of a cluster.
const RACKS: usize = 50;
/// Nodes of the pool in which allocations meet.
const FEW: usize = 60;
/// Placements of a round, but where a job of one is measured.
pub const COUNT: u32 = 100;
/// Asks that differ, where many do.
pub const ASKS: u32 = 1000;

pub struct Cluster {
    store: Store,
    planner: Planner,
    index: u64,
    /// The jobs with their allocations, the oldest first.
    pub jobs: VecDeque<(JobKey, Vec<AllocId>)>,
    made: u32,
    /// Placements for which nothing has ended yet.
    owed: usize,
}

impl Cluster {
    /// Nodes of three capacities in [`RACKS`] racks, 60 % full, and [`FEW`] idle ones in a pool of their own.
    pub fn new(nodes: usize) -> Self {
        let mut cluster = Self {
            store: Store::default(),
            planner: Planner::default(),
            index: 0,
            jobs: VecDeque::new(),
            made: 0,
            owed: 0,
        };
        let register =
            |at| Command::RegisterNode(Box::new(node(at, if at < FEW { "few" } else { "default" })));
        let nodes = nodes + FEW;
        cluster.apply((0..nodes).map(register).collect());
        let ready = |at| Command::SetNodeStatus(NodeId(at as u128 + 1), NodeStatus::Ready, None);
        cluster.apply((0..nodes).map(ready).collect());
        let rounds = (nodes - FEW) * 6 / COUNT as usize;
        for round in 0..rounds as u32 {
            let eval = cluster.register(identical(COUNT, ask(round % ASKS)));
            cluster.place(&eval);
        }
        cluster
    }

    pub fn apply(&mut self, commands: Vec<Command>) {
        self.index += 1;
        let entry = Entry::new(Index(self.index), Timestamp(self.index), commands);
        for outcome in self.store.apply(entry).outcomes {
            outcome.expect("what the benchmark asks for can be done");
        }
    }

    pub fn register(&mut self, mut job: Job) -> Eval {
        self.made += 1;
        job.key = JobKey::new("default", &format!("job-{}", self.made));
        let (key, id) = (job.key.clone(), EvalId(u128::from(self.made)));
        self.apply(vec![Command::RegisterJob(Box::new(RegisterJob {
            job: Arc::new(job),
            eval: id,
            only_if: None,
            submission: None,
        }))]);
        Eval::pending(id, key, JobType::Service, 50, Trigger::JobRegister)
    }

    /// Plans, and reports how long that took.
    pub fn plan(&mut self, eval: &Eval) -> (Plan, Duration) {
        let claims = Claims::default();
        let start = WallTime.start();
        self.planner.follow(&self.store, &claims);
        let plan = black_box(self.planner.plan(&self.store, eval, Timestamp(self.index), self.index));
        (plan, WallTime.end(start))
    }

    pub fn place(&mut self, eval: &Eval) -> Duration {
        let (plan, took) = self.plan(eval);
        assert!(plan.failures.is_empty(), "the cluster has room: {:?}", plan.failures);
        self.commit(plan);
        took
    }

    pub fn commit(&mut self, plan: Plan) {
        let ids = plan.placements.iter().map(|placement| placement.id).collect();
        self.jobs.push_back((plan.job.clone(), ids));
        self.apply(vec![Command::CommitPlan(Box::new(PlanRecord {
            eval: plan.eval,
            job: plan.job,
            job_version: plan.job_version,
            snapshot_index: plan.snapshot_index,
            placements: plan.placements,
            stops: plan.stops,
            deployment: None,
            outcome: Some(EvalOutcome {
                status: EvalStatus::Complete,
                description: String::new(),
                failures: vec![].into(),
                next: vec![],
            }),
            updates: Some(plan.updates).filter(|updates| !updates.is_empty()),
        }))]);
    }

    /// Ends and forgets the oldest jobs, as soon as what was placed since is worth one.
    pub fn make_room(&mut self, placed: usize) {
        self.owed += placed;
        while self.jobs.front().is_some_and(|(_, allocs)| allocs.len() <= self.owed) {
            let (key, allocs) = self.jobs.pop_front().expect("it was just looked at");
            self.owed -= allocs.len();
            self.end(key, allocs);
        }
    }

    pub fn end(&mut self, key: JobKey, allocs: Vec<AllocId>) {
        let end =
            |alloc| AllocEnd { alloc, status: ClientStatus::Complete, tasks: vec![], observed_at: None };
        self.made += 1;
        let eval = EvalId(u128::from(self.made));
        self.apply(vec![
            Command::DeregisterJob(DeregisterJob { job: key.clone(), purge: true, eval }),
            Command::EndAllocs(allocs.into_iter().map(end).collect()),
            Command::SetEvalStatus(eval, EvalStatus::Canceled, String::new()),
            Command::Collect(Box::new(Collect { jobs: vec![key], ..Collect::default() })),
        ]);
    }
}

fn node(at: usize, pool: &str) -> Node {
    let (cpu_mhz, memory_mb) = [(16_000, 65_536), (32_000, 65_536), (64_000, 262_144)][at / RACKS % 3];
    let attributes = [("driver.mock_driver", "1"), ("kernel.name", "linux"), ("cpu.arch", "amd64")];
    let owned = |(k, v): (&str, &str)| (k.to_owned(), v.to_owned());
    Node {
        pool: pool.into(),
        class: if at.is_multiple_of(2) { "even".into() } else { "odd".into() },
        attributes: attributes.map(owned).into_iter().collect(),
        meta: BTreeMap::from([("rack".into(), format!("r{}", at % RACKS))]),
        ..Node::new(
            NodeId(at as u128 + 1),
            &format!("node-{at}"),
            Resources { cpu_mhz, memory_mb, disk_mb: 1_000_000 },
        )
    }
}

/// One of [`ASKS`] asks.
pub fn ask(at: u32) -> (u32, u32) {
    (500 + at % 40 * 37, 1024 + at / 40 * 131)
}

pub fn identical(count: u32, (cpu_mhz, memory_mb): (u32, u32)) -> Job {
    let task = Task {
        resources: TaskResources { cpu_mhz, memory_mb, ..TaskResources::default() },
        ..Task::new("t", "mock_driver", JobType::Service)
    };
    let group = Group { count, tasks: vec![task], ..Group::new("g", JobType::Service) };
    Job { groups: vec![group], ..Job::new(JobKey::new("default", "job"), JobType::Service) }
}
