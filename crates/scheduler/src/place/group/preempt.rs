//! Placing where nothing is free: others end, and leave their capacity.

use berth_model::{
    AllocId,
    resources::Resources,
    store::{AllocExtra, AllocSlot, NodeSlot},
};

use super::{Ask, AskPlacement, GroupPlacer};
use crate::place::preempt::{HeldUse, Placing, Preemptor, ResourceVector, Victim, free_milli};

impl GroupPlacer<'_> {
    /// Where an ask goes at the least loss, and who is lost.
    pub(super) fn preempt(
        &self,
        ask: &Ask,
        preemptor: &mut Preemptor<'_>,
    ) -> Option<(AskPlacement, Vec<Victim>)> {
        let loss = match ask.only {
            Some(only) => preemptor.find_on(self.store, self, only),
            None => preemptor.find(self.store, self),
        }?;
        let placed = self.try_node_after(loss.node, &self.ending_with(loss.node, &loss.victims))?;
        Some((placed, loss.victims))
    }

    /// From now on these are to end on a node.
    pub(super) fn evict(&mut self, node: NodeSlot, victims: &[Victim], preemptor: &mut Preemptor<'_>) {
        preemptor.evict(self.store, node, victims);
        if !victims.is_empty() {
            let ending = self.ending_with(node, victims);
            self.ending.insert(node, ending);
        }
    }

    /// What is to end on a node, with these besides.
    fn ending_with(&self, node: NodeSlot, victims: &[Victim]) -> Vec<(AllocSlot, AllocId, Resources)> {
        let own = self.ending.get(&node).into_iter().flatten().copied();
        own.chain(victims.iter().map(|victim| (victim.slot, victim.id, victim.room))).collect()
    }

    fn room_left_on(&self, node: NodeSlot) -> Resources {
        let ending = self.ending.get(&node).into_iter().flatten();
        ending.fold(Resources::ZERO, |sum, (_, _, room)| sum.plus(*room))
    }

    fn devices_milli(&self) -> u32 {
        let milli = self
            .devices
            .requirements
            .iter()
            .map(|request| request.ask.count * u32::from(request.ask.milli_each()));
        milli.fold(0, u32::saturating_add)
    }
}

impl Placing for GroupPlacer<'_> {
    fn requested(&self) -> ResourceVector {
        ResourceVector::of(self.ask, self.devices_milli())
    }

    fn inherits(&self) -> Vec<NodeSlot> {
        // Who leaves no capacity any more may still leave devices.
        let leaves = |node: &NodeSlot| {
            !self.devices.requirements.is_empty() || self.room_left_on(*node) != Resources::ZERO
        };
        self.ending.keys().copied().filter(leaves).collect()
    }

    fn free(&self, slot: NodeSlot) -> ResourceVector {
        let row = self.columns.row(slot);
        match self.columns.node(slot).filter(|_| row.ready) {
            Some(node) => ResourceVector::of(row.free, free_milli(node, &self.columns.held(slot))),
            None => ResourceVector::default(),
        }
    }

    fn lacking(&self, slot: NodeSlot) -> Option<ResourceVector> {
        let zone = self.requirements.zone(self.columns, slot)?;
        self.distinct.check(slot, &self.requirements.zones()[zone as usize]).ok()?;
        let (row, node) = (self.columns.row(slot), self.columns.node(slot)?);
        let resources = self.devices.on(node).minus(row.free).minus(self.room_left_on(slot));
        // What devices predecessors leave is known when a set of victims is tried.
        let devices = if self.devices.requirements.is_empty() || self.ending.contains_key(&slot) {
            0
        } else {
            self.devices_milli().saturating_sub(free_milli(node, &self.columns.held(slot)))
        };
        row.ready.then(|| ResourceVector::of(resources, devices))
    }

    fn use_of(&self, extra: &AllocExtra) -> HeldUse {
        let mut ports = self.group.ports().filter_map(|port| port.fixed);
        let has_ports = !extra.ports.is_empty() && self.group.ports().next().is_some();
        let has_devices = !extra.devices.is_empty() && !self.devices.requirements.is_empty();
        let has_cores = !extra.cores.is_empty() && self.devices.cores > 0;
        if ports.any(|port| extra.ports.contains(&port)) {
            HeldUse::Must
        } else if has_ports || has_devices || has_cores {
            HeldUse::May
        } else {
            HeldUse::None
        }
    }

    fn fits(&self, slot: NodeSlot, victims: &[Victim]) -> bool {
        self.try_node_after(slot, &self.ending_with(slot, victims)).is_some()
    }
}
