//! Agents' sessions: who is connected, who has confirmed what runs there, and who has been silent for too long.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use berth_model::{AllocId, NodeId, Timestamp, node::NodeStatus, store::Store};

use crate::event::{Hello, SessionId, WelcomeMode};

/// Time between heartbeats on a cluster of up to [`NODES_AT_SHORT_HEARTBEAT`] nodes.
const HEARTBEAT_SHORT: Duration = Duration::from_secs(5);
/// Time between heartbeats on a larger one.
const HEARTBEAT_LONG: Duration = Duration::from_secs(10);
const NODES_AT_SHORT_HEARTBEAT: usize = 10_000;
/// A node is down after this many heartbeats have not come.
const MISSED_MAX: u32 = 2;
/// After a start, agents have this long to come back before any of them is given up.
const START_GRACE: Duration = Duration::from_secs(30);

/// One node whose agent has been here since this server leads.
#[derive(Debug)]
pub(crate) struct Connected {
    /// None while its connection is gone.
    pub session: Option<SessionId>,
    pub epoch: u64,
    pub heard_at: Timestamp,
    /// How often the agent gives a sign of life, as it was told.
    heartbeat: Duration,
    /// Its agent has told all that runs there.
    confirmed: bool,
    /// Of the observed state that it told.
    pub observed_digest: u128,
    /// Of the last observed change that it told.
    pub seq: u64,
    /// The hash of each allocation that the digest sums up.
    hashes: HashMap<AllocId, u128>,
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    by_id: HashMap<NodeId, Connected>,
    by_session: HashMap<SessionId, NodeId>,
    /// Nodes that are not down and have not confirmed what runs there.
    unconfirmed: HashSet<NodeId>,
    /// Nodes that were not down when this server began to lead, and have not been heard since.
    unheard: HashSet<NodeId>,
    began_at: Timestamp,
}

/// What comes of a hello.
pub(crate) enum Opened {
    /// It is in; the session it replaces, if any, is to be closed.
    In(WelcomeMode, Option<SessionId>),
    /// A newer start of the same agent is here already.
    Superseded,
}

impl Nodes {
    /// This server leads from now on: nobody has been heard.
    pub fn begin(&mut self, store: &Store, now: Timestamp) {
        let up = store.nodes().iter().filter(|(_, row)| row.status != NodeStatus::Down);
        let unheard: HashSet<NodeId> = up.map(|(_, row)| row.id).collect();
        *self = Self { began_at: now, unconfirmed: unheard.clone(), unheard, ..Self::default() };
    }

    /// An agent introduces itself.
    pub fn open(&mut self, session: SessionId, hello: &Hello, store: &Store, now: Timestamp) -> Opened {
        let (id, heartbeat) = (hello.node_id(), self.heartbeat(store));
        let node = self.by_id.entry(id).or_insert_with(|| Connected {
            session: None,
            epoch: 0,
            heard_at: now,
            heartbeat,
            confirmed: false,
            observed_digest: 0,
            seq: 0,
            hashes: HashMap::new(),
        });
        if node.session.is_some() && hello.epoch < node.epoch {
            return Opened::Superseded;
        }
        let same_agent = node.epoch == hello.epoch;
        let replaced = node.session.replace(session);
        node.epoch = hello.epoch;
        node.heard_at = now;
        node.heartbeat = heartbeat;
        let known = node.confirmed;
        let mode = if known && node.observed_digest == hello.observed_digest {
            WelcomeMode::Equal
        } else if known && same_agent && hello.seq > node.seq {
            WelcomeMode::FromSeq(node.seq)
        } else {
            // What is told now is all there is: what was told before counts no more.
            node.hashes.clear();
            node.observed_digest = 0;
            WelcomeMode::Full
        };
        node.confirmed = mode == WelcomeMode::Equal;
        if node.confirmed {
            self.unconfirmed.remove(&id);
        } else if known {
            self.unconfirmed.insert(id);
        }
        self.unheard.remove(&id);
        if let Some(old) = &replaced {
            self.by_session.remove(old);
        }
        self.by_session.insert(session, id);
        Opened::In(mode, replaced)
    }

    /// The node of a session that is still the current one of its node.
    pub fn node_of(&self, session: SessionId) -> Option<NodeId> {
        self.by_session.get(&session).copied()
    }

    /// The current session of a node.
    pub fn session_of(&self, node: NodeId) -> Option<SessionId> {
        self.by_id.get(&node)?.session
    }

    /// All open sessions, oldest first.
    pub fn sessions(&self) -> Vec<SessionId> {
        let mut sessions: Vec<SessionId> = self.by_session.keys().copied().collect();
        sessions.sort_unstable();
        sessions
    }

    /// A sign of life.
    pub fn heard(&mut self, session: SessionId, now: Timestamp) -> Option<&mut Connected> {
        let node = self.by_id.get_mut(self.by_session.get(&session)?)?;
        node.heard_at = now;
        Some(node)
    }

    /// The time between heartbeats, when the agent was told another one; from now on it knows.
    pub fn heartbeat_untold(&mut self, session: SessionId, store: &Store) -> Option<Duration> {
        let heartbeat = self.heartbeat(store);
        let node = self.by_id.get_mut(self.by_session.get(&session)?)?;
        (std::mem::replace(&mut node.heartbeat, heartbeat) != heartbeat).then_some(heartbeat)
    }

    /// A session's connection is gone; its node is not given up before it has been silent for too long.
    pub fn close(&mut self, session: SessionId) {
        if let Some(node) = self.by_session.remove(&session).and_then(|id| self.by_id.get_mut(&id)) {
            node.session = None;
        }
    }

    /// The end of an allocation is in the log: its agent tells of it no more.
    pub fn forget(&mut self, node: NodeId, alloc: AllocId) {
        if let Some(node) = self.by_id.get_mut(&node) {
            node.forget(alloc);
        }
    }

    /// An agent has told all that runs on its node.
    pub fn confirm(&mut self, id: NodeId) {
        if let Some(node) = self.by_id.get_mut(&id) {
            node.confirmed = true;
            self.unconfirmed.remove(&id);
        }
    }

    /// A node is in the store with this status.
    pub fn count(&mut self, id: NodeId, status: NodeStatus) {
        let confirmed = self.by_id.get(&id).is_some_and(|node| node.confirmed);
        if status == NodeStatus::Down {
            self.unheard.remove(&id);
        }
        if status == NodeStatus::Down || confirmed {
            self.unconfirmed.remove(&id);
        } else {
            self.unconfirmed.insert(id);
        }
    }

    /// How many nodes are not down and have not confirmed what runs there.
    pub fn unconfirmed(&self) -> usize {
        self.unconfirmed.len()
    }

    /// The nodes that have been silent for too long and are not down yet.
    pub fn silent(&self, store: &Store, now: Timestamp) -> Vec<NodeId> {
        let allowed = self.heartbeat(store) * (MISSED_MAX + 1);
        let in_grace = now.since(self.began_at) < START_GRACE;
        let stopped = self.by_id.iter().filter(|(_, node)| now.since(node.heard_at) > allowed);
        let never = self.unheard.iter().filter(|_| !in_grace);
        let is_up = |id: &&NodeId| store.node(**id).is_some_and(|(_, row)| row.status != NodeStatus::Down);
        stopped.map(|(id, _)| id).chain(never).filter(is_up).copied().collect()
    }

    /// A node is forgotten.
    pub fn remove(&mut self, id: NodeId) {
        self.by_id.remove(&id);
        self.unconfirmed.remove(&id);
        self.unheard.remove(&id);
    }

    /// How often agents are to give a sign of life.
    pub fn heartbeat(&self, store: &Store) -> Duration {
        if store.nodes().len() > NODES_AT_SHORT_HEARTBEAT { HEARTBEAT_LONG } else { HEARTBEAT_SHORT }
    }

    /// A node is given up: when it comes back it tells everything anew.
    pub fn give_up(&mut self, id: NodeId) {
        if let Some(node) = self.by_id.get_mut(&id) {
            node.confirmed = false;
        }
    }
}

impl Connected {
    /// Whether its agent has told all that runs there.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Takes in the hash of what was observed of an allocation.
    pub fn observed(&mut self, alloc: AllocId, hash: u128) {
        let before = self.hashes.insert(alloc, hash).unwrap_or(0);
        self.observed_digest = self.observed_digest.wrapping_sub(before).wrapping_add(hash);
    }

    fn forget(&mut self, alloc: AllocId) {
        let hash = self.hashes.remove(&alloc).unwrap_or(0);
        self.observed_digest = self.observed_digest.wrapping_sub(hash);
    }
}
