//! What every server does, whether it leads or not: it keeps the applied state and what is observed, publishes both for
//! readers, and speaks with the agents that dialed it.

mod agents;
mod desired;
mod sessions;

pub(crate) use desired::stop_reason;
pub(crate) use sessions::{Report, Update, refuse};

use std::time::Duration;

use berth_model::{
    AllocId, Index, NodeId,
    event::{Applied, Event as Change},
    node::NodeStatus,
    observed::Observed,
    store::{AllocSlot, NodeSlot, Store},
};

use crate::{
    action::{Action, Desired, ToNode},
    event::SessionId,
    observing::Batch,
};
use agents::Agents;
use desired::{Changes, Lists};

/// Which agents' connections can take more.
pub trait Links {
    /// Whether a message to this session would be on its way soon, instead of waiting behind many others.
    fn has_room(&self, session: SessionId) -> bool;
}

/// The state machine of a server, whether it leads or not.
#[derive(Debug)]
pub(crate) struct Replica {
    store: Store,
    observed: Observed,
    agents: Agents,
    changes: Changes,
    /// Of the leader whose entries were applied last.
    term: u64,
    /// The hash of one allocation's desired state, as agents compute it.
    desired_hash: fn(AllocId, bool) -> u128,
    /// Applied or observed, and not published yet.
    logged: Vec<(Index, Vec<Change>)>,
    seen: Vec<(Index, Vec<(AllocSlot, AllocId)>)>,
    /// Sessions that are to be closed.
    closing: Vec<SessionId>,
    /// The index and the number of unconfirmed nodes that were published last.
    published: (Index, usize),
}

impl Replica {
    /// A replica that knows nothing yet.
    pub fn new(desired_hash: fn(AllocId, bool) -> u128) -> Self {
        Self {
            store: Store::default(),
            observed: Observed::default(),
            agents: Agents::default(),
            changes: Changes::default(),
            term: 0,
            desired_hash,
            logged: Vec::new(),
            seen: Vec::new(),
            closing: Vec::new(),
            published: (Index::default(), 0),
        }
    }

    /// The applied state.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What agents observe.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Whether the agent of a node has reported all that runs there, and nothing does that should not.
    pub fn is_confirmed(&self, node: NodeId) -> bool {
        self.agents.is_confirmed(node)
    }

    /// Begins with what the log and its snapshot hold.
    pub fn recover(&mut self, store: Store) {
        self.store = store;
        self.count_nodes();
    }

    /// A leader begins at this index, which is above all that were ever published. Until agents report, what runs is
    /// not known: that is a change too, published here.
    pub fn leader_began(&mut self, term: u64, index: Index) {
        self.term = term;
        self.observed.begin(index);
        self.logged.push((index, Vec::new()));
    }

    /// Takes in entries that were applied.
    pub fn on_applied(&mut self, store: Store, applied: &[Applied]) {
        self.store = store;
        for Applied { index, events, .. } in applied {
            events.iter().for_each(|change| self.on_change(change));
            self.logged.push((*index, events.clone()));
        }
    }

    fn on_change(&mut self, change: &Change) {
        match change {
            Change::AllocPlaced(slot) | Change::AllocStopped(slot) => {
                if let Some(row) = self.store.allocs().row(*slot) {
                    self.changes.alloc(row.node, *slot);
                }
            }
            Change::AllocEnded(slot) => self.on_alloc_ended(*slot),
            Change::AllocCollected(slot, id, node) => {
                self.observed.forget(*slot, *id);
                let runs = self.agents.get_mut(*node).is_some_and(|agent| agent.collected(*id));
                if let Some(node) = self.store.nodes().find(*node).filter(|_| !runs) {
                    self.changes.purge(node, *id);
                }
            }
            Change::JobCollected(_, key) => self.observed.forget_job(key),
            Change::NodeRegistered(slot) | Change::NodeChanged(slot) => self.on_node_changed(*slot),
            Change::NodeCollected(slot, id) => {
                self.closing.extend(self.agents.session_of(*id));
                self.agents.remove(*id);
                self.changes.clear(*slot);
            }
            Change::Restored => self.on_restored(),
            _ => {}
        }
    }

    fn on_alloc_ended(&mut self, slot: AllocSlot) {
        let Some(row) = self.store.allocs().row(slot).copied() else { return };
        if let Some(job) = self.store.jobs().row(row.job) {
            self.observed.end(slot, row.id, &job.key, row.group);
        }
        let node = self.store.nodes().row(row.node).map(|node| node.id);
        let agent = node.and_then(|node| self.agents.get_mut(node));
        match agent.map(|agent| agent.ended(row.id)) {
            Some(Some(true)) => self.changes.forget(row.node, row.id),
            // It was declared lost, and may run: what is desired does not name it any more, so that the agent ends it.
            Some(_) => {
                self.changes.all(row.node);
                self.count_node(row.node);
            }
            None => {}
        }
    }

    fn on_node_changed(&mut self, slot: NodeSlot) {
        let Some(row) = self.store.nodes().row(slot) else { return };
        let (id, up) = (row.id, row.status != NodeStatus::Down);
        if !up {
            // An agent that is heard again must report everything anew.
            self.agents.lost(id);
            self.closing.extend(self.agents.session_of(id));
        }
        self.agents.count(id, up);
    }

    fn count_node(&mut self, slot: NodeSlot) {
        if let Some(row) = self.store.nodes().row(slot) {
            self.agents.count(row.id, row.status != NodeStatus::Down);
        }
    }

    /// Another state has taken the place of this one: agents come again and report what they have.
    fn on_restored(&mut self) {
        self.closing.extend(self.agents.sessions());
        self.agents = Agents::default();
        self.changes = Changes::default();
        let began = self.observed.index().max(self.store.index());
        self.observed = Observed::default();
        self.observed.begin(began);
        // Changes of the state before speak of slots that are others now; their indexes are published all the same.
        self.logged.iter_mut().for_each(|(_, changes)| changes.clear());
        self.seen.clear();
        self.count_nodes();
    }

    fn count_nodes(&mut self) {
        let nodes: Vec<NodeSlot> = self.store.nodes().iter().map(|(slot, _)| slot).collect();
        nodes.into_iter().for_each(|slot| self.count_node(slot));
    }

    /// Takes in what the leader has given a place in the one order of changes.
    pub fn on_observed_batch(&mut self, batch: Batch) {
        let Batch { index, seen } = batch;
        let Self { store, observed, .. } = self;
        let recorded = seen.into_iter().filter_map(|(slot, alloc)| {
            let id = alloc.id;
            let row = store.allocs().row(slot).filter(|row| row.id == id)?;
            if row.is_terminal() && index > row.modify_index {
                // The log has told of its end: nothing that comes later has an index any more.
                return None;
            }
            let job = store.jobs().row(row.job)?;
            observed.record(slot, &job.key, row.group, alloc, index);
            if row.is_terminal() {
                observed.end(slot, id, &job.key, row.group);
            }
            Some((slot, id))
        });
        let recorded: Vec<_> = recorded.collect();
        if !recorded.is_empty() {
            self.seen.push((index, recorded));
        }
    }

    /// Lets readers see what has changed.
    pub fn publish(&mut self, actions: &mut Vec<Action>) {
        let (logged, seen) = (std::mem::take(&mut self.logged), std::mem::take(&mut self.seen));
        let last = |index: Option<Index>| index.unwrap_or_default();
        let last = last(logged.last().map(|(i, _)| *i)).max(last(seen.last().map(|(i, _)| *i)));
        let (index, unconfirmed_nodes) = (self.published.0.max(last), self.agents.unconfirmed());
        // Before the first leader begins, nobody knows which index a recovered state may be read at.
        if self.published == (index, unconfirmed_nodes) || index == Index::default() {
            return;
        }
        self.published = (index, unconfirmed_nodes);
        let (store, observed) = (self.store.clone(), self.observed.clone());
        actions.push(Action::Publish { store, observed, index, logged, seen, unconfirmed_nodes });
    }

    /// Closes the session of a node, whose agent then introduces itself again.
    pub fn close_session_of(&mut self, node: NodeId) {
        self.closing.extend(self.agents.session_of(node));
    }

    /// Tells agents what has changed for them, as far as their connections can take it, and closes sessions.
    pub fn tell_agents(&mut self, links: &dyn Links, listening: Duration, actions: &mut Vec<Action>) {
        for session in std::mem::take(&mut self.closing) {
            actions.push(Action::Close(session));
            self.agents.close(session);
        }
        let Self { store, agents, changes, .. } = self;
        let session_of = |node: NodeSlot| agents.session_of(store.nodes().row(node)?.id);
        // Without a session there is nobody to tell: whoever comes is told everything.
        let is_ready = |node| session_of(node).is_none_or(|session| links.has_room(session));
        for (node, full, lists) in changes.take(store, is_ready) {
            self.send_desired(node, full, lists, listening, actions);
        }
    }

    fn send_desired(
        &mut self,
        node: NodeSlot,
        full: bool,
        lists: Lists,
        listening: Duration,
        actions: &mut Vec<Action>,
    ) {
        let Lists { run, stop, forget, purge } = lists;
        if !full && run.is_empty() && stop.is_empty() && forget.is_empty() && purge.is_empty() {
            return;
        }
        let Some(node) = self.store.nodes().row(node).map(|row| row.id) else { return };
        let Some(session) = self.agents.session_of(node) else { return };
        let Some(seq) = self.agents.sent(session, listening) else { return };
        let (term, store) = (self.term, self.store.clone());
        let desired = Desired { node, term, store, seq, full, run, stop, forget, purge };
        actions.push(Action::Send(session, ToNode::Desired(Box::new(desired))));
    }
}
