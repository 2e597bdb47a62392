//! What allocations that are to end leave to those that wait for them on the same node.
//!
//! Whoever waits runs after the one it waits for, and after whom that one waits for: of such a chain one runs at a time, so
//! that its capacity is counted once, however often work is replaced before it ever starts. What an allocation was promised it
//! can therefore promise on; when it ends before its turn, its successors take its place in the line.

use std::collections::BTreeSet;

use super::{AllocSlot, NodeSlot, Store, plan::Recheck};
use crate::{
    alloc::{Placement, StopReason},
    device::{DeviceGrant, DevicesHeld},
    ids::AllocId,
    quota::Usage,
    resources::Resources,
    store::{AllocExtra, AllocRow},
};

/// What an allocation leaves that ends before its turn.
pub(super) struct ReleasedPromises {
    /// Whom it waits for, and what they promised it.
    after: Vec<(AllocId, Usage)>,
    /// What it holds besides.
    own: Usage,
    /// Those that wait for it, oldest first, and what each is charged to its namespace.
    heirs: Vec<(AllocSlot, Usage)>,
}

impl Store {
    /// Which of the allocations that are to end on its node a successor waits for, and how much of what they hold it
    /// takes over. It does not wait for those that leave it nothing: while agents are away, every update adds some, and
    /// lists of all of them would make the cost of the next one grow.
    pub(super) fn parts_for(
        &self,
        node: NodeSlot,
        placement: &Placement,
        needed: &Usage,
        check: Recheck,
    ) -> Vec<(AllocId, Usage)> {
        let mut left = needed.clone();
        let mut parts: Vec<(AllocId, Usage)> = Vec::new();
        let named = placement.after.iter().copied().filter(|id| *id != placement.id);
        let predecessors: Vec<AllocId> = match check {
            Recheck::Lines => self.those_left_of(node, named.collect()),
            Recheck::All | Recheck::Room | Recheck::Nothing => named.collect(),
        };
        for id in predecessors {
            let Some((slot, _)) = self.alloc(id).filter(|(_, row)| row.node == node && !row.is_terminal())
            else {
                continue;
            };
            if parts.iter().any(|(known, _)| *known == id) {
                continue;
            }
            let promises = match check {
                Recheck::Lines | Recheck::All => self.usage_to_promise(slot),
                Recheck::Room | Recheck::Nothing => self.own_usage_to_promise(slot),
            };
            let part = promises.common(&left);
            left.remove(&part);
            let is_needed =
                part != Usage::default() || self.leaves_more_than_resources(slot, placement, check);
            if is_needed || check == Recheck::Nothing {
                parts.push((id, part));
            }
        }
        parts
    }

    /// The predecessors of a plan as it is by now: in place of one that has ended before its turn stand those for whom it
    /// waited. They still hold what it was to have, and its successor with it.
    fn those_left_of(&self, node: NodeSlot, mut next: Vec<AllocId>) -> Vec<AllocId> {
        let (mut left, mut seen) = (Vec::new(), BTreeSet::new());
        next.reverse();
        while let Some(id) = next.pop() {
            let Some((slot, row)) = self.alloc(id).filter(|(_, row)| row.node == node) else { continue };
            if !seen.insert(id) {
                continue;
            }
            if row.is_terminal() {
                let after = self.allocs.extra(slot).map_or(&[][..], |extra| &extra.after);
                next.extend(after.iter().rev().map(|(before, _)| *before));
            } else {
                left.push(id);
            }
        }
        left
    }

    /// Whether a successor is given ports, devices or cores of a predecessor that nobody else was given, or preempted it.
    fn leaves_more_than_resources(&self, slot: AllocSlot, successor: &Placement, check: Recheck) -> bool {
        let Some((row, extra)) = self.allocs.row(slot).zip(self.allocs.extra(slot)) else { return false };
        if extra.stop_reason == Some(StopReason::Preempted) {
            return true;
        }
        let Placement { ports, devices, cores, .. } = successor;
        if check < Recheck::All || !shares(extra, ports, devices, cores) {
            return shares(extra, ports, devices, cores);
        }
        let mut left = self.devices_left_by(row.node, [row.id]);
        let all = left.clone();
        left.remove(DevicesHeld::of(devices, cores));
        self.ports_to_promise(slot).iter().any(|port| ports.contains(port)) || left != all
    }

    /// What an allocation that ends leaves to those that wait for it, of what it waits for itself; none when it waits for
    /// nobody, or nobody for it.
    pub(super) fn bequest(&self, slot: AllocSlot) -> Option<ReleasedPromises> {
        let (row, extra) = (self.allocs.row(slot)?, self.allocs.extra(slot)?);
        let living = extra.after.iter().filter(|(id, _)| self.still_holds(*id));
        let after: Vec<_> = living.cloned().collect();
        let node = self.nodes.row(row.node).filter(|_| !after.is_empty())?;
        let waits = |slot: &AllocSlot| {
            let extra = self.allocs.extra(*slot);
            extra.is_some_and(|extra| extra.after.iter().any(|(before, _)| *before == row.id))
        };
        let mut heirs: Vec<_> = self.nodes.live(node).filter(waits).collect();
        let age = |slot: &AllocSlot| self.allocs.row(*slot).map(|row| (row.create_index, row.id));
        heirs.sort_by_key(age);
        let heirs: Vec<_> = heirs.into_iter().map(|heir| (heir, self.charge_of(heir))).collect();
        let mut own = self.usage_of(row);
        after.iter().for_each(|(_, part)| own.remove(part));
        (!heirs.is_empty()).then_some(ReleasedPromises { after, own, heirs })
    }

    /// Those that waited for an allocation that has ended take its place in the lines in which it waited.
    pub(super) fn hand_on(&mut self, ended: AllocId, bequest: ReleasedPromises) {
        let ReleasedPromises { mut after, mut own, heirs } = bequest;
        for (heir, charged) in heirs {
            let Some((row, extra)) = self.allocs.row(heir).copied().zip(self.allocs.extra(heir).cloned())
            else {
                continue;
            };
            let mut part = Usage::default();
            extra.after.iter().filter(|(id, _)| *id == ended).for_each(|(_, promised)| part.add(promised));
            let still_used = part.common(&own);
            own.remove(&still_used);
            part.remove(&still_used);
            let mut promises = Vec::new();
            for (before, left) in &mut after {
                let on = part.common(left);
                left.remove(&on);
                part.remove(&on);
                let before_extra = self.allocs.find(*before).and_then(|slot| self.allocs.extra(slot));
                let is_needed = on != Usage::default()
                    || before_extra.is_some_and(|b| shares(b, &extra.ports, &extra.devices, &extra.cores));
                if is_needed {
                    promises.push((*before, on));
                }
            }
            self.promise(row.id, &promises);
            self.allocs.update(heir, self.index, self.at, |_, detail| {
                take_place(&mut detail.extra_mut().after, ended, promises);
            });
            self.discharge_tenant(row.job, &charged);
            let charge = self.charge_of(heir);
            self.charge_tenant(row.job, &charge);
        }
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
        let mut unavailable = self.successor_ports(row.node, row.id);
        unavailable.extend(self.ports_of(&extra.after));
        extra.ports.iter().copied().filter(|port| !unavailable.contains(port)).collect()
    }

    /// Those among them that an allocation preempted.
    pub(super) fn preempted_by(&self, id: AllocId, after: &[(AllocId, Usage)]) -> Vec<AllocId> {
        let extra = |before: AllocId| self.allocs.extra(self.allocs.find(before)?);
        let was_pushed = |before: &AllocId| extra(*before).is_some_and(|e| e.preempted_by == Some(id));
        after.iter().map(|(before, _)| *before).filter(was_pushed).collect()
    }

    /// What an allocation that has not ended holds, even if promised by its predecessors, and has promised to nobody.
    pub fn usage_to_promise(&self, slot: AllocSlot) -> Usage {
        let Some(row) = self.allocs.row(slot).filter(|row| !row.is_terminal()) else {
            return Usage::default();
        };
        let mut held = self.usage_of(row);
        self.allocs.extra(slot).into_iter().for_each(|extra| held.remove(&extra.promised));
        held
    }

    /// The same, as far as it is capacity of its node.
    pub fn resources_to_promise(&self, slot: AllocSlot) -> Resources {
        let Some(row) = self.allocs.row(slot).filter(|row| !row.is_terminal()) else {
            return Resources::ZERO;
        };
        row.held.minus(self.allocs.extra(slot).map_or(Resources::ZERO, |extra| extra.promised.room()))
    }

    /// What an allocation adds to what is held on its node: not what is still its predecessors'.
    pub fn resources_added(&self, slot: AllocSlot) -> Resources {
        let Some(row) = self.allocs.row(slot).filter(|row| !row.is_terminal()) else {
            return Resources::ZERO;
        };
        let after = self.allocs.extra(slot).map_or(&[][..], |extra| &extra.after);
        let borrowed = after.iter().filter(|(id, _)| self.still_holds(*id)).map(|(_, part)| part.room());
        borrowed.fold(row.held, Resources::minus)
    }

    /// Whom an allocation waits for on its node, and whom those wait for: all must have ended before it may start.
    pub fn waits_for(&self, slot: AllocSlot) -> Vec<AllocId> {
        let mut all: Vec<AllocId> = Vec::new();
        let mut next = vec![slot];
        while let Some(slot) = next.pop() {
            let after = self.allocs.extra(slot).into_iter().flat_map(|extra| &extra.after);
            for (id, _) in after.filter(|(id, _)| self.still_holds(*id)) {
                if !all.contains(id) {
                    all.push(*id);
                    next.extend(self.allocs.find(*id));
                }
            }
        }
        all
    }

    fn usage_of(&self, row: &AllocRow) -> Usage {
        let group = self.job_of(row).map(|(_, group)| group);
        group.map_or_else(|| Usage::from(row.held), |group| Usage::of(row.held, group))
    }

    /// What an allocation holds in its own right and has promised to nobody.
    fn own_usage_to_promise(&self, slot: AllocSlot) -> Usage {
        let Some(row) = self.allocs.row(slot).filter(|row| !row.is_terminal()) else {
            return Usage::default();
        };
        self.less_promises(slot, self.usage_of(row))
    }

    /// The same, as far as it is capacity of its node.
    pub(super) fn own_resources_to_promise(&self, slot: AllocSlot) -> Resources {
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

    /// The ports that an allocation holds, even if after its predecessors, and no successor has been given yet.
    pub fn ports_to_promise(&self, slot: AllocSlot) -> Vec<u16> {
        let Some(row) = self.allocs.row(slot) else { return Vec::new() };
        let Some(extra) = self.allocs.extra(slot).filter(|extra| !extra.ports.is_empty()) else {
            return Vec::new();
        };
        let successor_ports = self.successor_ports(row.node, row.id);
        extra.ports.iter().copied().filter(|port| !successor_ports.contains(port)).collect()
    }

    /// The ports that a successor may have of an allocation: before version 4 not those of its own predecessors.
    pub(super) fn ports_left_to(&self, slot: AllocSlot, check: Recheck) -> Vec<u16> {
        let mut ports = self.ports_to_promise(slot);
        if check < Recheck::All {
            let borrowed = self.ports_of(self.allocs.extra(slot).map_or(&[][..], |extra| &extra.after));
            ports.retain(|port| !borrowed.contains(port));
        }
        ports
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

/// Whether an allocation holds any of these ports, devices or cores.
fn shares(extra: &AllocExtra, ports: &[u16], devices: &[DeviceGrant], cores: &[u16]) -> bool {
    let mut held = DevicesHeld::of(&extra.devices, &extra.cores);
    let before = held.clone();
    held.remove(DevicesHeld::of(devices, cores));
    extra.ports.iter().any(|port| ports.contains(port)) || held != before
}

/// Puts others in place of one that is waited for.
fn take_place(after: &mut Vec<(AllocId, Usage)>, of: AllocId, others: Vec<(AllocId, Usage)>) {
    if others.is_empty() {
        return;
    }
    after.retain(|(id, _)| *id != of);
    for (other, part) in others {
        match after.iter_mut().find(|(id, _)| *id == other) {
            Some((_, known)) => known.add(&part),
            None => after.push((other, part)),
        }
    }
}
