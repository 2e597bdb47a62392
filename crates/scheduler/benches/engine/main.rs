//! What one placement costs: the whole decision of a planner, from the evaluation to the plan with ids, names and ports,
//! on clusters of three sizes that are more than half full. What is decided is applied to the store between two
//! measurements, and the oldest job makes room for the newest, so that every round meets another cluster.
//!
//! `cargo bench -p berth-scheduler --bench engine`; times are for one placement where a round places a hundred.

mod cluster;
mod preemption;

use std::time::Duration;

use berth_model::{
    constraint::{Affinity, Constraint, Operator, Spread},
    job::{Group, Job, Network, Port},
};
use cluster::{ASKS, COUNT, Cluster, ask, identical};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Places jobs and reports how long it took in all.
fn rounds(cluster: &mut Cluster, rounds: u64, job: impl Fn(u32) -> Job) -> Duration {
    (0..rounds)
        .map(|round| {
            let job = job(round as u32);
            let is_few = job.node_pool == "few";
            let eval = cluster.register(job);
            let took = cluster.place(&eval);
            let (key, allocs) = cluster.jobs.pop_back().expect("it was just placed");
            if is_few {
                // The oldest job is elsewhere.
                cluster.end(key, allocs);
            } else {
                let placed = allocs.len();
                cluster.jobs.push_back((key, allocs));
                cluster.make_room(placed);
            }
            took
        })
        .sum()
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

fn engine(criterion: &mut Criterion) {
    for nodes in [1_000, 10_000, 40_000] {
        let mut cluster = Cluster::new(nodes);
        for (name, count, job) in CASES {
            let mut group = criterion.benchmark_group(*name);
            group.throughput(Throughput::Elements(u64::from(*count)));
            group.bench_function(BenchmarkId::from_parameter(nodes), |bencher| {
                bencher.iter_custom(|n| rounds(&mut cluster, n, job));
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    targets = engine, preemption::preemption
}
criterion_main!(benches);
