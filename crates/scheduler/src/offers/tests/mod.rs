//! Stories and properties of the allocator, and the cluster in which they play.

mod properties;
mod stories;

use berth_model::{NodeId, Timestamp};

use super::{Allocator, AllocatorConfig, Bundle, FrameworkId, Offer, OfferEvent, Ports, RoleQuota};
use crate::fairness::Amounts;

/// Cpu in thousandths, memory in MiB.
fn amounts(cpu: u64, memory: u64) -> Amounts {
    let mut amounts = Amounts::ZERO;
    (amounts.0[Amounts::CPU], amounts.0[Amounts::MEMORY]) = (cpu, memory);
    amounts
}

fn bundle(cpu: u64, memory: u64) -> Bundle {
    Bundle { amounts: amounts(cpu, memory), ports: Ports::default() }
}

/// A limit on cpu alone.
fn cpu_limit(cpu: u64) -> Amounts {
    let mut limit = Amounts::UNLIMITED;
    limit.0[Amounts::CPU] = cpu;
    limit
}

fn framework(n: u64) -> FrameworkId {
    FrameworkId(n)
}

fn node(n: u128) -> NodeId {
    NodeId(n)
}

/// An allocator of `nodes` nodes of 1 cpu and 1000 MiB, and frameworks with their roles.
fn cluster(nodes: u128, frameworks: &[(u64, &str)]) -> Allocator {
    let mut allocator = Allocator::new(AllocatorConfig::default());
    for n in 1..=nodes {
        tell(&mut allocator, OfferEvent::NodeAdded(node(n), bundle(1000, 1000)));
    }
    for (n, role) in frameworks {
        tell(&mut allocator, OfferEvent::FrameworkAdded(framework(*n), vec![(*role).to_owned()]));
    }
    allocator
}

fn tell(allocator: &mut Allocator, event: OfferEvent) {
    allocator.handle(event).unwrap();
}

fn quota(allocator: &mut Allocator, role: &str, guarantee: Amounts, limit: Amounts) {
    tell(allocator, OfferEvent::QuotaSet(role.to_owned(), RoleQuota { guarantee, limit }));
}

fn cycle(allocator: &mut Allocator, now: u64) -> Vec<Offer> {
    let offers = allocator.cycle(Timestamp(now));
    check_books(allocator);
    offers
}

/// Offers as `framework@node cpu/memory`.
fn describe(offers: &[Offer]) -> Vec<String> {
    let tell = |offer: &Offer| {
        let Amounts(amounts) = offer.bundle.amounts;
        let (cpu, memory) = (amounts[Amounts::CPU], amounts[Amounts::MEMORY]);
        format!("{}@{} {cpu}/{memory}", offer.framework.0, offer.node.0)
    };
    offers.iter().map(tell).collect()
}

/// Takes an offer back, with a refusal until then when there is one.
fn decline(allocator: &mut Allocator, offer: &Offer, until: Option<u64>) {
    let (framework, role, bundle) = (offer.framework, offer.role.to_string(), offer.bundle.clone());
    tell(allocator, OfferEvent::Recovered(framework, role.clone(), offer.node, bundle.clone()));
    if let Some(until) = until {
        tell(allocator, OfferEvent::Refused(framework, role, offer.node, bundle, Timestamp(until)));
    }
}

/// Of each node, what is free and what is held is what it has: nothing is offered twice, nothing is lost.
fn check_books(allocator: &Allocator) {
    let mut held_anywhere = Amounts::ZERO;
    for (total, free, held) in allocator.nodes.books() {
        let mut sum = free.clone();
        let mut ports = free.ports.count();
        for (_, bundle) in held {
            sum.add(bundle);
            ports += bundle.ports.count();
            held_anywhere = held_anywhere.plus(bundle.amounts);
        }
        assert_eq!((&sum, ports), (total, total.ports.count()));
    }
    let tree = &allocator.roles.tree;
    assert_eq!(tree.used(tree.root()), held_anywhere, "shares are of what is held");
}
