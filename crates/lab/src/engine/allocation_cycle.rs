//! Offer cycles: the allocator of offers on a cluster of the published shape, without a server around it.

use std::time::{Duration, Instant};

use berth_model::{NodeId, Timestamp};
use berth_scheduler::{
    fairness::Amounts,
    offers::{Allocator, AllocatorConfig, Bundle, FrameworkId, OfferEvent, Ports, RoleQuota},
};

/// Size of the cluster, and what frameworks want.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CycleShape {
    /// Nodes of 24 cpus, 4 GiB, 4 GiB of disk and 1,000 ports.
    pub nodes: u64,
    /// All in one role; with quotas each in a role of its own.
    pub frameworks: u64,
    /// The poorest of them that refuse every node.
    pub refusing: u64,
    /// Whether roles have guarantees, large and small, and nothing is in use yet. Otherwise 16 cpus, 2 GiB, 1 GiB of disk and
    /// 16 ranges of ports of each node are in use, round robin.
    pub quota: bool,
}

/// Duration of the cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CycleTimes {
    /// One cycle that offers everything.
    pub full: Duration,
    /// The offers that it made.
    pub offers: usize,
    /// One that visits every node and finds nothing to offer.
    pub empty: Duration,
}

/// Runs one full and one empty cycle.
pub(crate) fn allocation_cycle(shape: CycleShape) -> CycleTimes {
    let mut allocator = if shape.quota { with_quotas(shape) } else { in_use(shape) };
    let now = Timestamp(1);
    let started_at = Instant::now();
    let offers = allocator.cycle(now);
    let full = started_at.elapsed();
    // A framework that wants offers again is a reason to visit every node.
    apply_event(&mut allocator, OfferEvent::Revived(FrameworkId(0), role(shape, 0)));
    let started_at = Instant::now();
    let more = allocator.cycle(now);
    let empty = started_at.elapsed();
    assert!(more.is_empty(), "{} offers were left", more.len());
    CycleTimes { full, offers: offers.len(), empty }
}

fn in_use(shape: CycleShape) -> Allocator {
    let mut allocator = Allocator::new(AllocatorConfig::default());
    add_frameworks(&mut allocator, shape);
    let ports = Ports::new((0..16).map(|n| (31_000 + 20 * n, 31_000 + 20 * n + 9)));
    let used = bundle(16, 2048, 1024, ports);
    for n in 0..shape.nodes {
        let holder = n % shape.frameworks;
        let node = add_node(&mut allocator, n);
        apply_event(
            &mut allocator,
            OfferEvent::Charged(FrameworkId(holder), role(shape, holder), node, used.clone()),
        );
    }
    let never = Timestamp::NEVER;
    for framework in 0..shape.refusing {
        for node in (0..shape.nodes).map(|n| NodeId(n.into())) {
            let refused = OfferEvent::Refused(
                FrameworkId(framework),
                role(shape, framework),
                node,
                whole_node(),
                never,
            );
            apply_event(&mut allocator, refused);
        }
    }
    allocator
}

/// Nine small roles are guaranteed half a node each, every tenth role four nodes.
fn with_quotas(shape: CycleShape) -> Allocator {
    let mut allocator = Allocator::new(AllocatorConfig::default());
    for n in 0..shape.frameworks {
        let tenths = if n.is_multiple_of(10) { 40 } else { 5 };
        let guarantee = bundle(24 * tenths / 10, 4096 * tenths / 10, 0, Ports::default()).amounts;
        let quota = RoleQuota { guarantee, ..RoleQuota::default() };
        apply_event(&mut allocator, OfferEvent::QuotaSet(role(shape, n), quota));
    }
    add_frameworks(&mut allocator, shape);
    for n in 0..shape.nodes {
        add_node(&mut allocator, n);
    }
    allocator
}

fn add_frameworks(allocator: &mut Allocator, shape: CycleShape) {
    for n in 0..shape.frameworks {
        apply_event(allocator, OfferEvent::FrameworkAdded(FrameworkId(n), vec![role(shape, n)]));
    }
}

fn add_node(allocator: &mut Allocator, n: u64) -> NodeId {
    let node = NodeId(n.into());
    apply_event(allocator, OfferEvent::NodeAdded(node, whole_node()));
    node
}

fn role(shape: CycleShape, framework: u64) -> String {
    if shape.quota { format!("role-{framework}") } else { "role".to_owned() }
}

fn whole_node() -> Bundle {
    bundle(24, 4096, 4096, Ports::new([(31_000, 31_999)]))
}

fn bundle(cpus: u64, memory_mb: u64, disk_mb: u64, ports: Ports) -> Bundle {
    let mut amounts = Amounts::ZERO;
    amounts.0[Amounts::CPU] = cpus * 1000;
    (amounts.0[Amounts::MEMORY], amounts.0[Amounts::DISK]) = (memory_mb, disk_mb);
    Bundle { amounts, ports }
}

fn apply_event(allocator: &mut Allocator, event: OfferEvent) {
    allocator.handle(event).expect("the cluster is made without mistakes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_offered_once_whoever_refuses() {
        for refusing in [0, 15] {
            let shape = CycleShape { nodes: 100, frameworks: 20, refusing, quota: false };
            assert_eq!(allocation_cycle(shape).offers, 100);
        }
    }

    #[test]
    fn guarantees_cut_nodes_into_more_offers() {
        let shape = CycleShape { nodes: 100, frameworks: 100, refusing: 0, quota: true };
        assert!(allocation_cycle(shape).offers > 100);
    }
}
