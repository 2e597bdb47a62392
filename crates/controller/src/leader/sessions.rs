//! Through which server each node's agent speaks: one session of a node counts, the newest.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_model::{
    AllocId, Index, NodeId, Timestamp,
    command::Command,
    node::{NODES_MAX, Node, NodeStatus},
    store::{AllocSlot, Store},
};

use super::{Leader, Purpose, Replica};
use crate::{
    liveness::grace,
    messages::{
        DownMessage, EndSession, NodeReport, ReportVersion, ReportedAlloc, ServerId, SessionState, UpFrame,
        UpMessage,
    },
    outbox::TooLarge,
    replica::{rivals, why_refused},
};

/// The sessions of all nodes.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_node: BTreeMap<NodeId, NodeSession>,
    /// Nodes whose agents have reported all that runs there, since this leadership began.
    confirmed: BTreeSet<NodeId>,
    /// Nodes that are up and not among them.
    unconfirmed: BTreeSet<NodeId>,
    /// Servers that were asked for all that they know of a node.
    requested: BTreeSet<(ServerId, NodeId)>,
    /// What they had recorded, and reported.
    recorded: Vec<Arc<NodeReport>>,
    /// Where nodes were declared down, or allocations there lost: what a server says that has not applied as much is void.
    lost_at: BTreeMap<NodeId, Index>,
}

/// The session that speaks for a node, or did last.
#[derive(Debug)]
struct NodeSession {
    server: ServerId,
    state: SessionState,
}

/// What is on its way to being published of allocations and nodes.
#[derive(Debug, Default)]
struct UnpublishedReports {
    /// When what is known was observed; none where the agent itself has said so.
    allocs: BTreeMap<AllocId, Option<Timestamp>>,
    nodes: BTreeMap<NodeId, ReportVersion>,
}

impl UnpublishedReports {
    /// Somebody has said this.
    fn add(&mut self, report: &NodeReport) {
        let by_agent = report.session.is_some();
        let seen = report.seen.iter().map(|seen| &seen.alloc);
        self.allocs.extend(seen.map(|alloc| (alloc.id, (!by_agent).then_some(alloc.modified_at))));
        self.nodes.extend(report.version.map(|version| (report.node, version)));
    }

    /// What a server had recorded, as far as it is newer than what is known; `before` is what is published of the node.
    fn newer(&mut self, report: &NodeReport, before: Option<ReportVersion>) -> NodeReport {
        let Self { allocs, nodes } = self;
        let is_newer = |seen: &&ReportedAlloc| match allocs.get(&seen.alloc.id) {
            Some(at) => at.is_some_and(|at| seen.alloc.modified_at > at),
            None => true,
        };
        let seen = report.seen.iter().filter(is_newer).cloned().collect();
        let before = nodes.get(&report.node).copied().or(before);
        let version = report.version.filter(|version| before.is_none_or(|before| version.is_after(&before)));
        let newer = NodeReport { seen, version, ..*report };
        self.add(&newer);
        newer
    }
}

impl Sessions {
    /// Of the nodes of a state: nobody speaks for any of them.
    pub fn of(store: &Store) -> Self {
        let mut sessions = Self::default();
        // Nobody knows here when those that are down were declared so: no later than now.
        store.nodes().iter().for_each(|(_, row)| sessions.count(row.id, row.status, store.index()));
        sessions
    }

    /// How many nodes are up and have not confirmed what runs there.
    pub fn unconfirmed(&self) -> usize {
        self.unconfirmed.len()
    }

    /// Whether the agent of a node has reported all that runs there, and nothing does that should not.
    pub fn is_confirmed(&self, node: NodeId) -> bool {
        self.confirmed.contains(&node)
    }

    /// Counts a node that is in the store.
    pub fn count(&mut self, id: NodeId, status: NodeStatus, index: Index) {
        if status.is_silent() {
            self.confirmed.remove(&id);
            self.unconfirmed.remove(&id);
            self.lost_at.insert(id, index);
        } else if !self.confirmed.contains(&id) {
            self.unconfirmed.insert(id);
        }
    }

    /// Something on a node was declared lost, by an entry at this index: what was confirmed before does not count.
    pub fn lost_on(&mut self, node: NodeId, is_up: bool, index: Index) {
        let lost_at = self.lost_at.entry(node).or_default();
        *lost_at = index.max(*lost_at);
        if self.confirmed.remove(&node) && is_up {
            self.unconfirmed.insert(node);
        }
    }

    /// A node is garbage-collected.
    pub fn remove(&mut self, id: NodeId) {
        self.by_node.remove(&id);
        self.confirmed.remove(&id);
        self.unconfirmed.remove(&id);
        self.lost_at.remove(&id);
    }

    /// Whether what a server said of a node, having applied so much, is of before the node was declared down, or something there lost.
    fn is_void(&self, node: NodeId, as_of: Index) -> bool {
        self.lost_at.get(&node).is_some_and(|lost_at| as_of < *lost_at)
    }

    /// Whether a session is the one that speaks for a node.
    fn speaks(&self, from: ServerId, report: &NodeReport) -> bool {
        match report.session {
            Some(session) => {
                let is_it = |of: &NodeSession| (of.server, of.state.session) == (from, session);
                self.by_node.get(&report.node).is_some_and(is_it)
            }
            None => self.requested.contains(&(from, report.node)),
        }
    }
}

impl Leader {
    /// Takes in what replicas say.
    pub(super) fn take_in(&mut self, replica: &Replica) {
        while let Some((from, frame)) = self.servers.next_frame(replica.store().index()) {
            let UpFrame { as_of, messages, .. } = frame;
            messages.into_iter().for_each(|message| self.on_up(replica, from, as_of, message));
        }
        self.take_up_recorded(replica);
    }

    fn on_up(&mut self, replica: &Replica, from: ServerId, as_of: Index, message: UpMessage) {
        // What was observed before another state replaced all is void: agents come again and report again.
        let is_void = as_of < replica.store().restored_at();
        match message {
            UpMessage::Session(_) | UpMessage::Report(_) if is_void => {}
            UpMessage::Recorded(nodes, rest) => {
                let differ = self.servers.compare(from, &nodes, rest, replica.publication());
                for node in differ.into_iter().filter(|_| !is_void) {
                    self.sessions.requested.insert((from, node));
                    self.servers.send(from, DownMessage::ReportNode(node));
                }
            }
            UpMessage::Session(state) => self.on_session(replica, from, as_of, *state),
            UpMessage::SignsOfLife(nodes) => {
                nodes.into_iter().for_each(|node| self.liveness.heard(node, self.listening));
            }
            UpMessage::Report(report) => self.on_node_report(replica, from, as_of, report),
        }
    }

    fn on_session(&mut self, replica: &Replica, from: ServerId, as_of: Index, state: SessionState) {
        let node = state.node;
        let other = self.sessions.by_node.get(&node).filter(|of| of.state.is_open);
        let other = other.filter(|of| (of.server, of.state.session) != (from, state.session));
        if let Some(NodeSession { server, state: open }) = other {
            if !state.is_open {
                return;
            }
            let is_older =
                open.instance == state.instance && open.epoch == state.epoch && state.dial < open.dial;
            let verdict = rivals(open, &state);
            if is_older || verdict.is_some() {
                let moved = || ("the agent has connected to another server".to_owned(), true);
                let (reason, retry) = verdict.map_or_else(moved, |verdict| why_refused(&verdict, node));
                return self.end_session(from, node, &state, reason, retry);
            }
            let (server, old) = (*server, open.clone());
            if server != from {
                let reason = "the agent has connected to another server".to_owned();
                self.end_session(server, node, &old, reason, true);
            }
        }
        if state.is_open && self.sessions.is_void(node, as_of) {
            let reason = "the server has yet to learn that the node was declared down: try again in a moment";
            return self.end_session(from, node, &state, reason.to_owned(), true);
        }
        if state.is_open
            && let Err((reason, retry)) = self.introduce(replica.store(), node, state.introduces.as_deref())
        {
            return self.end_session(from, node, &state, reason, retry);
        }
        if state.is_new {
            self.liveness.heard(node, self.listening);
        }
        let confirmed = state.confirmed && !self.sessions.is_void(node, as_of);
        self.sessions.by_node.insert(node, NodeSession { server: from, state });
        // A session that ends takes nothing back of what is known.
        if confirmed || self.sessions.by_node.get(&node).is_some_and(|of| of.state.is_open) {
            self.confirm(replica, node, confirmed);
        }
    }

    /// Registers a node as its agent introduced it; if that cannot be, why, and whether trying again can help.
    fn introduce(
        &mut self,
        store: &Store,
        id: NodeId,
        introduces: Option<&Node>,
    ) -> Result<(), (String, bool)> {
        let known = store.nodes().find(id).and_then(|slot| store.nodes().detail(slot));
        let again = || ("the node is to introduce itself again".to_owned(), true);
        let Some(node) = introduces else { return known.map(|_| ()).ok_or_else(again) };
        match known {
            Some(known) if known.node.secret_hash != node.secret_hash => {
                let reason =
                    format!("node {id} is known with another secret: give this agent its own data directory");
                return Err((reason, false));
            }
            Some(known) if *known.node == *node => return Ok(()),
            _ => {}
        }
        if known.is_none() && store.nodes().len() >= NODES_MAX {
            let reason = format!(
                "the cluster has {NODES_MAX} nodes, and takes no more: `berth system gc` removes those that are gone"
            );
            return Err((reason, true));
        }
        let command = Command::RegisterNode(Box::new(node.clone()));
        self.outbox.push_for(Purpose::Introduction(id), vec![command]).map_err(|TooLarge { bytes }| {
            // Another server may let in what this one does not: trying again would not help.
            (format!("node {id} is described in {bytes} bytes, more than an entry of the log holds"), false)
        })
    }

    fn on_node_report(&mut self, replica: &Replica, from: ServerId, as_of: Index, report: Arc<NodeReport>) {
        let node = report.node;
        if report.session.is_none() && report.version.is_some() {
            // The outcome is sent to all, and to it what it had missed.
            self.servers.lacks(from, node);
        }
        if !self.sessions.speaks(from, &report) {
            if let Some(session) = report.session {
                let reason = "the agent has connected to another server".to_owned();
                let end = EndSession { node, session, reason, retry: true };
                self.servers.send(from, DownMessage::EndSession(end));
            }
            return;
        }
        if report.session.is_none() && report.version.is_some() {
            self.sessions.requested.remove(&(from, node));
        }
        if report.session.is_none() {
            return self.sessions.recorded.push(report);
        }
        let report = self.take_up_report(replica, report);
        if let Some(version) = report.version {
            let confirmed = version.confirmed && !self.sessions.is_void(node, as_of);
            self.confirm(replica, node, confirmed);
        }
        self.observations.receive(report);
    }

    /// Takes up what servers had recorded of nodes. What an agent has said itself meanwhile is newer.
    fn take_up_recorded(&mut self, replica: &Replica) {
        let recorded = std::mem::take(&mut self.sessions.recorded);
        if recorded.is_empty() {
            return;
        }
        let mut known = UnpublishedReports::default();
        self.observations.in_flight().for_each(|report| known.add(report));
        for report in recorded {
            let before = replica.publication().record_of(report.node).map(|record| record.version);
            let mut newer = known.newer(&report, before);
            // Whatever was recorded before a node was declared down vouches for nothing: its agent reports again.
            let is_down =
                replica.store().node(report.node).is_some_and(|(_, row)| row.status == NodeStatus::Down);
            newer.version.iter_mut().for_each(|version| version.confirmed &= !is_down);
            let report = self.take_up_report(replica, Arc::new(newer));
            self.observations.receive(report);
        }
    }

    /// What of a report is new, of allocations that have not ended.
    fn take_up_report(&mut self, replica: &Replica, report: Arc<NodeReport>) -> Arc<NodeReport> {
        let store = replica.store();
        let home = store.nodes().find(report.node);
        let live = |seen: &ReportedAlloc| {
            let slot = seen.slot_in(store)?;
            let row = store.allocs().row(slot)?;
            (Some(row.node) == home && !row.is_terminal()).then_some((slot, row))
        };
        let is_new = |slot: AllocSlot, seen: &ReportedAlloc| {
            let before = replica.observed().get(slot, seen.alloc.id);
            let Some(before) = before.map(|before| &before.alloc) else { return true };
            // What a server had recorded may be older than what the agent has said since, through another.
            let is_newer = report.session.is_some() || seen.alloc.modified_at > before.modified_at;
            is_newer && before.hash != seen.alloc.hash
        };
        let mut all_new = true;
        for seen in &report.seen {
            let found = live(seen);
            all_new &= found.is_some_and(|(slot, _)| is_new(slot, seen));
            found.into_iter().for_each(|(slot, row)| self.on_observed(store, slot, row, &seen.alloc));
        }
        if all_new {
            return report;
        }
        let new = report.seen.iter().filter(|seen| live(seen).is_some_and(|(slot, _)| is_new(slot, seen)));
        Arc::new(NodeReport { seen: new.cloned().collect(), ..*report })
    }

    /// Whether what runs on a node is known.
    fn confirm(&mut self, replica: &Replica, node: NodeId, confirmed: bool) {
        let sessions = &mut self.sessions;
        if !confirmed {
            let up = replica.store().node(node).is_some_and(|(_, row)| !row.status.is_silent());
            if sessions.confirmed.remove(&node) && up {
                sessions.unconfirmed.insert(node);
            }
        } else if sessions.confirmed.insert(node) {
            sessions.unconfirmed.remove(&node);
            self.make_ready(replica, node);
        }
    }

    fn end_session(
        &mut self,
        server: ServerId,
        node: NodeId,
        state: &SessionState,
        reason: String,
        retry: bool,
    ) {
        let end = EndSession { node, session: state.session, reason, retry };
        self.servers.send(server, DownMessage::EndSession(end));
    }

    /// Ends the session that speaks for a node: its agent is to say hello again.
    pub(super) fn end_session_of(&mut self, node: NodeId, why: &str) {
        let Some(NodeSession { server, state }) = self.sessions.by_node.remove(&node) else { return };
        self.end_session(server, node, &state, format!("{why}: try again in a moment"), true);
    }

    /// A server is gone: its agents speak through others from now on. Where it vanished without ending their connections,
    /// they do not know yet.
    pub(super) fn drop_servers(&mut self, store: &Store) {
        for server in self.servers.take_silent(self.listening) {
            self.grace_until = self.grace_until.max(self.time.after(grace(store)));
            let of = self.sessions.by_node.iter_mut();
            for (node, of) in of.filter(|(_, of)| of.server == server && of.state.is_open) {
                of.state.is_open = false;
                self.liveness.excuse(*node, store, self.listening);
            }
        }
    }
}
