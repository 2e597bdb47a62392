//! The server's side of agents' sessions: who is admitted, what it is sent at once, and what follows from its reports.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use berth_model::{
    AllocId, NodeId,
    node::Node,
    observed::ObservedAlloc,
    store::{AllocRow, AllocSlot},
};

use super::{
    Replica,
    agents::{HeartbeatStatus, SessionOpening},
    desired,
    reports::ReportScope,
};
use crate::{
    action::{Action, NodeMessage},
    checkpoint::UsableCheckpoint,
    event::{Heartbeat, Hello, SessionId, WelcomeMode},
    liveness::heartbeat_every,
    messages::{ReportVersion, ReportedAlloc},
};

/// About how many bytes an observation may take: one that is larger loses the events of its tasks.
const SEEN_BYTES_MAX: usize = 1 << 20;

impl Replica {
    /// An agent introduces itself.
    pub fn on_hello(
        &mut self,
        session: SessionId,
        hello: &Hello,
        listening: Duration,
        actions: &mut Vec<Action>,
    ) {
        if !self.uplink.hears_leader(listening) {
            let reason = "no server leads, as far as this server knows: try again in a moment";
            return refuse(session, reason.to_owned(), true, actions);
        }
        let id = hello.node_id();
        let known = self.store.nodes().find(id).and_then(|slot| self.store.nodes().detail(slot));
        let known = known.map(|detail| detail.node.clone());
        if let Err((reason, retry)) = self.check_hello(hello, known.as_deref()) {
            return refuse(session, reason, retry, actions);
        }
        let introduces = known.is_none_or(|known| *known != hello.node).then(|| Box::new(hello.node.clone()));
        match self.agents.open(session, hello, introduces, heartbeat_every(&self.store), listening) {
            verdict @ (SessionOpening::Superseded | SessionOpening::Duplicate) => {
                let (reason, retry) = why_refused(&verdict, id);
                refuse(session, reason, retry, actions);
            }
            SessionOpening::Accepted(replaced) => {
                replaced.into_iter().for_each(|old| actions.push(Action::Close(old)));
                let mode = match self.usable_of(hello) {
                    Some(usable) => self.begin_with_checkpoint(hello, usable),
                    None => self.begin_reports(hello),
                };
                self.welcome(session, hello, mode, actions);
            }
        }
    }

    /// An agent's node is another than it said so far.
    pub fn on_node_redescribed(&mut self, session: SessionId, node: Node, listening: Duration) {
        if self.agents.node_of(session) == Some(node.id) {
            self.agents.redescribe(session, node);
            self.pass_descriptions_on(listening);
        }
    }

    /// Passes on what agents say of their nodes, as far as it is time.
    pub(super) fn pass_descriptions_on(&mut self, listening: Duration) {
        for node in self.agents.take_descriptions(listening) {
            let known = self.store.nodes().find(node.id).and_then(|slot| self.store.nodes().detail(slot));
            let known = known.map(|detail| detail.node.clone());
            self.agents.describe(node, known.as_deref());
        }
    }

    /// Whether an agent is who it says, of this cluster, and not ahead of this server; if not, why, and whether trying
    /// again can help.
    fn check_hello(&self, hello: &Hello, known: Option<&Node>) -> Result<(), (String, bool)> {
        let id = hello.node_id();
        if known.is_some_and(|known| known.secret_hash != hello.node.secret_hash) {
            let reason =
                format!("node {id} is known with another secret: give this agent its own data directory");
            return Err((reason, false));
        }
        let cluster = self.store.cluster();
        // An agent that came before the cluster had an id does not know it, and holds what it was sent all the same.
        let is_ours = [cluster.id, 0].contains(&hello.cluster);
        if is_ours && hello.index > self.store.index() {
            let (theirs, ours) = (hello.index, self.store.index());
            let reason = format!(
                "node {id} holds what was decided at index {theirs}, and this server has come to {ours}: try again in \
                 a moment, or another server"
            );
            return Err((reason, true));
        }
        if hello.cluster == 0 || hello.cluster == cluster.id || cluster.restored_from.contains(&hello.cluster)
        {
            return Ok(());
        }
        let reason = format!(
            "node {id} belongs to cluster {:032x}, this server to cluster {:032x}, which was not restored from it: \
             point the agent to its own servers, or give it an empty data directory to make it join this cluster",
            hello.cluster, cluster.id
        );
        Err((reason, false))
    }

    /// What an agent that is let in is to report.
    fn begin_reports(&mut self, hello: &Hello) -> WelcomeMode {
        let record = self.publication.record_of(hello.node_id()).copied().unwrap_or_default();
        let is_doubted = self.agents.take_doubt(hello.node_id());
        let is_whole = record.version.confirmed && !is_doubted && self.records_only_live(hello.node_id());
        let Some(agent) = self.agents.get_mut(hello.node_id()) else { return WelcomeMode::Full };
        let (epoch, seq) = (hello.epoch, hello.seq);
        let (mode, begin) = match () {
            () if is_whole && record.digest == hello.observed_digest && agent.reports.is_idle() => {
                (WelcomeMode::Equal, ReportScope::Equal)
            }
            () if is_whole && record.version.epoch == epoch && seq > record.version.seq => {
                (WelcomeMode::FromSeq(record.version.seq), ReportScope::Changes)
            }
            () => (WelcomeMode::Full, ReportScope::Full),
        };
        // What is to be reported yet is not in.
        let seq = match begin {
            ReportScope::Equal => seq,
            ReportScope::Changes => record.version.seq,
            ReportScope::Full => 0,
        };
        agent.reports.begin(epoch, seq, begin, record.version);
        self.agents.queue(hello.node_id());
        mode
    }

    /// What this server had kept of a node and its agent need not report again. Whatever is in memory is newer.
    fn usable_of(&self, hello: &Hello) -> Option<UsableCheckpoint> {
        let stored = hello.checkpoint.as_ref()?;
        let id = hello.node_id();
        let is_unknown = self.publication.record_of(id).is_none()
            && self.agents.get(id).is_some_and(|agent| agent.reports.is_idle());
        if is_unknown { stored.usable(&self.store, hello) } else { None }
    }

    /// What was kept counts as the agent's own report of everything, or as the part of it that the agent leaves out.
    fn begin_with_checkpoint(&mut self, hello: &Hello, usable: UsableCheckpoint) -> WelcomeMode {
        let (id, mode) = (hello.node_id(), usable.mode());
        let Some(agent) = self.agents.get_mut(id) else { return WelcomeMode::Full };
        agent.reports.begin(hello.epoch, 0, ReportScope::Full, ReportVersion::default());
        match usable {
            UsableCheckpoint::All(allocs) => self.take_in(id, hello.seq, allocs, true),
            UsableCheckpoint::Before(_, allocs) => agent.reports.begin_on(allocs),
        }
        mode
    }

    /// Whether all that is recorded of a node goes on by the applied state, which may be ahead of what is published. What
    /// has ended by it an agent may have dropped because another server said so, and would never name.
    fn records_only_live(&self, id: NodeId) -> bool {
        let mut recorded = self.publication.recorded_of(id).map(|(_, observation)| &observation.alloc);
        recorded.all(|alloc| alloc.hash == 0 || self.live_on(id, alloc.id).is_some())
    }

    fn welcome(&mut self, session: SessionId, hello: &Hello, mode: WelcomeMode, actions: &mut Vec<Action>) {
        let heartbeat_ms = milliseconds(heartbeat_every(&self.store));
        let cluster = self.store.cluster().id;
        let restored = hello.cluster != 0 && hello.cluster != cluster;
        actions.push(Action::Send(session, NodeMessage::Welcome { cluster, restored, mode, heartbeat_ms }));
        let Some(node) = self.store.nodes().find(hello.node_id()) else {
            // Nothing can be desired of it yet; should it hold anything, its heartbeats show it.
            return;
        };
        let desired = desired::of_node(&self.store, node);
        // What has changed so far is in it.
        if restored || desired.digest(&self.store, node, self.desired_hash) != hello.desired_digest {
            self.changes.all(node);
        }
    }

    /// An agent lives. What it holds is compared with what it should hold, so that a difference that was lost on the way
    /// is made up for.
    pub fn on_heartbeat(
        &mut self,
        session: SessionId,
        heartbeat: &Heartbeat,
        listening: Duration,
        actions: &mut Vec<Action>,
    ) {
        let Some(id) = self.agents.node_of(session) else { return };
        self.agents.heard(id, listening);
        // Answered, so that an agent knows a link that swallows what it is sent.
        let delay_ms = self.reported.delay_ms(listening);
        actions.push(Action::Send(session, NodeMessage::Ack { seq: heartbeat.seq, delay_ms }));
        self.tell_heartbeat(session, actions);
        if self.on_acknowledged(session, heartbeat.desired_seq, listening) != HeartbeatStatus::UpToDate {
            return;
        }
        let node = self.store.nodes().find(id);
        if let Some(node) = node.filter(|node| self.changes.is_informed(*node)) {
            let desired = desired::of_node(&self.store, node);
            if desired.digest(&self.store, node, self.desired_hash) != heartbeat.desired_digest {
                self.changes.all(node);
            }
        }
        self.compare_observed(session, id, heartbeat);
    }

    /// An agent that holds something else than it has reported, or goes on without what it owes, and keeps on doing so, reports
    /// everything again. It may have taken the welcome of an earlier hello on the same connection for this session's.
    fn compare_observed(&mut self, session: SessionId, id: NodeId, heartbeat: &Heartbeat) {
        let record = self.publication.record_of(id).copied().unwrap_or_default();
        let has_reported = self.agents.take_has_reported(session);
        let Some(agent) = self.agents.get_mut(id) else { return };
        let version = agent.reports.version();
        // Whoever has parts of it left to report has come less far with its reports than with its changes.
        let is_going_on = has_reported && version.seq < heartbeat.seq;
        let is_stuck = agent.reports.owes_reports() && !is_going_on;
        // While something is on its way nothing can be compared.
        let is_still = agent.reports.is_recorded() && version.seq == heartbeat.seq;
        let is_equal = record.digest == heartbeat.observed_digest;
        if is_still
            && is_equal
            && let Some(collected) = agent.reports.holds_no_leftovers()
        {
            if let Some(node) = self.store.nodes().find(id) {
                collected.into_iter().for_each(|alloc| self.changes.purge(node, alloc));
            }
            return self.agents.queue(id);
        }
        // What it was instructed to forget it holds until it has heard so.
        let is_informed = self.store.nodes().find(id).is_none_or(|node| self.changes.is_informed(node));
        let held = agent.reports.held(record.digest).filter(|_| is_still && is_informed);
        let is_as_reported = |held| held == heartbeat.observed_digest && record.version == version;
        let differs = held.is_some_and(|held| !is_as_reported(held));
        if !self.agents.holds_what_it_reported(session, differs || is_stuck) {
            self.agents.doubt(id);
            self.closing.push(session);
        }
    }

    fn on_acknowledged(&mut self, session: SessionId, seq: u64, listening: Duration) -> HeartbeatStatus {
        let status = self.agents.acknowledged(session, seq, listening);
        if status == HeartbeatStatus::Deaf {
            self.closing.push(session);
        }
        status
    }

    /// What an agent was given as an interval when it came may be too often by now: the cluster has grown.
    fn tell_heartbeat(&mut self, session: SessionId, actions: &mut Vec<Action>) {
        let unreported =
            self.agents.heartbeat_change(session, heartbeat_every(&self.store)).map(milliseconds);
        actions.extend(
            unreported
                .map(|heartbeat_ms| Action::Send(session, NodeMessage::HeartbeatEvery { heartbeat_ms })),
        );
    }

    /// An agent reported what it observed.
    pub fn on_observed(&mut self, update: AgentReport, listening: Duration, actions: &mut Vec<Action>) {
        let AgentReport { session, seq, desired_seq, allocs, resync_done } = update;
        let Some(id) = self.agents.node_of(session) else { return };
        self.agents.heard(id, listening);
        self.agents.note_report(session);
        let delay_ms = self.reported.take_in(allocs.len(), listening);
        self.take_in(id, seq, allocs, resync_done);
        actions.push(Action::Send(session, NodeMessage::Ack { seq, delay_ms }));
        self.tell_heartbeat(session, actions);
        self.on_acknowledged(session, desired_seq, listening);
    }

    /// Takes in a report up to the change `seq`; with `resync_done` nothing is left to be reported.
    fn take_in(&mut self, id: NodeId, seq: u64, mut allocs: Vec<Arc<ObservedAlloc>>, resync_done: bool) {
        let node = self.store.nodes().find(id);
        if let Some(agent) = self.agents.get_mut(id) {
            agent.reports.names(allocs.iter().map(|alloc| alloc.id));
            if resync_done {
                let stored = agent.reports.take_stored();
                agent.reports.names(stored.iter().map(|alloc| alloc.id));
                allocs.extend(stored);
            }
        }
        let (mut found, mut others) = (Vec::with_capacity(allocs.len()), Vec::new());
        // Each is looked up once: at millions of allocations that is the dearest thing done here.
        for alloc in allocs {
            match self.live_on(id, alloc.id) {
                Some((slot, row)) => found.push(self.of_its_group(slot, &row, alloc)),
                None => others.push((alloc.id, (!alloc.status.is_terminal()).then_some(alloc.hash))),
            }
        }
        let Some(agent) = self.agents.get_mut(id) else { return };
        agent.reports.observed(found);
        for (alloc, runs) in others {
            if let Some(hash) = runs {
                agent.reports.leftover_runs(alloc, hash);
                continue;
            }
            let collected = agent.reports.leftover_ended(alloc);
            match node {
                Some(node) if collected => self.changes.purge(node, alloc),
                Some(node) => self.changes.forget(node, alloc),
                None => {}
            }
        }
        if let Some(named) = agent.reports.reported(seq, resync_done) {
            let collected = agent.reports.keep_leftovers(&named);
            if let Some(node) = node {
                collected.into_iter().for_each(|alloc| self.changes.purge(node, alloc));
            }
            self.drop_unnamed(id, &named);
        }
        self.agents.queue(id);
    }

    /// An agent has reported everything: what it did not name it does not hold, whatever was recorded of it before.
    fn drop_unnamed(&mut self, id: NodeId, named: &BTreeSet<AllocId>) {
        let Some((_, row)) = self.store.node(id) else { return };
        let observed = self.publication.observed();
        let Some(agent) = self.agents.get(id) else { return };
        let on_their_way: BTreeSet<AllocId> =
            agent.reports.all_on_their_way().map(|seen| seen.alloc.id).collect();
        let live =
            self.store.nodes().live(row).filter_map(|slot| Some((slot, self.store.allocs().row(slot)?.id)));
        let is_known = |slot: AllocSlot, id: AllocId| {
            let recorded = observed.get(slot, id).is_some_and(|observation| observation.alloc.hash != 0);
            recorded || on_their_way.contains(&id)
        };
        let unnamed = live.filter(|(slot, id)| !named.contains(id) && is_known(*slot, *id));
        let unnamed: Vec<ReportedAlloc> =
            unnamed.map(|(slot, id)| ReportedAlloc::nothing(slot, id)).collect();
        if let Some(agent) = self.agents.get_mut(id) {
            agent.reports.observed(unnamed);
        }
    }

    /// A session's connection is gone; its node is not declared down before it has been silent for too long.
    pub fn on_session_closed(&mut self, session: SessionId) {
        self.agents.close(session);
    }

    /// An observation of the tasks that the allocation's group has: an agent cannot make up others.
    fn of_its_group(&self, slot: AllocSlot, row: &AllocRow, mut alloc: Arc<ObservedAlloc>) -> ReportedAlloc {
        let Some((_, group)) = self.store.job_of(row) else { return ReportedAlloc::new(slot, alloc) };
        let is_known = |name: &str| group.tasks.iter().any(|task| task.name == name);
        let made_up = alloc.tasks.len() > group.tasks.len() || !alloc.tasks.iter().all(|t| is_known(&t.name));
        if made_up {
            let tasks = &mut Arc::make_mut(&mut alloc).tasks;
            tasks.retain(|task| is_known(&task.name));
            tasks.truncate(group.tasks.len());
            // What is left out takes no memory either: observations are kept.
            tasks.shrink_to_fit();
        }
        let seen = ReportedAlloc::new(slot, alloc);
        if seen.bytes() <= SEEN_BYTES_MAX {
            return seen;
        }
        let mut alloc = seen.alloc;
        Arc::make_mut(&mut alloc).tasks.iter_mut().for_each(|task| task.events.clear());
        ReportedAlloc::new(slot, alloc)
    }

    /// An allocation that is in the state, on this node, and has not ended. An agent speaks for its own node alone.
    fn live_on(&self, node: NodeId, alloc: AllocId) -> Option<(AllocSlot, AllocRow)> {
        let (slot, row) = self.store.alloc(alloc)?;
        let owner = self.store.nodes().row(row.node)?;
        (owner.id == node && !row.is_terminal()).then_some((slot, *row))
    }
}

/// What an agent reports.
pub(crate) struct AgentReport {
    pub session: SessionId,
    /// Of the agent's last change.
    pub seq: u64,
    /// The last message of desired state that it has taken in.
    pub desired_seq: u64,
    pub allocs: Vec<Arc<ObservedAlloc>>,
    /// All that a welcome asked for has been reported.
    pub resync_done: bool,
}

/// Why an agent of a node is turned away, and whether trying again can help.
pub(crate) fn why_refused(verdict: &SessionOpening, node: NodeId) -> (String, bool) {
    match verdict {
        SessionOpening::Superseded => {
            (format!("a newer start of the agent of node {node} is connected"), false)
        }
        SessionOpening::Duplicate | SessionOpening::Accepted(_) => {
            let reason = format!(
                "another agent with the identity of node {node} is connected: if this agent's data directory is a \
                 copy, give it one of its own"
            );
            (reason, true)
        }
    }
}

/// Turns an agent away.
pub(crate) fn refuse(session: SessionId, reason: String, retry: bool, actions: &mut Vec<Action>) {
    actions.push(Action::Send(session, NodeMessage::Refused { reason, retry }));
    actions.push(Action::Close(session));
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
