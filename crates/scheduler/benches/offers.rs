//! Offer cycles of the published size: `cargo bench -p berth-scheduler --bench offers`.
//!
//! Nodes of 24 cpus, 4 GiB, 4 GiB of disk and 1,000 ports, of which 16 cpus, 2 GiB, 1 GiB and 16 ranges of ports are in use,
//! round robin by all frameworks.

use std::time::Duration;

use berth_model::{NodeId, Timestamp};
use berth_scheduler::{
    fairness::Amounts,
    offers::{Allocator, AllocatorConfig, Bundle, FrameworkId, Offer, OfferEvent, Ports, RoleQuota},
};
use criterion::{
    BenchmarkId, Criterion, criterion_group, criterion_main,
    measurement::{Measurement, WallTime},
};

const ROLE: &str = "analytics";
const SIZES: [(u64, u64); 3] = [(1_000, 100), (5_000, 500), (20_000, 2_000)];

fn bundle(cpus: u64, memory_mb: u64, disk_mb: u64, ports: Ports) -> Bundle {
    let mut amounts = Amounts::ZERO;
    amounts.0[Amounts::CPU] = cpus * 1000;
    (amounts.0[Amounts::MEMORY], amounts.0[Amounts::DISK]) = (memory_mb, disk_mb);
    Bundle { amounts, ports }
}

fn tell(allocator: &mut Allocator, event: OfferEvent) {
    allocator.handle(event).expect("the cluster is made without mistakes");
}

/// A cluster of which the part in use is charged, with everything else free.
fn cluster(nodes: u64, frameworks: u64) -> Allocator {
    let mut allocator = Allocator::new(AllocatorConfig::default());
    for n in 0..frameworks {
        tell(&mut allocator, OfferEvent::FrameworkAdded(FrameworkId(n), vec![ROLE.to_owned()]));
    }
    let used_ports = Ports::new((0..16).map(|n| (31_000 + 20 * n, 31_000 + 20 * n + 9)));
    for n in 0..nodes {
        let (node, holder) = (NodeId(n.into()), FrameworkId(n % frameworks));
        let total = bundle(24, 4096, 4096, Ports::new([(31_000, 31_999)]));
        tell(&mut allocator, OfferEvent::NodeAdded(node, total));
        let used = bundle(16, 2048, 1024, used_ports.clone());
        tell(&mut allocator, OfferEvent::Charged(holder, ROLE.to_owned(), node, used));
    }
    allocator
}

/// All but the last ten frameworks refuse every node for a day; these ten hold more than anybody else.
fn refuse(allocator: &mut Allocator, nodes: u64, frameworks: u64) {
    let day = Timestamp(86_400_000_000_000);
    let all = bundle(24, 4096, 4096, Ports::new([(31_000, 31_999)]));
    for framework in (0..frameworks - 10).map(FrameworkId) {
        for node in (0..nodes).map(|n| NodeId(n.into())) {
            tell(allocator, OfferEvent::Refused(framework, ROLE.to_owned(), node, all.clone(), day));
        }
    }
}

/// Roles of their own for all frameworks, each with a guarantee: of nine small ones half a node, of every tenth four nodes.
fn with_quotas(nodes: u64, roles: u64) -> Allocator {
    let mut allocator = Allocator::new(AllocatorConfig::default());
    for n in 0..roles {
        let (role, nodes) = (format!("role-{n}"), if n.is_multiple_of(10) { 40 } else { 5 });
        let guarantee = bundle(24 * nodes / 10, 4096 * nodes / 10, 0, Ports::default()).amounts;
        let quota = RoleQuota { guarantee, ..RoleQuota::default() };
        tell(&mut allocator, OfferEvent::QuotaSet(role.clone(), quota));
        tell(&mut allocator, OfferEvent::FrameworkAdded(FrameworkId(n), vec![role]));
    }
    for n in 0..nodes {
        let total = bundle(24, 4096, 4096, Ports::new([(31_000, 31_999)]));
        tell(&mut allocator, OfferEvent::NodeAdded(NodeId(n.into()), total));
    }
    allocator
}

fn give_back(allocator: &mut Allocator, offers: Vec<Offer>) {
    for Offer { framework, role, node, bundle } in offers {
        tell(allocator, OfferEvent::Recovered(framework, role.to_string(), node, bundle));
    }
}

/// Times cycles alone; what they offer is taken back between them.
fn time_cycles(allocator: &mut Allocator, rounds: u64) -> Duration {
    let mut spent = Duration::ZERO;
    for _ in 0..rounds {
        let started_at = WallTime.start();
        let offers = allocator.cycle(Timestamp(1));
        spent += WallTime.end(started_at);
        give_back(allocator, offers);
    }
    spent
}

fn cycles(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("offer cycle");
    group.sample_size(10);
    for (nodes, frameworks) in SIZES {
        let name = format!("{nodes} nodes, {frameworks} frameworks");
        let mut allocator = cluster(nodes, frameworks);
        group.bench_function(BenchmarkId::new("everything offered", &name), |bencher| {
            bencher.iter_custom(|rounds| time_cycles(&mut allocator, rounds));
        });
        allocator.cycle(Timestamp(1));
        group.bench_function(BenchmarkId::new("nothing to offer", &name), |bencher| {
            bencher.iter(|| allocator.cycle(Timestamp(1)));
        });
        let mut allocator = cluster(nodes, frameworks);
        refuse(&mut allocator, nodes, frameworks);
        group.bench_function(BenchmarkId::new("all but ten refuse", &name), |bencher| {
            bencher.iter_custom(|rounds| time_cycles(&mut allocator, rounds));
        });
    }
    let mut allocator = with_quotas(3_000, 3_000);
    group.bench_function("everything offered/3000 nodes, roles with quotas, frameworks", |bencher| {
        bencher.iter_custom(|rounds| time_cycles(&mut allocator, rounds));
    });
    group.finish();
}

criterion_group!(offers, cycles);
criterion_main!(offers);
