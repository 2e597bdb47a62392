//! Applying what becomes of nodes.

use std::sync::Arc;

use super::{AllocSlot, NodeSlot, Store, rules::Rules};
use crate::{
    command::{Outcome, Refusal},
    event::{NodeChange, StateChange},
    ids::{Index, NodeId},
    node::{Node, NodeEvent, NodeEventKind, NodeStatus},
    store::nodes::NodeRecord,
};

impl Store {
    pub(super) fn register_node(&mut self, node: Node, rules: Rules, events: &mut Vec<StateChange>) {
        let (index, at) = (self.index, self.at);
        let registered = self.node_event(NodeEventKind::Registered, rules);
        let slot = match (self.nodes.find(node.id), self.nodes.find_purged(node.id)) {
            (Some(slot), _) => {
                self.nodes.update(slot, index, |row, detail| {
                    row.capacity = node.capacity();
                    detail.node = Arc::new(node);
                });
                slot
            }
            (None, Some(purged)) => {
                self.nodes.revive(purged, Arc::new(node), (index, at), registered);
                purged
            }
            (None, None) => self.nodes.insert(NodeRecord {
                node: Arc::new(node),
                status: NodeStatus::Initializing,
                eligible: true,
                create_index: index,
                modify_index: index,
                status_at: at,
                purged: false,
                drain: None,
                events: registered.map(|event| Arc::new(vec![event])),
            }),
        };
        events.push(StateChange::NodeRegistered(slot));
    }

    /// What a node keeps of a change, if it keeps events.
    pub(super) fn node_event(
        &self,
        kind: impl Into<Option<NodeEventKind>>,
        rules: Rules,
    ) -> Option<NodeEvent> {
        let kind = kind.into().filter(|_| rules.node_events_kept())?;
        Some(NodeEvent { kind, at: self.at, index: self.index })
    }

    pub(super) fn set_node_status(
        &mut self,
        id: NodeId,
        status: NodeStatus,
        decided_on: Option<Index>,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        let slot = self.nodes.find(id).ok_or(Refusal::NoNode(id))?;
        // What its agent had confirmed was compared with another state.
        if status == NodeStatus::Ready && decided_on.is_some_and(|index| index < self.restored_at) {
            return Err(Refusal::Restored);
        }
        let is_overtaken = |index| rules.losses_void_confirmations() && self.has_lost_since(slot, index);
        if status == NodeStatus::Ready && decided_on.is_some_and(is_overtaken) {
            return Err(Refusal::LostMeanwhile(id));
        }
        let at = self.at;
        let before = self.nodes.row(slot).map(|row| row.status);
        let event = self.node_event(before.and_then(|before| status_event(before, status)), rules);
        self.nodes.update(slot, self.index, |row, detail| {
            row.status = status;
            detail.status_at = at;
            detail.note(event);
        });
        events.push(StateChange::NodeChanged(slot, NodeChange::Status));
        if before != Some(status) && [before, Some(status)].contains(&Some(NodeStatus::Disconnected)) {
            self.touch_allocs_on(slot, events);
        }
        Ok(())
    }

    /// Whether a node is silent still, and something there was declared lost after this index.
    fn has_lost_since(&self, node: NodeSlot, index: Index) -> bool {
        let Some(row) = self.nodes.row(node).filter(|row| row.status.is_silent()) else { return false };
        self.nodes.ended(row).any(|slot| {
            let is_later = self.allocs.row(slot).is_some_and(|alloc| alloc.modify_index > index);
            is_later && self.was_declared_lost(slot)
        })
    }

    /// What a node's allocations are said to be depends on whether it is disconnected: they have changed with it.
    fn touch_allocs_on(&mut self, node: NodeSlot, events: &mut Vec<StateChange>) {
        let live: Vec<AllocSlot> =
            self.nodes.row(node).map(|row| self.nodes.live(row).collect()).unwrap_or_default();
        for slot in live {
            let Some(job) = self.allocs.row(slot).map(|row| row.job) else { continue };
            self.allocs.update(slot, self.index, self.at, |_, _| ());
            self.jobs.alloc_changed(job, self.index);
            events.push(StateChange::AllocNodeChanged(slot));
        }
    }

    pub(super) fn set_node_eligibility(
        &mut self,
        id: NodeId,
        eligible: bool,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        let slot = self.nodes.find(id).ok_or(Refusal::NoNode(id))?;
        let is_drained = || self.nodes.detail(slot).is_some_and(|detail| detail.draining().is_some());
        if eligible && rules.drained_nodes_stay_closed() && is_drained() {
            return Err(Refusal::NodeDrained(id));
        }
        let before = self.nodes.row(slot).map(|row| row.eligible);
        let kind = if eligible { NodeEventKind::Eligible } else { NodeEventKind::Ineligible };
        let event = self.node_event(Some(kind).filter(|_| before != Some(eligible)), rules);
        self.nodes.update(slot, self.index, |row, detail| {
            row.eligible = eligible;
            detail.note(event);
        });
        events.push(StateChange::NodeChanged(slot, NodeChange::Eligibility));
        Ok(())
    }
}

/// What a change of its status is to a node. One that initializes has just registered, or its servers were restored.
fn status_event(before: NodeStatus, status: NodeStatus) -> Option<NodeEventKind> {
    match status {
        _ if before == status => None,
        NodeStatus::Down => Some(NodeEventKind::Down),
        NodeStatus::Disconnected => Some(NodeEventKind::Disconnected),
        NodeStatus::Ready if before.is_silent() => Some(NodeEventKind::Returned),
        NodeStatus::Ready | NodeStatus::Initializing => None,
    }
}
