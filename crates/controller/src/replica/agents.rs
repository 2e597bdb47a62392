//! The agents that dialed this server: their sessions, what they have reported, and whether messages reach them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use berth_model::{NodeId, node::Node};

use super::reports::Reports;
use crate::{
    event::{Hello, SessionId},
    messages::{NodeReport, SessionState},
};

/// How long an agent that is heard may leave a message unacknowledged, before its link counts as one that swallows
/// what it is sent. Longer than two heartbeats of the largest cluster, which carry acknowledgements.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(25);
/// How often what an agent says of its node is passed on in the long run: each time is an entry of the log.
const REDESCRIBED_EVERY: Duration = Duration::from_secs(10);
/// So many times in a row it is passed on before that counts: agents say a second apart what an operator changes, and after a
/// stall at once.
const REDESCRIBED_AT_ONCE: u32 = 8;
/// Heartbeats in a row that must show another digest of observed state, or nothing reported of what is owed, before the agent has
/// to report all again.
const MISMATCHES_MAX: u8 = 2;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    by_node: BTreeMap<NodeId, Agent>,
    by_session: HashMap<SessionId, NodeId>,
    /// Nodes of whose session the leader has yet to be informed.
    unreported: BTreeSet<NodeId>,
    /// Nodes that gave a sign of life, of which the leader has yet to be informed.
    heard: Vec<NodeId>,
    /// Nodes that have something to report to the leader.
    reporting: VecDeque<NodeId>,
    /// Nodes whose agents did not hold what is recorded, or did not report what they owed: when one comes again, it reports
    /// everything. What is recorded stays: other servers show it too, and an agent that confirms it there says nothing new.
    doubted: BTreeSet<NodeId>,
    /// Nodes that were described again, of which that has yet to be passed on.
    redescribed: BTreeSet<NodeId>,
}

/// The agent of one node.
#[derive(Debug)]
pub(crate) struct Agent {
    /// None while its connection is gone.
    session: Option<Session>,
    /// The session that is open, or was last.
    state: SessionState,
    pub reports: Reports,
    /// When it gave a sign of life last, by the time of listening.
    heard_at: Duration,
    /// The leader has yet to be informed of it.
    is_heard: bool,
    is_queued: bool,
    /// The leader was informed in this session that all that runs there is known, if it was so.
    reported_confirmed: bool,
}

/// An open session.
#[derive(Debug)]
struct Session {
    id: SessionId,
    /// How often the agent gives a sign of life, as it was instructed.
    heartbeat: Duration,
    /// Messages of desired state that were sent, and that the agent has taken in.
    sent: u64,
    acknowledged: u64,
    /// When the oldest message that is not acknowledged was sent, by the time of listening.
    unacknowledged_since: Duration,
    mismatches: u8,
    /// It has reported something since its last heartbeat.
    has_reported: bool,
    /// What the agent says of its node and was not passed on yet. Boxed: few nodes ever change.
    description: Option<Box<Node>>,
    /// When descriptions that were passed on count no more, by the time of listening.
    redescribed_until: Duration,
}

impl Session {
    /// What there is to pass on by now; none before its time has come.
    fn take_description(&mut self, listening: Duration) -> Option<Box<Node>> {
        let until = self.redescribed_until.max(listening) + REDESCRIBED_EVERY;
        if until - listening > REDESCRIBED_EVERY * REDESCRIBED_AT_ONCE {
            return None;
        }
        let described = self.description.take()?;
        self.redescribed_until = until;
        Some(described)
    }
}

/// What comes of a hello.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SessionOpening {
    /// It is in; the session it replaces, if any, is to be closed.
    Accepted(Option<SessionId>),
    /// A newer start of the node's agent is connected.
    Superseded,
    /// Another process with the same identity is connected.
    Duplicate,
}

/// What a sign of life shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeartbeatStatus {
    /// All is well, or not to be reported yet.
    Well,
    /// All that was sent has arrived; what the agent holds can be compared.
    UpToDate,
    /// What is sent to the agent does not arrive.
    Deaf,
}

impl Agents {
    /// An agent introduces itself; with its node where the state has none such.
    pub fn open(
        &mut self,
        session: SessionId,
        hello: &Hello,
        introduces: Option<Box<Node>>,
        heartbeat: Duration,
        listening: Duration,
    ) -> SessionOpening {
        let node = hello.node_id();
        let state = SessionState {
            session,
            node,
            epoch: hello.epoch,
            instance: hello.instance,
            dial: hello.dial,
            is_open: true,
            is_new: true,
            confirmed: false,
            introduces,
        };
        let opened = Session {
            id: session,
            heartbeat,
            sent: 0,
            acknowledged: 0,
            unacknowledged_since: Duration::ZERO,
            mismatches: 0,
            has_reported: false,
            description: None,
            redescribed_until: Duration::ZERO,
        };
        let mut replaced = None;
        if let Some(agent) = self.by_node.get_mut(&node) {
            if let Some(verdict) = agent.session.as_ref().and_then(|_| rivals(&agent.state, &state)) {
                return verdict;
            }
            replaced = agent.session.replace(opened).map(|old| old.id);
            (agent.state, agent.heard_at) = (state, listening);
        } else {
            let reports = Reports::default();
            let agent = Agent {
                session: Some(opened),
                state,
                reports,
                heard_at: listening,
                is_heard: false,
                is_queued: false,
                reported_confirmed: false,
            };
            self.by_node.insert(node, agent);
        }
        if let Some(old) = &replaced {
            self.by_session.remove(old);
        }
        self.by_session.insert(session, node);
        self.unreported.insert(node);
        SessionOpening::Accepted(replaced)
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

    /// The agent of a node.
    pub fn get_mut(&mut self, node: NodeId) -> Option<&mut Agent> {
        self.by_node.get_mut(&node)
    }

    /// The agent of a node.
    pub fn get(&self, node: NodeId) -> Option<&Agent> {
        self.by_node.get(&node)
    }

    /// A session's connection is gone. What it has reported is still reported.
    pub fn close(&mut self, session: SessionId) {
        let Some(node) = self.by_session.remove(&session) else { return };
        let Some(agent) = self.by_node.get_mut(&node) else { return };
        agent.session = None;
        agent.state.is_open = false;
        self.unreported.insert(node);
    }

    /// A node is garbage-collected.
    pub fn remove(&mut self, id: NodeId) {
        if let Some(Agent { session: Some(session), .. }) = self.by_node.remove(&id) {
            self.by_session.remove(&session.id);
        }
        self.unreported.remove(&id);
        self.doubted.remove(&id);
        self.redescribed.remove(&id);
    }

    /// The agent of a node is to report everything when it comes again.
    pub fn doubt(&mut self, node: NodeId) {
        self.doubted.insert(node);
    }

    /// Whether it is; asked when it comes.
    pub fn take_doubt(&mut self, node: NodeId) -> bool {
        self.doubted.remove(&node)
    }

    /// Another state has taken the place of the one that agents reported on.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// An agent gave a sign of life.
    pub fn heard(&mut self, node: NodeId, listening: Duration) {
        let Some(agent) = self.by_node.get_mut(&node) else { return };
        agent.heard_at = listening;
        if !std::mem::replace(&mut agent.is_heard, true) {
            self.heard.push(node);
        }
    }

    /// The nodes that gave a sign of life since this was asked last, at most `max` of them.
    pub fn take_signs_of_life(&mut self, max: usize) -> Vec<NodeId> {
        let first = self.heard.len().saturating_sub(max);
        let heard = self.heard.split_off(first);
        for node in &heard {
            self.by_node.get_mut(node).into_iter().for_each(|agent| agent.is_heard = false);
        }
        heard
    }

    /// Whether the leader has yet to be informed of anything.
    pub fn has_unreported(&self) -> bool {
        !(self.unreported.is_empty() && self.heard.is_empty() && self.reporting.is_empty())
    }

    /// The state of the next session that the leader has yet to be informed of.
    pub fn next_unreported(&mut self) -> Option<SessionState> {
        while let Some(node) = self.unreported.pop_first() {
            let Some(agent) = self.by_node.get_mut(&node) else { continue };
            let confirmed = agent.reports.is_confirmed() && agent.reports.is_recorded();
            let state = SessionState { confirmed, ..agent.state.clone() };
            (agent.state.is_new, agent.reported_confirmed) = (false, confirmed);
            if !state.is_open && agent.reports.is_idle() {
                self.by_node.remove(&node);
            }
            return Some(state);
        }
        None
    }

    /// An agent describes its node again: only the latest is passed on, and not too often.
    pub fn redescribe(&mut self, session: SessionId, node: Node) {
        let id = node.id;
        let Some(open) = self.session_mut(session) else { return };
        open.description = Some(Box::new(node));
        self.redescribed.insert(id);
    }

    /// The descriptions that are to be passed on by now.
    pub fn take_descriptions(&mut self, listening: Duration) -> Vec<Node> {
        let mut due = Vec::new();
        let Self { by_node, redescribed, .. } = self;
        redescribed.retain(|id| {
            // Whoever comes again describes the node as it is.
            let Some(open) = by_node.get_mut(id).and_then(|agent| agent.session.as_mut()) else {
                return false;
            };
            due.extend(open.take_description(listening).map(|node| *node));
            open.description.is_some()
        });
        due
    }

    /// What a node is from now on, by its agent; `known` is what the state has.
    pub fn describe(&mut self, mut node: Node, known: Option<&Node>) {
        let Some(agent) = self.by_node.get_mut(&node.id) else { return };
        let Some(last) = agent.state.introduces.as_deref().or(known) else { return };
        node.secret_hash.clone_from(&last.secret_hash);
        if *last != node {
            self.unreported.insert(node.id);
            agent.state.introduces = Some(Box::new(node));
        }
    }

    /// The state has a node as its agent introduced it, or as it did before it said otherwise: then the leader may have
    /// taken what is true now for what it had already.
    pub fn introduced(&mut self, node: &Node) {
        let Some(agent) = self.by_node.get_mut(&node.id) else { return };
        match &agent.state.introduces {
            Some(described) if **described == *node => agent.state.introduces = None,
            Some(_) => drop(self.unreported.insert(node.id)),
            None => {}
        }
    }

    /// Has the reports of a node sent to the leader, if there are any.
    pub fn queue(&mut self, node: NodeId) {
        if let Some(agent) =
            self.by_node.get_mut(&node).filter(|agent| !agent.is_queued && agent.reports.may_send())
        {
            agent.is_queued = true;
            self.reporting.push_back(node);
        }
    }

    /// The next node that has something to report.
    pub fn next_reporting(&mut self) -> Option<(NodeId, &mut Agent)> {
        loop {
            let node = self.reporting.pop_front()?;
            let is_due = self.by_node.get_mut(&node).is_some_and(|agent| {
                agent.is_queued = false;
                agent.reports.may_send()
            });
            if is_due {
                return self.by_node.get_mut(&node).map(|agent| (node, agent));
            }
        }
    }

    /// The leader has recorded a report, or a part of one.
    pub fn recorded(&mut self, report: &NodeReport) {
        let node = report.node;
        let Some(agent) = self.by_node.get_mut(&node) else { return };
        agent.reports.recorded(report);
        // What made it so may have been reported before the session was.
        if agent.session.is_some()
            && !agent.reported_confirmed
            && agent.reports.is_confirmed()
            && agent.reports.is_recorded()
        {
            self.unreported.insert(node);
        }
        if agent.session.is_none() && agent.reports.is_idle() && !self.unreported.contains(&node) {
            self.by_node.remove(&node);
            return;
        }
        self.queue(node);
    }

    /// Nothing of what the leader was sent can be relied on: all sessions are to be reported again, and the signs of life of
    /// those that owe none yet. The nodes of which something was sent and is not recorded.
    pub fn begin_again(&mut self, listening: Duration) -> Vec<NodeId> {
        self.unreported = self.by_node.keys().copied().collect();
        for (node, agent) in &mut self.by_node {
            let lives = agent
                .session
                .as_ref()
                .is_some_and(|session| listening.saturating_sub(agent.heard_at) < session.heartbeat);
            if lives && !std::mem::replace(&mut agent.is_heard, true) {
                self.heard.push(*node);
            }
        }
        let sent = self.by_node.iter().filter(|(_, agent)| !agent.reports.is_idle());
        sent.map(|(node, _)| *node).collect()
    }

    /// The time between heartbeats, when the agent was given another one; from now on it knows.
    pub fn heartbeat_change(&mut self, session: SessionId, heartbeat: Duration) -> Option<Duration> {
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
    pub fn acknowledged(&mut self, session: SessionId, seq: u64, listening: Duration) -> HeartbeatStatus {
        let Some(session) = self.session_mut(session) else { return HeartbeatStatus::Well };
        if seq > session.acknowledged {
            (session.acknowledged, session.unacknowledged_since) = (seq.min(session.sent), listening);
        }
        let silent = listening.saturating_sub(session.unacknowledged_since);
        match () {
            () if session.acknowledged == session.sent => HeartbeatStatus::UpToDate,
            () if silent > ACKNOWLEDGED_WITHIN => HeartbeatStatus::Deaf,
            () => HeartbeatStatus::Well,
        }
    }

    /// Notes whether what an agent holds differs from what is recorded; false when it has for too long.
    pub fn holds_what_it_reported(&mut self, session: SessionId, differs: bool) -> bool {
        let Some(session) = self.session_mut(session) else { return true };
        session.mismatches = if differs { session.mismatches + 1 } else { 0 };
        session.mismatches < MISMATCHES_MAX
    }

    /// An agent has reported something.
    pub fn note_report(&mut self, session: SessionId) {
        self.session_mut(session).into_iter().for_each(|session| session.has_reported = true);
    }

    /// Whether it has since this was asked last.
    pub fn take_has_reported(&mut self, session: SessionId) -> bool {
        self.session_mut(session).is_some_and(|session| std::mem::take(&mut session.has_reported))
    }

    fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.by_node.get_mut(self.by_session.get(&id)?)?.session.as_mut()
    }
}

impl Agent {
    /// The session that is open, or was last.
    pub fn session(&self) -> SessionId {
        self.state.session
    }

    /// What is to be reported to the leader, as far as it fits a frame.
    pub fn report(&mut self) -> Arc<NodeReport> {
        let report = self.reports.take(self.state.node, self.state.session);
        self.mark_reported(&report);
        report
    }

    /// The leader is sent this.
    pub fn mark_reported(&mut self, report: &NodeReport) {
        self.reported_confirmed |= report.version.is_some_and(|version| version.confirmed);
    }
}

/// Whether a session is refused because of one that is open.
pub(crate) fn rivals(open: &SessionState, new: &SessionState) -> Option<SessionOpening> {
    match () {
        () if new.epoch < open.epoch => Some(SessionOpening::Superseded),
        () if new.epoch == open.epoch && new.instance != open.instance => Some(SessionOpening::Duplicate),
        () => None,
    }
}
