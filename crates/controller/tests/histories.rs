//! Random histories: entries refused, delayed, in doubt; servers killed, leaderships changed; links that swallow
//! messages; and then everything heals. Nothing may be lost, stuck, or held twice.
//!
//! `HISTORIES=100000 cargo test --release -p berth-controller --test histories` is the long form. A history that fails
//! names its seed: `SEED=7 cargo test -p berth-controller --test histories` runs that one alone, and with `TELL=1` it prints each
//! entry.

#[path = "histories/agents.rs"]
mod agents;
#[path = "histories/cluster.rs"]
mod cluster;
#[path = "histories/missing.rs"]
mod missing;
#[path = "histories/people.rs"]
mod people;
#[path = "histories/rules.rs"]
mod rules;

use std::collections::BTreeMap;

use berth_model::{
    eval::EvalStatus,
    node::{DrainStatus, NodeStatus},
    store::Store,
};

use berth_scheduler::{Claims, Planner, reconcile::failed_for_good};
use cluster::{Cluster, node_of};

/// Histories of the short form.
const HISTORIES: u64 = 250;
/// Things that happen before faults end.
const STEPS: u64 = 250;
/// By then everything is as it should be: two nodes may have to be declared down before.
const SETTLED_S: u64 = 120;

#[expect(clippy::disallowed_methods, reason = "the length of a test is no input of what it tests")]
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// States that the histories reach: what is never reached is not tested.
const REACHED: &[&str] = &[
    "allocations collected",
    "allocations ended without a server",
    "allocations updated where they are",
    "canaries discarded",
    "deployments collected",
    "deployments failed",
    "deployments of system jobs failed",
    "deployments of system jobs paused",
    "deployments of system jobs successful",
    "deployments paused",
    "deployments resumed",
    "deployments successful",
    "deployments undone",
    "groups promoted on their own",
    "launches",
    "nodes disconnected",
    "originals kept",
    "plans refused beside a deployment",
    "replacements kept",
    "runs of sysbatch jobs ended",
    "stand-ins placed",
];

#[test]
fn nothing_is_lost_or_stuck_whatever_happens() {
    if let Some(seed) = setting("SEED") {
        return drop(history(seed, setting("TELL").is_some()));
    }
    let mut reached: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..setting("HISTORIES").unwrap_or(HISTORIES) {
        let outcome = std::panic::catch_unwind(|| history(seed, false));
        let counts = outcome.unwrap_or_else(|_| {
            panic!("seed {seed}: SEED={seed} cargo test -p berth-controller --test histories")
        });
        counts.into_iter().for_each(|(what, count)| *reached.entry(what).or_default() += count);
    }
    let missed: Vec<_> = REACHED.iter().filter(|what| !reached.contains_key(*what)).collect();
    assert!(missed.is_empty(), "never reached: {missed:?}; reached: {reached:#?}");
}

/// The states that it reached, counted.
fn history(seed: u64, tells: bool) -> BTreeMap<&'static str, u64> {
    let mut cluster = Cluster::new(seed);
    cluster.tells = tells;
    (0..STEPS).for_each(|_| cluster.step());
    cluster.settle(SETTLED_S);
    assert!(cluster.waiting.is_empty(), "requests without an answer: {:?}", cluster.waiting);
    let store = cluster.state();
    nodes_are_ready(store);
    drains_are_over(store);
    evaluations_are_done_or_blocked(store);
    deployments_are_over_or_wait_for_room(store);
    nothing_waits_for_room_that_is_there(store);
    agents_hold_what_they_should(&cluster);
    assert!(!cluster.is_claimed(), "room is claimed for ever");
    let mut reached = std::mem::take(&mut cluster.rules.reached);
    let deserted = cluster.agents.iter().map(|agent| agent.deserted).sum::<u64>();
    if deserted > 0 {
        reached.insert("allocations ended without a server", deserted);
    }
    reached
}

fn nodes_are_ready(store: &Store) {
    for (_, node) in store.nodes().iter() {
        assert_eq!(node.status, NodeStatus::Ready, "node {}", node.id);
    }
}

fn drains_are_over(store: &Store) {
    for (slot, node) in store.nodes().iter() {
        let last = store.nodes().detail(slot).and_then(|detail| detail.drain.as_deref());
        let Some(last) = last else { continue };
        let live: Vec<_> = store.nodes().live(node).filter_map(|slot| store.allocs().row(slot)).collect();
        assert_ne!(
            last.status,
            DrainStatus::Draining,
            "node {} is drained for ever: {last:?} {live:?}",
            node.id
        );
        let is_empty = store.nodes().live(node).next().is_none();
        let is_drained = last.status == DrainStatus::Complete && !node.eligible;
        assert!(!is_drained || is_empty, "node {} is not empty", node.id);
    }
    for (slot, row) in store.allocs().iter().filter(|(_, row)| row.is_desired()) {
        let migrates = store.allocs().extra(slot).is_some_and(|extra| extra.migrate.is_some());
        assert!(!migrates, "allocation {} is to leave a node that is not drained", row.id);
    }
}

fn evaluations_are_done_or_blocked(store: &Store) {
    let wedged = store.evals().iter().filter(|(_, eval)| eval.status == EvalStatus::Pending);
    let wedged: Vec<_> = wedged.filter(|(_, eval)| eval.wait_until <= store.at()).collect();
    assert!(wedged.is_empty(), "wedged: {wedged:?}");
}

/// Or for the deadline that ends them, where what has failed is not replaced.
fn deployments_are_over_or_wait_for_room(store: &Store) {
    for of in store.deployments().active() {
        let row = store.job(&of.job).expect("it has a job");
        let mut evals = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot));
        let ends = of.groups.iter().any(|group| group.require_progress_by > store.at());
        let waits = evals.any(|eval| !eval.status.is_terminal())
            || ends && !failed_for_good(store, row, store.at()).is_empty();
        assert!(waits, "{} of {} waits for nothing: {}", of.id, of.job, rules::all_of(store, row));
    }
}

fn nothing_waits_for_room_that_is_there(store: &Store) {
    for eval in store.evals().blocked() {
        let mut planner = Planner::default();
        planner.follow(store, &Claims::default());
        let plan = planner.plan(store, eval, store.at(), 1);
        assert!(plan.placements.is_empty(), "{} waits for room that is there: {plan:?}", eval.job);
    }
}

fn agents_hold_what_they_should(cluster: &Cluster) {
    let store = cluster.state();
    for agent in &cluster.agents {
        let Some((_, row)) = store.node(node_of(agent)) else { continue };
        let live = store.nodes().live(row).filter_map(|slot| store.allocs().row(slot)).map(|row| row.id);
        let mut live: Vec<_> = live.collect();
        live.sort_unstable();
        let held: Vec<_> = agent.held.keys().copied().collect();
        assert_eq!(held, live, "what node {} holds is not what it should", agent.node);
        let ended = agent.held.iter().find(|(_, held)| held.status.is_terminal());
        assert!(ended.is_none(), "an end that node {} reported is not in the log: {ended:?}", agent.node);
    }
}
