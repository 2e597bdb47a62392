//! What it costs to place one allocation where others must go for it: the whole decision, on clusters of three sizes that
//! are full of batch work. Between two measurements the plan comes true, its allocation ends, and batch work fills the
//! room again.
//!
//! `cargo bench -p berth-scheduler --bench engine preemption`

use std::time::Duration;

use berth_model::{
    alloc::{AllocEnd, ClientStatus},
    command::{Command, SetSchedulerConfig},
    job::{Job, JobType},
    scheduling::SchedulerConfig,
};
use criterion::{BenchmarkId, Criterion};

use crate::cluster::{ASKS, COUNT, Cluster, ask, identical};

/// What batch work asks for: MHz and MiB.
type Filler = fn(u32) -> (u32, u32);

/// A name, and what fills the cluster: jobs of all sizes; or jobs that ask for much of one thing and little of the other,
/// so that what is large of each is never one allocation.
const CASES: &[(&str, Filler)] = &[
    ("preemption", |round| ask(round % ASKS)),
    ("preemption_lopsided", |round| if round % 2 == 0 { (1_800, 1_000) } else { (200, 5_000 + round % 100) }),
];

/// A cluster without room, in which services may preempt batch work of lower priority.
fn full(nodes: usize, filler: Filler) -> Cluster {
    let mut cluster = Cluster::new(nodes);
    let mut config = SchedulerConfig::default();
    config.preemption.service = true;
    let set = SetSchedulerConfig { config, only_if: None };
    cluster.apply(vec![Command::SetSchedulerConfig(Box::new(set))]);
    let mut refused = 0;
    for round in 0.. {
        refused = if fill(&mut cluster, round, filler) { 0 } else { refused + 1 };
        if refused == 20 {
            break;
        }
    }
    cluster
}

/// One more job of batch work: whether all of it found room.
fn fill(cluster: &mut Cluster, round: u32, filler: Filler) -> bool {
    let mut job = identical(COUNT, filler(round));
    (job.job_type, job.priority) = (JobType::Batch, [20, 30, 40][round as usize % 3]);
    let eval = cluster.register(job);
    let (plan, _) = cluster.plan(&eval);
    let is_whole = plan.failures.is_empty();
    cluster.commit(plan);
    is_whole
}

/// Places jobs that preempt others, and reports how long it took in all.
fn rounds(cluster: &mut Cluster, rounds: u64, filler: Filler) -> Duration {
    (0..rounds)
        .map(|round| {
            let eval = cluster.register(Job { priority: 90, ..identical(1, (3_000, 9_000)) });
            let (plan, took) = cluster.plan(&eval);
            assert!(!plan.stops.is_empty(), "something is preempted");
            let end =
                |alloc| AllocEnd { alloc, status: ClientStatus::Complete, tasks: vec![], observed_at: None };
            let ends = plan.stops.iter().map(|stop| end(stop.alloc)).collect();
            cluster.commit(plan);
            cluster.apply(vec![Command::EndAllocs(ends)]);
            let (key, allocs) = cluster.jobs.pop_back().expect("it was just placed");
            cluster.end(key, allocs);
            fill(cluster, round as u32, filler);
            took
        })
        .sum()
}

/// Measures each case.
pub fn preemption(criterion: &mut Criterion) {
    for (name, filler) in CASES {
        for nodes in [1_000, 10_000, 40_000] {
            let mut cluster = full(nodes, *filler);
            let mut group = criterion.benchmark_group(*name);
            group.bench_function(BenchmarkId::from_parameter(nodes), |bencher| {
                bencher.iter_custom(|n| rounds(&mut cluster, n, *filler));
            });
        }
    }
}
