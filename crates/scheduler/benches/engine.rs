//! What one placement costs: the whole decision of a planner, from the evaluation to the plan with ids, names and ports,
//! on clusters of three sizes that are more than half full. What is decided is applied to the store between two
//! measurements, and the oldest job makes room for the newest, so that every round meets another cluster.
//!
//! `cargo bench -p berth-scheduler --bench engine`; times are for one placement where a round places a hundred.

use std::{
    collections::{BTreeMap, VecDeque},
    hint::black_box,
    sync::Arc,
    time::Duration,
};

use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus},
    command::{
        Collect, Command, DeregisterJob, Entry, EvalOutcome, PlanRecord, RegisterJob, SetSchedulerConfig,
    },
    constraint::{Affinity, Constraint, Operator, Spread},
    eval::{Eval, EvalStatus, Trigger},
    job::{Group, Job, JobType, Network, Port, Task, TaskResources},
    node::{Node, NodeStatus},
    resources::Resources,
    scheduling::SchedulerConfig,
    store::Store,
};
use berth_scheduler::{Claims, Plan, Planner};
use criterion::measurement::{Measurement, WallTime};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Racks of a cluster.
const RACKS: usize = 50;
/// Nodes of the pool in which allocations meet.
const FEW: usize = 60;
/// Placements of a round, but where a job of one is measured.
const COUNT: u32 = 100;
/// Asks that differ, where many do.
const ASKS: u32 = 1000;

struct Cluster {
    store: Store,
    planner: Planner,
    index: u64,
    jobs: VecDeque<(JobKey, Vec<AllocId>)>,
    made: u32,
    /// Placements for which nothing has ended yet.
    owed: usize,
}

impl Cluster {
    /// Nodes of three capacities in [`RACKS`] racks, 60 % full, and [`FEW`] idle ones in a pool of their own.
    fn new(nodes: usize) -> Self {
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
        let ready = |at| Command::SetNodeStatus(NodeId(at as u128 + 1), NodeStatus::Ready);
        cluster.apply((0..nodes).map(ready).collect());
        let rounds = (nodes - FEW) * 6 / COUNT as usize;
        for round in 0..rounds as u32 {
            let eval = cluster.register(identical(COUNT, ask(round % ASKS)));
            cluster.place(&eval);
        }
        cluster
    }

    fn apply(&mut self, commands: Vec<Command>) {
        self.index += 1;
        let entry = Entry { index: Index(self.index), at: Timestamp(self.index), commands };
        for outcome in self.store.apply(entry).outcomes {
            outcome.expect("what the benchmark asks for can be done");
        }
    }

    fn register(&mut self, mut job: Job) -> Eval {
        self.made += 1;
        job.key = JobKey::new("default", &format!("job-{}", self.made));
        let (key, id) = (job.key.clone(), EvalId(u128::from(self.made)));
        self.apply(vec![Command::RegisterJob(Box::new(RegisterJob {
            job: Arc::new(job),
            eval: id,
            only_if: None,
        }))]);
        Eval::pending(id, key, JobType::Service, 50, Trigger::JobRegister)
    }

    /// Plans, and tells how long that took.
    fn plan(&mut self, eval: &Eval) -> (Plan, Duration) {
        let claims = Claims::default();
        let start = WallTime.start();
        self.planner.follow(&self.store, &claims);
        let plan = black_box(self.planner.plan(&self.store, eval, Timestamp(self.index), self.index));
        (plan, WallTime.end(start))
    }

    fn place(&mut self, eval: &Eval) -> Duration {
        let (plan, took) = self.plan(eval);
        assert!(plan.failures.is_empty(), "the cluster has room: {:?}", plan.failures);
        self.commit(plan);
        took
    }

    fn commit(&mut self, plan: Plan) {
        let ids = plan.placements.iter().map(|placement| placement.id).collect();
        self.jobs.push_back((plan.job.clone(), ids));
        self.apply(vec![Command::CommitPlan(Box::new(PlanRecord {
            eval: plan.eval,
            job: plan.job,
            job_version: plan.job_version,
            snapshot_index: plan.snapshot_index,
            placements: plan.placements,
            stops: plan.stops,
            outcome: Some(EvalOutcome {
                status: EvalStatus::Complete,
                description: String::new(),
                failures: vec![],
                next: vec![],
            }),
        }))]);
    }

    /// Ends and forgets the oldest jobs, as soon as what was placed since is worth one.
    fn make_room(&mut self, placed: usize) {
        self.owed += placed;
        while self.jobs.front().is_some_and(|(_, allocs)| allocs.len() <= self.owed) {
            let (key, allocs) = self.jobs.pop_front().expect("it was just looked at");
            self.owed -= allocs.len();
            self.end(key, allocs);
        }
    }

    fn end(&mut self, key: JobKey, allocs: Vec<AllocId>) {
        let end = |alloc| AllocEnd { alloc, status: ClientStatus::Complete, tasks: vec![] };
        self.made += 1;
        let eval = EvalId(u128::from(self.made));
        self.apply(vec![
            Command::DeregisterJob(DeregisterJob { job: key.clone(), purge: true, eval }),
            Command::EndAllocs(allocs.into_iter().map(end).collect()),
            Command::SetEvalStatus(eval, EvalStatus::Canceled, String::new()),
            Command::Collect(Box::new(Collect { jobs: vec![key], ..Collect::default() })),
        ]);
    }

    /// Places jobs and tells how long it took in all.
    fn rounds(&mut self, rounds: u64, job: impl Fn(u32) -> Job) -> Duration {
        (0..rounds)
            .map(|round| {
                let job = job(round as u32);
                let is_few = job.node_pool == "few";
                let eval = self.register(job);
                let took = self.place(&eval);
                let (key, allocs) = self.jobs.pop_back().expect("it was just placed");
                if is_few {
                    // The oldest job is elsewhere.
                    self.end(key, allocs);
                } else {
                    let placed = allocs.len();
                    self.jobs.push_back((key, allocs));
                    self.make_room(placed);
                }
                took
            })
            .sum()
    }
}

fn node(at: usize, pool: &str) -> Node {
    let (cpu_mhz, memory_mb) = [(16_000, 65_536), (32_000, 65_536), (64_000, 262_144)][at / RACKS % 3];
    let attributes = [("driver.mock_driver", "1"), ("kernel.name", "linux"), ("cpu.arch", "amd64")];
    let owned = |(k, v): (&str, &str)| (k.to_owned(), v.to_owned());
    Node {
        id: NodeId(at as u128 + 1),
        name: format!("node-{at}"),
        datacenter: "dc1".into(),
        pool: pool.into(),
        class: if at.is_multiple_of(2) { "even".into() } else { "odd".into() },
        attributes: attributes.map(owned).into_iter().collect(),
        meta: BTreeMap::from([("rack".into(), format!("r{}", at % RACKS))]),
        total: Resources { cpu_mhz, memory_mb, disk_mb: 1_000_000 },
        reserved: Resources::ZERO,
        reserved_ports: vec![],
        host_ip: String::new(),
        dynamic_ports: (20_000, 32_000),
        secret_hash: vec![],
        devices: vec![],
        cores: vec![],
    }
}

/// One of [`ASKS`] asks.
fn ask(at: u32) -> (u32, u32) {
    (500 + at % 40 * 37, 1024 + at / 40 * 131)
}

fn identical(count: u32, (cpu_mhz, memory_mb): (u32, u32)) -> Job {
    let task = Task {
        resources: TaskResources { cpu_mhz, memory_mb, ..TaskResources::default() },
        ..Task::new("t", "mock_driver", JobType::Service)
    };
    let group = Group { count, tasks: vec![task], ..Group::new("g", JobType::Service) };
    Job { groups: vec![group], ..Job::new(JobKey::new("default", "job"), JobType::Service) }
}

fn changed(change: impl Fn(&mut Group)) -> Job {
    let mut job = identical(COUNT, ask(0));
    change(&mut job.groups[0]);
    job
}

fn with_ports() -> Job {
    let port = |label: &str| Port { label: label.into(), ..Port::default() };
    let network = Network { ports: vec![port("http"), port("admin")], ..Network::default() };
    changed(|group| group.networks = vec![network.clone()])
}

fn with_constraint() -> Job {
    changed(|group| group.constraints.push(constraint("${node.class}", Operator::Equal, "odd")))
}

fn with_distinct_hosts() -> Job {
    changed(|group| group.constraints.push(constraint("", Operator::DistinctHosts, "true")))
}

/// In the pool that has fewer nodes than the job has allocations, so that they meet.
fn with_collisions() -> Job {
    Job { node_pool: "few".into(), ..changed(|_| ()) }
}

fn with_affinity() -> Job {
    let affinity =
        Affinity { left: "${node.class}".into(), operator: Operator::Equal, right: "odd".into(), weight: 50 };
    changed(|group| group.affinities.push(affinity.clone()))
}

fn with_spread() -> Job {
    let spread = Spread { attribute: "${meta.rack}".into(), weight: 100, targets: vec![] };
    changed(|group| group.spreads.push(spread.clone()))
}

fn with_all() -> Job {
    let mut job = with_spread();
    let group = &mut job.groups[0];
    group.affinities = with_affinity().groups[0].affinities.clone();
    group.constraints = with_distinct_hosts().groups[0].constraints.clone();
    job
}

fn constraint(left: &str, operator: Operator, right: &str) -> Constraint {
    Constraint { left: left.into(), operator, right: right.into() }
}

/// A name, what a round places, and the job of a round.
type Case = (&'static str, u32, fn(u32) -> Job);

const CASES: &[Case] = &[
    ("identical", COUNT, |_| identical(COUNT, ask(0))),
    ("classes", COUNT, |round| identical(COUNT, ask(round * 7 % ASKS))),
    ("ports", COUNT, |_| with_ports()),
    ("constraint", COUNT, |_| with_constraint()),
    ("spread", COUNT, |_| with_spread()),
    ("distinct_hosts", COUNT, |_| with_distinct_hosts()),
    ("anti_affinity", COUNT, |_| with_collisions()),
    ("affinity", COUNT, |_| with_affinity()),
    ("spread_distinct_affinity", COUNT, |_| with_all()),
    ("one", 1, |_| identical(1, ask(0))),
    ("different", 1, |round| identical(1, ask(round * 7 % ASKS))),
];

/// A cluster without room, in which services may push out batch work of lower priority.
fn full(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new(nodes);
    let mut config = SchedulerConfig::default();
    config.preemption.service = true;
    let set = SetSchedulerConfig { config, only_if: None };
    cluster.apply(vec![Command::SetSchedulerConfig(Box::new(set))]);
    for round in 0.. {
        let mut filler = identical(COUNT, ask(round % ASKS));
        (filler.job_type, filler.priority) = (JobType::Batch, 20 + u8::try_from(round % 3).unwrap_or(0) * 10);
        let eval = cluster.register(filler);
        let (plan, _) = cluster.plan(&eval);
        let is_full = !plan.failures.is_empty();
        cluster.commit(plan);
        if is_full {
            return cluster;
        }
    }
    cluster
}

fn preemption(criterion: &mut Criterion) {
    for nodes in [1_000, 10_000, 40_000] {
        let mut cluster = full(nodes);
        let eval = cluster.register(Job { priority: 90, ..identical(1, (3_000, 9_000)) });
        let (plan, _) = cluster.plan(&eval);
        assert!(!plan.stops.is_empty(), "something is pushed out");
        let mut group = criterion.benchmark_group("preemption");
        group.bench_function(BenchmarkId::from_parameter(nodes), |bencher| {
            // Nothing is committed: the cluster stays as full as it is.
            bencher.iter_custom(|rounds| (0..rounds).map(|_| cluster.plan(&eval).1).sum());
        });
    }
}

fn engine(criterion: &mut Criterion) {
    for nodes in [1_000, 10_000, 40_000] {
        let mut cluster = Cluster::new(nodes);
        for (name, count, job) in CASES {
            let mut group = criterion.benchmark_group(*name);
            group.throughput(Throughput::Elements(u64::from(*count)));
            group.bench_function(BenchmarkId::from_parameter(nodes), |bencher| {
                bencher.iter_custom(|rounds| cluster.rounds(rounds, job));
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    targets = engine, preemption
}
criterion_main!(benches);
