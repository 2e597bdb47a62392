//! How long a claim counts, and for whom.

use berth_model::{
    Timestamp,
    command::{Command, Entry},
    node::Node,
};

use super::*;

fn node(id: NodeId) -> Node {
    Node::new(id, "", Resources::ZERO)
}

fn claim(node: u128, cpu_mhz: u32) -> Claim {
    Claim {
        node: NodeId(node),
        holds: Usage { cpu_mhz: cpu_mhz.into(), ..Usage::default() },
        ports: vec![80],
        devices: DevicesHeld::default(),
        after: Vec::new(),
    }
}

fn add(claims: &mut Claims, of: impl IntoIterator<Item = Claim>) -> Ticket {
    claims.add(&"default".into(), of)
}

/// A state at an index.
fn at(index: u64) -> Store {
    let mut store = Store::default();
    if index > 0 {
        store.apply(Entry::new(Index(index), Timestamp(1), Vec::new()));
    }
    store
}

#[test]
fn a_claim_counts_until_the_state_shows_it() {
    let mut claims = Claims::default();
    let ticket = add(&mut claims, [claim(1, 100), claim(2, 50)]);
    let cpu =
        |claims: &Claims, index| claims.of_node(NodeId(1), &at(index), ClaimScope::All).resources.cpu_mhz;
    assert_eq!(cpu(&claims, 99), 100);
    claims.proposed(ticket, Index(10));
    assert_eq!((cpu(&claims, 9), cpu(&claims, 10)), (100, 0));
    claims.settle(Index(9));
    assert_eq!(cpu(&claims, 9), 100);
    claims.settle(Index(10));
    assert!(claims.is_empty());
}

#[test]
fn what_a_plan_claims_of_a_node_is_summed_up() {
    let mut claims = Claims::default();
    let ticket = add(&mut claims, [claim(1, 100), claim(2, 50), claim(1, 30)]);
    assert_eq!(claims.changes_end(), 2);
    let claimed = claims.of_node(NodeId(1), &at(0), ClaimScope::All);
    assert_eq!((claimed.resources.cpu_mhz, claimed.ports), (130, vec![80, 80]));
    assert_eq!(claims.release(ticket), [NodeId(1), NodeId(2)]);
}

#[test]
fn a_plan_that_others_were_quicker_than_overdraws_its_node() {
    let node = Node { total: Resources { cpu_mhz: 150, ..Resources::ZERO }, ..node(NodeId(1)) };
    let mut store = Store::default();
    let commands = vec![Command::RegisterNode(Box::new(node))];
    store.apply(Entry::new(Index(1), Timestamp(1), commands));
    let mut claims = Claims::default();
    let first = add(&mut claims, [claim(1, 100)]);
    assert!(!claims.overdraw(first, &store));
    let too_much = add(&mut claims, [Claim { ports: vec![], ..claim(1, 51) }]);
    assert!(claims.overdraw(too_much, &store));
    claims.release(too_much);
    let same_port = add(&mut claims, [claim(1, 10)]);
    assert!(claims.overdraw(same_port, &store));
    claims.release(same_port);
    let beside = add(&mut claims, [Claim { ports: vec![81], ..claim(1, 50) }]);
    assert!(!claims.overdraw(beside, &store));
}

#[test]
fn what_the_state_refused_is_free_once_its_entry_shows() {
    let mut claims = Claims::default();
    let ticket = add(&mut claims, [claim(1, 100), claim(2, 50)]);
    let position = claims.changes_end();
    let changed = |claims: &Claims| claims.changes_since(position).unwrap().collect::<Vec<_>>();
    claims.proposed(ticket, Index(10));
    claims.refused(Index(10));
    assert_eq!(changed(&claims), []);
    claims.settle(Index(10));
    assert_eq!(changed(&claims), [NodeId(1), NodeId(2)]);
}

#[test]
fn what_a_namespace_is_to_hold_counts_until_the_state_shows_it() {
    let mut claims = Claims::default();
    let [first, second] = [100, 20].map(|cpu| claims.add(&"a".into(), [claim(1, cpu)]));
    claims.proposed(first, Index(10));
    let pledged = |cpu_mhz| {
        let mut pledges = Pledges::default();
        pledges.add(&"a".into(), &Usage { cpu_mhz, ..Usage::default() });
        pledges
    };
    assert_eq!(claims.pledges(&at(9), ClaimScope::All), pledged(120));
    assert_eq!(claims.pledges(&at(10), ClaimScope::All), pledged(20));
    claims.release(second);
    claims.settle(Index(10));
    assert_eq!(claims.pledges(&at(0), ClaimScope::All), Pledges::default());
}

#[test]
fn a_plan_that_was_discarded_frees_its_nodes() {
    let mut claims = Claims::default();
    let ticket = add(&mut claims, [claim(1, 100)]);
    let other = add(&mut claims, [claim(1, 7)]);
    assert_eq!(claims.release(ticket), [NodeId(1)]);
    let claimed = claims.of_node(NodeId(1), &at(0), ClaimScope::All);
    assert_eq!((claimed.resources.cpu_mhz, claimed.ports), (7, vec![80]));
    claims.release(other);
    assert!(claims.is_empty());
}

#[test]
fn a_claim_changes_hands_and_is_never_with_nobody_or_with_two() {
    let mut claims = Claims::default();
    let ticket = add(&mut claims, [claim(1, 100), claim(2, 50)]);
    let cpu = |claims: &Claims, counted| {
        [1, 2].map(|node| claims.of_node(NodeId(node), &at(9), counted).resources.cpu_mhz)
    };
    assert_eq!(claims.holder(ticket), Some(ClaimHolder::Planner));
    assert_eq!((cpu(&claims, ClaimScope::All), cpu(&claims, ClaimScope::Passed)), ([100, 50], [0, 0]));
    assert!(claims.pass(ticket) && !claims.pass(ticket));
    assert_eq!(claims.holder(ticket), Some(ClaimHolder::Applier));
    assert_eq!((cpu(&claims, ClaimScope::All), cpu(&claims, ClaimScope::Passed)), ([100, 50], [100, 50]));
    claims.proposed(ticket, Index(10));
    assert_eq!(claims.holder(ticket), Some(ClaimHolder::Entry(Index(10))));
    assert_eq!(cpu(&claims, ClaimScope::Passed), [100, 50]);
    claims.not_written(Index(10));
    assert_eq!(claims.holder(ticket), None);
    assert!(claims.is_empty());
}

#[test]
fn parts_of_a_plan_settle_one_by_one_and_what_is_refused_is_free_at_once() {
    let mut claims = Claims::default();
    let planned = add(&mut claims, [claim(1, 100), claim(2, 50), claim(3, 7)]);
    let position = claims.changes_end();
    let parts = claims.pass_parts(planned, &"default".into(), [[claim(1, 100)], [claim(2, 50)]]);
    assert_eq!(claims.holder(planned), None);
    assert!(claims.changes_since(position).unwrap().any(|node| node == NodeId(3)));
    (10..).zip(&parts).for_each(|(index, part)| claims.proposed(*part, Index(index)));
    claims.not_written(Index(11));
    let cpu =
        |claims: &Claims, node| claims.of_node(NodeId(node), &at(9), ClaimScope::Passed).resources.cpu_mhz;
    assert_eq!([1, 2, 3].map(|node| cpu(&claims, node)), [100, 0, 0]);
    claims.end_term();
    assert!(claims.is_empty());
}
