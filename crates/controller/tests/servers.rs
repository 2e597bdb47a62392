//! Several servers in random histories: one leads, all have agents; messages between them are late, lost, or come over
//! an old connection; servers are killed and lag behind, leaderships change, agents move and start again. What each
//! publishes is in order and the same everywhere, and once everything heals nothing is lost, stuck, or told differently.
//!
//! `HISTORIES=100000 cargo test --release -p berth-controller --test servers` is the long form. A history that fails
//! names its seed: `SEED=7 cargo test -p berth-controller --test servers` runs that one alone.

#[path = "histories/agents.rs"]
mod agents;
#[path = "servers/busy.rs"]
mod busy;
#[path = "servers/changed.rs"]
mod changed;
#[path = "servers/cluster.rs"]
mod cluster;
#[path = "servers/doubted.rs"]
mod doubted;
#[path = "servers/lagging.rs"]
mod lagging;
#[path = "servers/network.rs"]
mod network;
#[path = "servers/recorded.rs"]
mod recorded;
#[path = "servers/restores.rs"]
mod restores;
#[path = "servers/server.rs"]
mod server;
#[path = "servers/stories.rs"]
mod stories;
#[path = "servers/vanished.rs"]
mod vanished;

use berth_model::{alloc::ClientStatus, eval::EvalStatus, node::NodeStatus};

use cluster::Cluster;

/// Histories of the short form.
const HISTORIES: u64 = 150;
/// Things that happen before faults end.
const STEPS: u64 = 400;
/// By then everything is as it should be: two nodes may have to be declared down before.
const SETTLED_S: u64 = 120;

#[expect(clippy::disallowed_methods, reason = "the length of a test is no input of what it tests")]
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn every_server_tells_the_same_and_nothing_is_lost_or_stuck() {
    if let Some(seed) = setting("SEED") {
        return history(seed);
    }
    for seed in 0..setting("HISTORIES").unwrap_or(HISTORIES) {
        let outcome = std::panic::catch_unwind(|| history(seed));
        assert!(outcome.is_ok(), "seed {seed}: SEED={seed} cargo test -p berth-controller --test servers");
    }
}

fn history(seed: u64) {
    let mut cluster = Cluster::new(seed);
    (0..STEPS).for_each(|_| cluster.step());
    cluster.settle(SETTLED_S);
    let store = cluster.state().clone();
    for (_, node) in store.nodes().iter() {
        assert_eq!(node.status, NodeStatus::Ready, "node {}", node.id);
    }
    let wedged = store.evals().iter().filter(|(_, eval)| eval.status == EvalStatus::Pending);
    let wedged: Vec<_> = wedged.filter(|(_, eval)| eval.wait_until <= store.at()).collect();
    assert!(wedged.is_empty(), "wedged: {wedged:?}");
    for server in &cluster.servers {
        assert_eq!(server.view.hash(), store.hash(), "server {} has published another state", server.id.0);
        assert_eq!(server.unconfirmed, 0, "server {}", server.id.0);
    }
    for agent in &cluster.agents {
        agent_and_servers_agree(&cluster, agent);
    }
}

/// What each server shows of a node's allocations is what its agent holds.
fn agent_and_servers_agree(cluster: &Cluster, agent: &agents::Agent) {
    let Some((_, row)) = cluster.state().node(berth_model::NodeId(agent.node)) else { return };
    let live = cluster.state().nodes().live(row);
    let mut live: Vec<_> =
        live.filter_map(|slot| Some((slot, cluster.state().allocs().row(slot)?.id))).collect();
    live.sort_unstable_by_key(|(_, id)| *id);
    let held: Vec<_> = agent.held.keys().copied().collect();
    assert_eq!(held, live.iter().map(|(_, id)| *id).collect::<Vec<_>>(), "node {} holds others", agent.node);
    for server in &cluster.servers {
        for (slot, id) in &live {
            let shown = server.observed.get(*slot, *id).map(|observation| observation.alloc.status);
            let holds = agent.held[id].status;
            assert_eq!(shown, Some(holds), "server {}, node {}, allocation {id}", server.id.0, agent.node);
            assert_ne!(holds, ClientStatus::Pending, "node {}", agent.node);
        }
    }
}
