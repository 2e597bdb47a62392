//! What the quotas of a job's namespace admit while its allocations are placed.

use berth_model::{
    AllocId,
    eval::Funnel,
    job::Group,
    quota::Usage,
    store::{NodeRow, NodeSlot, Store},
};

use crate::{
    fairness::{Charge, Headroom},
    place::{Ask, GroupPlacer, Placed},
};

/// What quotas say of the allocations of a group.
pub(super) struct Quotas<'a> {
    store: &'a Store,
    headroom: &'a Headroom,
    group: &'a Group,
}

impl<'a> Quotas<'a> {
    pub(super) fn of(store: &'a Store, headroom: &'a Headroom, group: &'a Group) -> Self {
        Self { store, headroom, group }
    }

    /// What they admit of an ask: any node, or only one where predecessors leave it enough, and why no other.
    pub(super) fn admit(&self, ask: &Ask, placer: &GroupPlacer<'_>) -> Result<(Ask, Option<Funnel>), Funnel> {
        if self.headroom.is_unlimited() {
            return Ok((ask.clone(), None));
        }
        let least = Usage::of(self.group.resources(), self.group);
        let Err(refused) = self.headroom.check(&least) else { return Ok((ask.clone(), None)) };
        let is_ready = |node: NodeSlot| self.store.nodes().row(node).is_some_and(NodeRow::is_ready);
        let mut nodes =
            placer.ending().filter(|(node, _)| ask.only.is_none_or(|only| only == *node) && is_ready(*node));
        match nodes.find(|(node, after)| self.charge(*node, after).is_ok()) {
            Some((node, _)) => Ok((Ask { only: Some(node), ..ask.clone() }, Some(refused))),
            None => Err(refused),
        }
    }

    /// How much cpu whole cores bring with them is known only once there is a node.
    pub(super) fn check(&self, placed: &Placed) -> Result<Charge, Funnel> {
        if self.headroom.is_unlimited() {
            return Ok(Charge::default());
        }
        self.charge(placed.node, &placed.after)
    }

    fn charge(&self, node: NodeSlot, after: &[AllocId]) -> Result<Charge, Funnel> {
        let charge = self.headroom.charge_of(self.store, self.group, node, after);
        self.headroom.check(&charge.usage).map(|()| charge)
    }
}
