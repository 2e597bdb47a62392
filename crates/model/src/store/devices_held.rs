//! Who holds which devices and cores of a node.

use std::collections::{BTreeMap, BTreeSet};

use super::{AllocExtra, NodeSlot, Store};
use crate::{
    device::DevicesHeld,
    ids::{AllocId, Index},
};

impl Store {
    /// What each allocation on a node that has not ended holds of devices and cores, even if after its predecessors, and
    /// has promised to nobody.
    pub fn devices_to_promise(&self, node: NodeSlot) -> BTreeMap<AllocId, DevicesHeld> {
        self.devices_on(node).0
    }

    /// What those allocations leave of it to one that waits for them on their node.
    pub fn devices_left_by(&self, node: NodeSlot, after: impl IntoIterator<Item = AllocId>) -> DevicesHeld {
        let (mut left, mut promised) = (DevicesHeld::default(), self.devices_to_promise(node));
        let parts = after.into_iter().filter_map(|id| promised.remove(&id));
        parts.for_each(|part| left.add(&part));
        left
    }

    /// What each holds, and what may be in use at one time: a successor takes over what its predecessors hold, as far as it asks
    /// for the same.
    fn devices_on(&self, node: NodeSlot) -> (BTreeMap<AllocId, DevicesHeld>, DevicesHeld) {
        let (mut left, mut sum) = (BTreeMap::<AllocId, DevicesHeld>::new(), DevicesHeld::default());
        for (_, id, extra) in self.device_holders(node) {
            let all = DevicesHeld::of(&extra.devices, &extra.cores);
            let mut own = all.clone();
            for (before, _) in &extra.after {
                if let Some(theirs) = left.get_mut(before) {
                    own.take_common(theirs);
                }
            }
            sum.add(&own);
            left.insert(id, all);
        }
        (left, sum)
    }

    /// Oldest first: nobody comes before the one whom it waits for.
    fn device_holders(&self, node: NodeSlot) -> Vec<(Index, AllocId, &AllocExtra)> {
        let Some(row) = self.nodes.row(node) else { return Vec::new() };
        let extras = self.nodes.live(row).filter_map(|slot| {
            let (row, extra) = (self.allocs.row(slot)?, self.allocs.extra(slot)?);
            extra.has_devices().then_some((row.create_index, row.id, extra))
        });
        let mut holders: Vec<_> = extras.collect();
        holders.sort_unstable_by_key(|(index, id, _)| (*index, *id));
        holders
    }

    /// Counts again what is held of a node's devices and cores.
    pub(super) fn count_devices(&mut self, node: NodeSlot) {
        let (_, held) = self.devices_on(node);
        self.nodes.set_devices(node, held);
    }

    /// Counts it for every node on which something is held.
    pub(super) fn count_all_devices(&mut self) {
        let holding = self.allocs.iter().filter(|(slot, row)| {
            !row.is_terminal() && self.allocs.extra(*slot).is_some_and(AllocExtra::has_devices)
        });
        let nodes: BTreeSet<NodeSlot> = holding.map(|(_, row)| row.node).collect();
        nodes.into_iter().for_each(|node| self.count_devices(node));
    }
}
