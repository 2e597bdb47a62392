//! What every server does, whether it leads or not: it keeps the applied state and what is observed, publishes both for
//! readers, speaks with the agents that dialed it, and informs the leader of them.

mod agents;
mod desired;
mod publication;
mod report_rate;
mod reports;
mod sessions;
mod uplink;

pub(crate) use agents::rivals;
pub(crate) use desired::stop_reason;
pub(crate) use publication::Publication;
pub(crate) use sessions::{AgentReport, why_refused};
pub(crate) use uplink::parts_of;

use std::{sync::Arc, time::Duration};

use berth_model::{
    AllocId,
    event::{AppliedEntry, StateChange},
    observed::Observed,
    store::{AllocSlot, NodeSlot, Store},
};

use crate::{
    action::{Action, DesiredState, NodeMessage},
    event::SessionId,
    messages::{ObservationBatch, ServerId},
};
use agents::Agents;
use desired::{DesiredChange, DesiredChanges};
use publication::{EndedAlloc, NextPublication};
use report_rate::ReportRate;
use uplink::Uplink;

/// Which connections can take more.
pub trait LinkCapacity {
    /// Whether a message to this session would be on its way soon, instead of waiting behind many others.
    fn can_send(&self, session: SessionId) -> bool;

    /// Whether a message to this server would be.
    fn can_send_to_server(&self, _server: ServerId) -> bool {
        true
    }
}

/// The state machine of a server, whether it leads or not.
#[derive(Debug)]
pub(crate) struct Replica {
    /// The applied state, shared with the messages about it.
    store: Arc<Store>,
    /// What readers see of it, and what is observed.
    publication: Publication,
    agents: Agents,
    /// How much of late.
    reported: ReportRate,
    changes: DesiredChanges,
    uplink: Uplink,
    /// Of the entry that was applied last.
    term: u64,
    /// The hash of one allocation's desired state, as agents compute it.
    desired_hash: fn(AllocId, Option<u64>) -> u128,
    /// Sessions that are to be closed.
    closing: Vec<SessionId>,
}

impl Replica {
    /// A replica that knows nothing yet.
    pub fn new(desired_hash: fn(AllocId, Option<u64>) -> u128) -> Self {
        Self {
            store: Arc::default(),
            publication: Publication::default(),
            agents: Agents::default(),
            reported: ReportRate::default(),
            changes: DesiredChanges::default(),
            uplink: Uplink::default(),
            term: 0,
            desired_hash,
            closing: Vec::new(),
        }
    }

    /// The applied state.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What is published, and what of it was observed.
    pub fn publication(&self) -> &Publication {
        &self.publication
    }

    /// Whether readers see everything that has been applied.
    pub fn is_all_readable(&self) -> bool {
        self.publication.readable() == self.store.index()
    }

    /// What agents observe.
    pub fn observed(&self) -> &Observed {
        self.publication.observed()
    }

    /// Begins with what the log and its snapshot hold.
    pub fn recover(&mut self, term: u64, store: Store) {
        self.term = term;
        // The leader is sent again what is recorded here, which is nothing.
        self.detach();
        self.publication.recover(store.clone());
        self.closing.extend(self.agents.sessions());
        self.agents.clear();
        self.changes = DesiredChanges::default();
        self.store = Arc::new(store);
    }

    /// Entries were applied: this is the state after them. They are reported by [`Self::on_applied`].
    pub fn advance(&mut self, term: u64, store: Store, applied: &[AppliedEntry]) {
        let mut changes = applied.iter().flat_map(|applied| &applied.events);
        for change in changes.clone() {
            if let StateChange::AllocEnded(slot) = change {
                self.note_leftover(*slot);
            }
        }
        (self.term, self.store) = (term, Arc::new(store));
        if changes.any(|change| *change == StateChange::Restored) {
            // Agents come again and report what they have.
            self.closing.extend(self.agents.sessions());
            self.agents.clear();
            self.changes = DesiredChanges::default();
            self.publication.on_restored(&self.store);
        }
    }

    /// Takes in entries that were applied.
    pub fn on_applied(&mut self, applied: Vec<AppliedEntry>) {
        for change in applied.iter().flat_map(|applied| &applied.events) {
            // Agents are informed at once, whatever readers see.
            match change {
                StateChange::AllocPlaced(slot)
                | StateChange::AllocUpdated(slot, _)
                | StateChange::AllocStopped(slot) => {
                    if let Some(row) = self.store.allocs().row(*slot) {
                        self.changes.alloc(row.node, *slot);
                    }
                }
                StateChange::AllocEnded(slot) => self.on_alloc_lost(*slot),
                StateChange::NodeRegistered(slot) => {
                    self.on_node_registered(*slot);
                    self.on_node_changed(*slot);
                }
                StateChange::NodeChanged(slot, _) => self.on_node_changed(*slot),
                _ => {}
            }
        }
        self.publication.on_applied(&self.store, applied);
    }

    /// Publishes what may be, in the order of indexes. Returns what agents reported that can be read from now on.
    pub fn publish(&mut self, listening: Duration, actions: &mut Vec<Action>) -> Vec<Arc<ObservationBatch>> {
        let mut recorded = Vec::new();
        while let Some(next) = self.publication.next(self.store.index(), listening) {
            match next {
                NextPublication::Entry(changes, gone) => {
                    gone.into_iter().for_each(|ended| self.on_alloc_ended(ended));
                    changes.iter().for_each(|change| self.on_change(change));
                    self.publication.published(changes);
                }
                NextPublication::Batch(batch) => {
                    self.publication.record(&batch);
                    batch.reports.iter().for_each(|report| self.agents.recorded(report));
                    recorded.push(batch);
                }
            }
        }
        self.publication.publish(actions);
        recorded
    }

    fn on_change(&mut self, change: &StateChange) {
        self.publication.on_change(change);
        match change {
            StateChange::AllocEnded(slot) => {
                let ended = self.publication.on_alloc_ended(*slot);
                ended.into_iter().for_each(|ended| self.on_alloc_ended(ended));
            }
            StateChange::AllocCollected(_, id, node) => {
                let runs = self.agents.get_mut(*node).is_some_and(|agent| agent.reports.collected(*id));
                if let Some(node) = self.store.nodes().find(*node).filter(|_| !runs) {
                    self.changes.purge(node, *id);
                }
            }
            StateChange::NodeChanged(slot, _) => {
                let row = self.publication.store().nodes().row(*slot);
                let lost = row.filter(|row| row.status.is_silent()).map(|row| row.id);
                lost.into_iter().for_each(|id| self.publication.on_node_lost(id));
            }
            StateChange::NodeCollected(slot, id) => {
                self.closing.extend(self.agents.session_of(*id));
                self.agents.remove(*id);
                self.changes.clear(*slot);
            }
            _ => {}
        }
    }

    /// An allocation ends that goes on by the state so far. Counted when the end is applied and not when it is published:
    /// from then on whatever the agent says of it is said of a leftover.
    fn note_leftover(&mut self, slot: AllocSlot) {
        let Some(row) = self.store.allocs().row(slot).filter(|row| !row.is_terminal()) else { return };
        let Some(node) = self.store.nodes().row(row.node).map(|node| node.id) else { return };
        let Some(agent) = self.agents.get_mut(node) else { return };
        let on_its_way = agent.reports.on_its_way(row.id).map(|seen| &seen.alloc);
        let recorded = || self.publication.observed().get(slot, row.id).map(|observation| &observation.alloc);
        let seen = on_its_way.or_else(recorded);
        // What nobody reports of is none of the agent's.
        if let Some(seen) = seen.filter(|seen| seen.hash != 0 && !seen.status.is_terminal()) {
            agent.reports.leftover_runs(row.id, seen.hash);
            self.agents.queue(node);
        }
    }

    /// The leader takes no confirmation for good that is of before something on the node was declared lost.
    fn on_alloc_lost(&mut self, slot: AllocSlot) {
        if !self.store.was_declared_lost(slot) {
            return;
        }
        let node = self.store.allocs().row(slot).and_then(|row| self.store.nodes().row(row.node));
        let Some(node) = node.map(|node| node.id) else { return };
        if let Some(agent) = self.agents.get_mut(node) {
            agent.reports.confirm_again();
            self.agents.queue(node);
        }
    }

    fn on_alloc_ended(&mut self, ended: EndedAlloc) {
        let EndedAlloc { id, node, node_id, seen } = ended;
        let Some(agent) = node_id.and_then(|node| self.agents.get_mut(node)) else { return };
        let seen = agent.reports.on_its_way(id).map(|seen| seen.alloc.clone()).or(seen);
        agent.reports.forget(id);
        if seen.is_some_and(|seen| seen.hash != 0 && seen.status.is_terminal()) {
            self.changes.forget(node, id);
        } else {
            // It was declared lost, and may run: what is desired does not name it any more, so that the agent ends it.
            self.changes.all(node);
        }
    }

    fn on_node_registered(&mut self, slot: NodeSlot) {
        if let Some(detail) = self.store.nodes().detail(slot) {
            self.agents.introduced(&detail.node);
        }
    }

    fn on_node_changed(&mut self, slot: NodeSlot) {
        let Some(row) = self.store.nodes().row(slot) else { return };
        let (id, is_silent) = (row.id, row.status.is_silent());
        if is_silent {
            // An agent that is heard again must report everything again.
            self.agents.get_mut(id).into_iter().for_each(|agent| agent.reports.lost());
            self.closing.extend(self.agents.session_of(id));
        }
    }

    /// Tells agents what has changed for them, as far as their connections can take it, and closes sessions.
    pub fn send_to_agents(
        &mut self,
        links: &dyn LinkCapacity,
        listening: Duration,
        actions: &mut Vec<Action>,
    ) {
        for session in std::mem::take(&mut self.closing) {
            actions.push(Action::Close(session));
            self.agents.close(session);
        }
        let Self { store, agents, changes, .. } = self;
        let session_of = |node: NodeSlot| agents.session_of(store.nodes().row(node)?.id);
        // Without a session there is nobody to inform: an agent that comes is sent everything.
        let is_ready = |node| session_of(node).is_none_or(|session| links.can_send(session));
        for (node, full, lists) in changes.take(store, is_ready) {
            self.send_desired(node, full, lists, listening, actions);
        }
    }

    fn send_desired(
        &mut self,
        node: NodeSlot,
        full: bool,
        lists: DesiredChange,
        listening: Duration,
        actions: &mut Vec<Action>,
    ) {
        let DesiredChange { run, stop, forget, purge } = lists;
        if !full && run.is_empty() && stop.is_empty() && forget.is_empty() && purge.is_empty() {
            return;
        }
        let Some(node) = self.store.nodes().row(node).map(|row| row.id) else { return };
        let Some(session) = self.agents.session_of(node) else { return };
        let Some(seq) = self.agents.sent(session, listening) else { return };
        let (term, store) = (self.term, self.store.clone());
        let desired = DesiredState { node, term, store, seq, full, run, stop, forget, purge };
        actions.push(Action::Send(session, NodeMessage::Desired(Box::new(desired))));
    }
}
