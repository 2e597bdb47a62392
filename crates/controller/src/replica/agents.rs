//! The agents that this server knows: their sessions, what they have reported, and whether messages reach them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use berth_model::{AllocId, NodeId};

use crate::event::{Hello, SessionId, WelcomeMode};

/// How long an agent that is heard may leave a message unacknowledged, before its link counts as one that swallows
/// what it is sent. Longer than two heartbeats of the largest cluster, which carry acknowledgements.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(25);
/// Heartbeats in a row that must show another digest of observed state before the agent has to report all anew.
const MISMATCHES_MAX: u8 = 2;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    by_node: BTreeMap<NodeId, Agent>,
    by_session: HashMap<SessionId, NodeId>,
    /// Nodes that are up and whose agents have not confirmed what runs there.
    unconfirmed: BTreeSet<NodeId>,
}

/// The agent of one node.
#[derive(Debug, Default)]
pub(crate) struct Agent {
    /// None while its connection is gone.
    session: Option<Session>,
    epoch: u64,
    instance: u128,
    reported: Reported,
}

/// What an agent has reported.
#[derive(Debug, Default)]
struct Reported {
    /// Of the last change that is in it.
    seq: u64,
    /// The sum of the hashes of all `allocs`.
    digest: u128,
    /// What was observed of each: its hash, and whether it has ended.
    allocs: HashMap<AllocId, (u128, bool)>,
    /// All that runs there has been reported.
    all: bool,
    /// What still runs there although the state has no use for it, such as tasks of allocations that were declared
    /// lost. What they hold is not free. With whether the state has forgotten them meanwhile.
    leftovers: BTreeMap<AllocId, bool>,
}

/// An open session.
#[derive(Debug)]
struct Session {
    id: SessionId,
    /// How often the agent gives a sign of life, as it was told.
    heartbeat: Duration,
    /// Messages of desired state that were sent, and that the agent has taken in.
    sent: u64,
    acknowledged: u64,
    /// When the oldest message that is not acknowledged was sent, by the time of listening.
    unacknowledged_since: Duration,
    mismatches: u8,
}

/// What comes of a hello.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It is in; the session it replaces, if any, is to be closed.
    Accepted(WelcomeMode, Option<SessionId>),
    /// A newer start of the node's agent is connected.
    Superseded,
    /// Another process with the same identity is connected.
    Duplicate,
}

/// What a sign of life shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// All is well, or not to be told yet.
    Well,
    /// All that was sent has arrived; what the agent holds can be compared.
    UpToDate,
    /// What is sent to the agent does not arrive.
    Deaf,
}

impl Agents {
    /// An agent introduces itself.
    pub fn open(&mut self, session: SessionId, hello: &Hello, heartbeat: Duration) -> Opened {
        let id = hello.node_id();
        let agent = self.by_node.entry(id).or_default();
        if agent.session.is_some() && hello.epoch < agent.epoch {
            return Opened::Superseded;
        }
        let same_epoch = agent.epoch == hello.epoch;
        if agent.session.is_some() && same_epoch && agent.instance != hello.instance {
            return Opened::Duplicate;
        }
        let was_confirmed = agent.is_confirmed();
        let mode = agent.reported.mode(hello, same_epoch);
        (agent.epoch, agent.instance) = (hello.epoch, hello.instance);
        let opened = Session {
            id: session,
            heartbeat,
            sent: 0,
            acknowledged: 0,
            unacknowledged_since: Duration::ZERO,
            mismatches: 0,
        };
        let replaced = agent.session.replace(opened).map(|old| old.id);
        match (was_confirmed, agent.is_confirmed()) {
            (true, false) => drop(self.unconfirmed.insert(id)),
            (_, true) => drop(self.unconfirmed.remove(&id)),
            (false, false) => {}
        }
        if let Some(old) = &replaced {
            self.by_session.remove(old);
        }
        self.by_session.insert(session, id);
        Opened::Accepted(mode, replaced)
    }

    /// The node of a session that is still the current one of its node.
    pub fn node_of(&self, session: SessionId) -> Option<NodeId> {
        self.by_session.get(&session).copied()
    }

    /// The current session of a node.
    pub fn session_of(&self, node: NodeId) -> Option<SessionId> {
        Some(self.by_node.get(&node)?.session.as_ref()?.id)
    }

    /// All open sessions, by their nodes.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.by_node.values().filter_map(|agent| Some(agent.session.as_ref()?.id)).collect()
    }

    /// A session's connection is gone.
    pub fn close(&mut self, session: SessionId) {
        if let Some(agent) = self.by_session.remove(&session).and_then(|id| self.by_node.get_mut(&id)) {
            agent.session = None;
        }
    }

    /// The time between heartbeats, when the agent was told another one; from now on it knows.
    pub fn heartbeat_untold(&mut self, session: SessionId, heartbeat: Duration) -> Option<Duration> {
        let session = self.session_mut(session)?;
        (std::mem::replace(&mut session.heartbeat, heartbeat) != heartbeat).then_some(heartbeat)
    }

    /// Counts a message of desired state that is about to be sent: its number in the session.
    pub fn sent(&mut self, session: SessionId, listening: Duration) -> Option<u64> {
        let session = self.session_mut(session)?;
        if session.sent == session.acknowledged {
            session.unacknowledged_since = listening;
        }
        session.sent += 1;
        Some(session.sent)
    }

    /// An agent says which message of desired state it has taken in last.
    pub fn acknowledged(&mut self, session: SessionId, seq: u64, listening: Duration) -> Shown {
        let Some(session) = self.session_mut(session) else { return Shown::Well };
        if seq > session.acknowledged {
            (session.acknowledged, session.unacknowledged_since) = (seq.min(session.sent), listening);
        }
        let silent = listening.saturating_sub(session.unacknowledged_since);
        match () {
            () if session.acknowledged == session.sent => Shown::UpToDate,
            () if silent > ACKNOWLEDGED_WITHIN => Shown::Deaf,
            () => Shown::Well,
        }
    }

    /// Compares what an agent holds with what it has reported; false when they have differed for too long.
    pub fn holds_what_it_reported(&mut self, id: SessionId, seq: u64, digest: u128) -> bool {
        let agent = self.by_session.get(&id).and_then(|node| self.by_node.get_mut(node));
        let Some(Agent { session: Some(session), reported, .. }) = agent else { return true };
        let differs =
            reported.all && reported.leftovers.is_empty() && reported.seq == seq && reported.digest != digest;
        session.mismatches = if differs { session.mismatches + 1 } else { 0 };
        session.mismatches < MISMATCHES_MAX
    }

    /// The agent of a node.
    pub fn get_mut(&mut self, node: NodeId) -> Option<&mut Agent> {
        self.by_node.get_mut(&node)
    }

    /// Whether the agent of a node has reported all that runs there, and nothing does that should not.
    pub fn is_confirmed(&self, node: NodeId) -> bool {
        self.by_node.get(&node).is_some_and(Agent::is_confirmed)
    }

    /// Counts a node that is in the store, up or down.
    pub fn count(&mut self, id: NodeId, up: bool) {
        if !up || self.is_confirmed(id) {
            self.unconfirmed.remove(&id);
        } else {
            self.unconfirmed.insert(id);
        }
    }

    /// How many nodes are up and have not confirmed what runs there.
    pub fn unconfirmed(&self) -> usize {
        self.unconfirmed.len()
    }

    /// A node is declared down: when its agent comes back it reports everything anew.
    pub fn lost(&mut self, id: NodeId) {
        if let Some(agent) = self.by_node.get_mut(&id) {
            agent.reported.all = false;
        }
    }

    /// What agents reported is not known any more: when they come back they report everything anew.
    pub fn lost_all(&mut self) {
        for (id, agent) in &mut self.by_node {
            if agent.is_confirmed() {
                self.unconfirmed.insert(*id);
            }
            agent.reported.all = false;
        }
    }

    /// A node is garbage-collected.
    pub fn remove(&mut self, id: NodeId) {
        if let Some(Agent { session: Some(session), .. }) = self.by_node.remove(&id) {
            self.by_session.remove(&session.id);
        }
        self.unconfirmed.remove(&id);
    }

    fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.by_node.get_mut(self.by_session.get(&id)?)?.session.as_mut()
    }
}

impl Reported {
    /// What an agent that says hello is to report.
    fn mode(&mut self, hello: &Hello, same_epoch: bool) -> WelcomeMode {
        if self.all && self.leftovers.is_empty() && self.digest == hello.observed_digest {
            return WelcomeMode::Equal;
        }
        let mode = if self.all && same_epoch && hello.seq > self.seq {
            WelcomeMode::FromSeq(self.seq)
        } else {
            // What is reported now is all there is: what was reported before counts no more.
            *self = Self::default();
            WelcomeMode::Full
        };
        self.all = false;
        mode
    }
}

impl Agent {
    /// Whether it has reported all that runs there, and nothing does that should not.
    pub fn is_confirmed(&self) -> bool {
        self.reported.all && self.reported.leftovers.is_empty()
    }

    /// Takes in a report up to this change; with `all`, nothing is left to be reported.
    pub fn reported(&mut self, seq: u64, all: bool) {
        self.reported.seq = self.reported.seq.max(seq);
        self.reported.all |= all;
    }

    /// Takes in the hash of what was observed of an allocation, and whether it has ended.
    pub fn observed(&mut self, alloc: AllocId, hash: u128, ended: bool) {
        let before = self.reported.allocs.insert(alloc, (hash, ended)).map_or(0, |(hash, _)| hash);
        self.reported.digest = self.reported.digest.wrapping_sub(before).wrapping_add(hash);
    }

    /// The end of an allocation is in the log. Whether it is the end that this agent reported; none when it has reported
    /// nothing of it. What it runs all the same is left over.
    pub fn ended(&mut self, alloc: AllocId) -> Option<bool> {
        let (hash, ended) = self.reported.allocs.remove(&alloc)?;
        self.reported.digest = self.reported.digest.wrapping_sub(hash);
        if !ended {
            self.reported.leftovers.insert(alloc, false);
        }
        Some(ended)
    }

    /// Something runs that the state has no use for.
    pub fn leftover_runs(&mut self, alloc: AllocId) {
        self.reported.leftovers.entry(alloc).or_default();
    }

    /// Something runs no more that the state has no use for; whether the state has forgotten it meanwhile.
    pub fn leftover_ended(&mut self, alloc: AllocId) -> bool {
        self.reported.leftovers.remove(&alloc).unwrap_or(false)
    }

    /// The state forgets an allocation. Whether it still runs here: an agent that were told now to remove it would never
    /// say that it has ended.
    pub fn collected(&mut self, alloc: AllocId) -> bool {
        self.reported.leftovers.get_mut(&alloc).is_some_and(|collected| {
            *collected = true;
            true
        })
    }
}
