//! Which nodes have been silent for too long. Silence is measured by the time in which this server listened, so that
//! neither a pause of the server nor a step of its clock is taken for the death of nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use berth_model::{NodeId, store::Store};

/// Time between heartbeats on a cluster of up to [`NODES_AT_SHORT_HEARTBEAT`] nodes.
const HEARTBEAT_SHORT: Duration = Duration::from_secs(5);
/// Time between heartbeats on a larger one.
const HEARTBEAT_LONG: Duration = Duration::from_secs(10);
const NODES_AT_SHORT_HEARTBEAT: usize = 10_000;
/// A node is down after this many heartbeats have not come.
const MISSED_MAX: u32 = 2;
/// After a start, agents have this long to come back before any of them is declared down. Twice the longest time that an
/// agent waits between two tries.
const START_GRACE: Duration = Duration::from_secs(30);

/// How often agents are to give a sign of life.
pub(crate) fn heartbeat_every(store: &Store) -> Duration {
    if store.nodes().len() > NODES_AT_SHORT_HEARTBEAT { HEARTBEAT_LONG } else { HEARTBEAT_SHORT }
}

/// When each node was last heard, since this server leads.
#[derive(Debug)]
pub(crate) struct Liveness {
    heard_at: BTreeMap<NodeId, Duration>,
    /// Nodes that were up when this server began to lead, and have not been heard since.
    unheard: BTreeSet<NodeId>,
    began_at: Duration,
}

impl Liveness {
    /// This server leads from now on: nobody has been heard.
    pub fn begin(store: &Store, now: Duration) -> Self {
        let up = store.nodes().iter().filter(|(_, row)| !row.status.is_silent());
        Self { heard_at: BTreeMap::new(), unheard: up.map(|(_, row)| row.id).collect(), began_at: now }
    }

    /// A sign of life.
    pub fn heard(&mut self, node: NodeId, now: Duration) {
        if self.heard_at.insert(node, now).is_none() {
            self.unheard.remove(&node);
        }
    }

    /// A node is down: it is heard of again when its agent comes back.
    pub fn down(&mut self, node: NodeId) {
        self.unheard.remove(&node);
        self.heard_at.remove(&node);
    }

    /// The nodes that have been silent for too long and are not declared so yet.
    pub fn silent(&self, store: &Store, now: Duration) -> Vec<NodeId> {
        let allowed = heartbeat_every(store) * (MISSED_MAX + 1);
        let in_grace = now.saturating_sub(self.began_at) < START_GRACE;
        let stopped = self.heard_at.iter().filter(|(_, at)| now.saturating_sub(**at) > allowed);
        let never = self.unheard.iter().filter(|_| !in_grace);
        let is_up = |id: &&NodeId| store.node(**id).is_some_and(|(_, row)| !row.status.is_silent());
        stopped.map(|(id, _)| id).chain(never).filter(is_up).copied().collect()
    }
}
