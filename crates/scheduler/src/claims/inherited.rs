//! What successors are given of the capacity of allocations that are to end: each part is given once.

use std::collections::HashMap;

use berth_model::{
    AllocId,
    resources::Resources,
    store::{NodeSlot, Store},
};

/// What predecessors have given of their capacity to successors that the state does not show yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inherited(HashMap<AllocId, Resources>);

/// What a successor takes of its node, and of its predecessors there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SuccessorShare {
    /// What it adds to what its node holds.
    pub added: Resources,
    parts: Vec<(AllocId, Resources)>,
}

impl Inherited {
    /// What an allocation adds to its node that holds so much and comes `after` others. Of what these hold there
    /// now, and have given to nobody else, nothing is added. That is the least it may come to: of one whose end is applied first
    /// nothing is left here, while the state may still pass on what that one waited for.
    pub fn share(
        &self,
        store: &Store,
        node: NodeSlot,
        holds: Resources,
        after: &[AllocId],
    ) -> SuccessorShare {
        let mut share = SuccessorShare { added: holds, parts: Vec::new() };
        for id in after {
            let Some((slot, _)) = store.alloc(*id).filter(|(_, row)| row.node == node) else { continue };
            let inherited = self.0.get(id).copied().unwrap_or_default();
            let part = store.resources_to_promise(slot).minus(inherited).min(share.added);
            share.added = share.added.minus(part);
            share.parts.push((*id, part));
        }
        share
    }

    /// A successor has its share.
    pub fn take(&mut self, share: SuccessorShare) {
        for (id, part) in share.parts {
            let inherited = self.0.entry(id).or_default();
            *inherited = inherited.plus(part);
        }
    }
}
