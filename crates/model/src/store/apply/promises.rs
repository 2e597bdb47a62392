//! What allocations that are to end leave to those that wait for them on the same node.

use super::{AllocSlot, NodeSlot, Store, plan::Check};
use crate::{
    alloc::{Placement, StopReason},
    device::DevicesHeld,
    ids::AllocId,
    quota::Usage,
    resources::Resources,
    store::{AllocExtra, AllocRow},
};

impl Store {
    /// Which of the allocations that are to end on its node a successor waits for, and how much of what they hold it
    /// takes over. It does not wait for those that leave it nothing: while agents are away, every update adds some, and
    /// lists of all of them would make the cost of the next one grow.
    pub(super) fn parts_for(
        &self,
        node: NodeSlot,
        placement: &Placement,
        needed: &Usage,
        check: Check,
    ) -> Vec<(AllocId, Usage)> {
        let mut left = needed.clone();
        let mut parts: Vec<(AllocId, Usage)> = Vec::new();
        for id in placement.after.iter().filter(|id| **id != placement.id) {
            let Some((slot, _)) = self.alloc(*id).filter(|(_, row)| row.node == node && !row.is_terminal())
            else {
                continue;
            };
            if parts.iter().any(|(known, _)| known == id) {
                continue;
            }
            let part = self.usage_to_promise(slot).common(&left);
            left.remove(&part);
            let is_needed = part != Usage::default() || self.leaves_more_than_room(slot, placement);
            if is_needed || check == Check::Nothing {
                parts.push((*id, part));
            }
        }
        parts
    }

    /// Whether a successor is given ports, devices or cores of a predecessor, or preempted it.
    fn leaves_more_than_room(&self, slot: AllocSlot, successor: &Placement) -> bool {
        let Some(extra) = self.allocs.extra(slot) else { return false };
        let mut devices = DevicesHeld::of(&extra.devices, &extra.cores);
        let before = devices.clone();
        devices.remove(DevicesHeld::of(&successor.devices, &successor.cores));
        extra.stop_reason == Some(StopReason::Preempted)
            || extra.ports.iter().any(|port| successor.ports.contains(port))
            || devices != before
    }

    /// Notes with each predecessor what it leaves to a successor.
    pub(super) fn promise(&mut self, successor: AllocId, parts: &[(AllocId, Usage)]) {
        for (id, part) in parts {
            let Some(slot) = self.allocs.find(*id) else { continue };
            self.allocs.update(slot, self.index, self.at, |_, detail| {
                let extra = detail.extra_mut();
                extra.promised.add(part);
                if extra.stop_reason == Some(StopReason::Preempted) {
                    extra.preempted_by.get_or_insert(successor);
                }
            });
        }
    }

    /// The ports that are free once an allocation has ended: those that a successor was promised are its own already,
    /// and those of predecessors are still theirs.
    pub(super) fn ports_left(&self, row: &AllocRow, extra: &AllocExtra) -> Vec<u16> {
        if extra.ports.is_empty() {
            return Vec::new();
        }
        let mut kept = self.successor_ports(row.node, row.id);
        kept.extend(self.ports_of(&extra.after));
        extra.ports.iter().copied().filter(|port| !kept.contains(port)).collect()
    }

    /// Those among them that an allocation pushed out.
    pub(super) fn preempted_by(&self, id: AllocId, after: &[(AllocId, Usage)]) -> Vec<AllocId> {
        let extra = |before: AllocId| self.allocs.extra(self.allocs.find(before)?);
        let was_pushed = |before: &AllocId| extra(*before).is_some_and(|e| e.preempted_by == Some(id));
        after.iter().map(|(before, _)| *before).filter(was_pushed).collect()
    }

    /// What an allocation holds in its own right and has promised to nobody: not what is still its predecessors'.
    pub fn usage_to_promise(&self, slot: AllocSlot) -> Usage {
        let Some(row) = self.allocs.row(slot).filter(|row| !row.is_terminal()) else {
            return Usage::default();
        };
        let group = self.job_of(row).map(|(_, group)| group);
        let held = group.map_or_else(|| Usage::from(row.held), |group| Usage::of(row.held, group));
        self.less_promises(slot, held)
    }

    /// The same, as far as it is room of its node.
    pub fn room_to_promise(&self, slot: AllocSlot) -> Resources {
        let Some(row) = self.allocs.row(slot).filter(|row| !row.is_terminal()) else {
            return Resources::ZERO;
        };
        match self.allocs.extra(slot) {
            None => row.held,
            Some(_) => self.less_promises(slot, Usage::from(row.held)).room(),
        }
    }

    /// What is left of what an allocation holds without what it was promised and what it has promised.
    fn less_promises(&self, slot: AllocSlot, mut held: Usage) -> Usage {
        let Some(extra) = self.allocs.extra(slot) else { return held };
        let borrowed = extra.after.iter().filter(|(id, _)| self.still_holds(*id));
        borrowed.for_each(|(_, part)| held.remove(part));
        held.remove(&extra.promised);
        held
    }

    /// The ports that an allocation holds in its own right and no successor has been given yet.
    pub fn ports_to_promise(&self, slot: AllocSlot) -> Vec<u16> {
        let Some(row) = self.allocs.row(slot) else { return Vec::new() };
        let Some(extra) = self.allocs.extra(slot).filter(|extra| !extra.ports.is_empty()) else {
            return Vec::new();
        };
        let (given, borrowed) = (self.successor_ports(row.node, row.id), self.ports_of(&extra.after));
        let is_own = |port: &u16| !given.contains(port) && !borrowed.contains(port);
        extra.ports.iter().copied().filter(is_own).collect()
    }

    /// The ports of those that have not ended among predecessors.
    pub(in crate::store) fn ports_of(&self, after: &[(AllocId, Usage)]) -> Vec<u16> {
        let living = after.iter().filter(|(id, _)| self.still_holds(*id));
        let extras = living.filter_map(|(id, _)| self.allocs.extra(self.allocs.find(*id)?));
        extras.flat_map(|extra| extra.ports.iter().copied()).collect()
    }

    fn still_holds(&self, id: AllocId) -> bool {
        self.alloc(id).is_some_and(|(_, row)| !row.is_terminal())
    }

    pub(super) fn take_promise_back(&mut self, id: AllocId, part: &Usage) {
        if let Some(slot) = self.allocs.find(id).filter(|_| self.still_holds(id)) {
            self.allocs.update(slot, self.index, self.at, |_, detail| {
                detail.extra_mut().promised.remove(part);
            });
        }
    }

    fn successor_ports(&self, node: NodeSlot, id: AllocId) -> Vec<u16> {
        let Some(row) = self.nodes.row(node) else { return Vec::new() };
        let extras = self.nodes.live(row).filter_map(|slot| self.allocs.extra(slot));
        let successors = extras.filter(|extra| extra.after.iter().any(|(before, _)| *before == id));
        successors.flat_map(|extra| extra.ports.iter().copied()).collect()
    }
}
