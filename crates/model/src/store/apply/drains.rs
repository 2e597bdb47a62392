//! Applying what empties nodes.

use std::sync::Arc;

use super::{AllocSlot, Store, rules::Rules};
use crate::{
    alloc::{Departure, MigrateAlloc},
    command::{DrainNode, NewDrain, Outcome, Refusal},
    event::{NodeChange, StateChange},
    ids::NodeId,
    node::{Drain, DrainStatus, LastDrain, NodeEventKind},
    time::Timestamp,
};

impl Store {
    /// Begins a drain, changes the one that goes on, or calls it off.
    pub(super) fn drain_node(
        &mut self,
        asked: DrainNode,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        let DrainNode { node, drain, eligible, meta } = asked;
        let slot = self.nodes.find(node).ok_or(Refusal::NoNode(node))?;
        let before = self.nodes.detail(slot).and_then(|detail| detail.drain.clone());
        let begun_at = before.as_ref().and_then(|before| Some(before.drain.as_ref()?.started_at));
        let at = self.at;
        let last = match (drain, before, begun_at) {
            (Some(NewDrain { deadline, ignore_system, requested_ns }), ..) => {
                let started_at = begun_at.unwrap_or(at);
                let drain = Some(Drain { started_at, deadline, ignore_system, requested_ns });
                let status = DrainStatus::Draining;
                Some(Arc::new(LastDrain { drain, started_at, updated_at: at, status, meta }))
            }
            (None, Some(before), Some(_)) => {
                let meta = if meta.is_empty() { before.meta.clone() } else { meta };
                let (drain, status) = (None, DrainStatus::Canceled);
                Some(Arc::new(LastDrain { drain, updated_at: at, status, meta, ..(*before).clone() }))
            }
            (None, before, _) => before,
        };
        let kind = match (drain, begun_at) {
            (Some(_), None) => Some(NodeEventKind::DrainBegun),
            (Some(_), Some(_)) => Some(NodeEventKind::DrainChanged),
            (None, Some(_)) => Some(NodeEventKind::DrainCanceled),
            (None, None) => None,
        };
        let event = self.node_event(kind, rules);
        self.nodes.update(slot, self.index, |row, detail| {
            // A drain that is called off leaves the node closed unless somebody opens it.
            row.eligible = drain.is_none() && (eligible || row.eligible);
            detail.drain = last;
            detail.note(event);
        });
        events.push(StateChange::NodeChanged(slot, NodeChange::Drain));
        if drain.is_none() && begun_at.is_some() {
            let live = self.nodes.row(slot).map(|row| self.nodes.live(row).collect::<Vec<_>>());
            live.into_iter().flatten().for_each(|alloc| self.set_migrate(alloc, None, events));
        }
        Ok(())
    }

    /// What is no more on a node that is drained stays where it is.
    pub(super) fn migrate_allocs(&mut self, allocs: &[MigrateAlloc], events: &mut Vec<StateChange>) {
        for MigrateAlloc { alloc, how } in allocs {
            let Some((slot, row)) = self.alloc(*alloc).filter(|(_, row)| row.is_desired()) else { continue };
            if self.nodes.detail(row.node).is_some_and(|detail| detail.draining().is_some()) {
                self.set_migrate(slot, Some(*how), events);
            }
        }
    }

    fn set_migrate(&mut self, slot: AllocSlot, how: Option<Departure>, events: &mut Vec<StateChange>) {
        let Some(row) = self.allocs.row(slot).copied().filter(|row| row.is_desired()) else { return };
        if self.allocs.extra(slot).and_then(|extra| extra.migrate) == how {
            return;
        }
        self.allocs.update(slot, self.index, self.at, |_, detail| detail.extra_mut().migrate = how);
        self.jobs.alloc_changed(row.job, self.index);
        events.push(StateChange::AllocMigrates(slot));
    }

    /// The node stays closed. A drain that was called off or began again meanwhile goes its own way.
    pub(super) fn end_drain(
        &mut self,
        node: NodeId,
        started_at: Timestamp,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        let slot = self.nodes.find(node).ok_or(Refusal::NoNode(node))?;
        let at = self.at;
        let last = self.nodes.detail(slot).and_then(|detail| detail.drain.clone());
        let goes_on =
            |last: &Arc<LastDrain>| last.drain.as_ref().is_some_and(|drain| drain.started_at == started_at);
        if let Some(last) = last.filter(goes_on) {
            let status = DrainStatus::Complete;
            let last = LastDrain { drain: None, status, updated_at: at, ..(*last).clone() };
            let event = self.node_event(NodeEventKind::DrainCompleted, rules);
            self.nodes.update(slot, self.index, |_, detail| {
                detail.drain = Some(Arc::new(last));
                detail.note(event);
            });
            events.push(StateChange::NodeChanged(slot, NodeChange::Drain));
        }
        Ok(())
    }
}
