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
    place::{Ask, AskPlacement, GroupPlacer},
};

/// So many nodes are tried at most where quotas admit an ask only in place of predecessors.
const NODES_MAX: usize = 8;

/// Where quotas admit an ask.
pub(super) enum QuotaAdmission {
    /// On any node.
    Anywhere,
    /// Only where predecessors leave it enough, the best first; and why on no other.
    Only(Vec<NodeSlot>, Funnel),
}

/// What quotas say of the allocations of a group.
pub(super) struct GroupQuotas<'a> {
    store: &'a Store,
    headroom: &'a Headroom,
    group: &'a Group,
}

impl<'a> GroupQuotas<'a> {
    pub(super) fn of(store: &'a Store, headroom: &'a Headroom, group: &'a Group) -> Self {
        Self { store, headroom, group }
    }

    /// What they admit of an ask, in whose favour an allocation on `own` may be to end.
    pub(super) fn admit(
        &self,
        ask: &Ask,
        own: Option<NodeSlot>,
        placer: &GroupPlacer<'_>,
    ) -> Result<QuotaAdmission, Funnel> {
        if self.headroom.is_unlimited() {
            return Ok(QuotaAdmission::Anywhere);
        }
        let least = Usage::of(self.group.resources(), self.group);
        let Err(refused) = self.headroom.check(&least) else { return Ok(QuotaAdmission::Anywhere) };
        let is_own = |node: NodeSlot| Some(node) == own;
        let is_ready = |node: NodeSlot| self.store.nodes().row(node).is_some_and(NodeRow::is_ready);
        let nodes = placer.ending().filter(|(node, _)| is_own(*node));
        let nodes = nodes.chain(placer.ending().filter(|(node, _)| !is_own(*node)));
        let nodes = nodes
            .filter(|(node, _)| ask.only.is_none_or(|only| only == *node) && is_ready(*node))
            .filter(|(node, after)| self.charge(*node, after).is_ok());
        let nodes: Vec<NodeSlot> = nodes.map(|(node, _)| node).take(NODES_MAX).collect();
        if nodes.is_empty() { Err(refused) } else { Ok(QuotaAdmission::Only(nodes, refused)) }
    }

    /// What is left of cpu, in MHz, for one that the quotas refused on the node that was best for it: with slower cores another
    /// one may be within them. None where no other node can be.
    pub(super) fn cpu_left(&self, refused: &Funnel) -> Option<u32> {
        let left =
            self.headroom.cpu_left().filter(|_| self.group.cores() > 0 && !refused.quota.is_empty())?;
        Some(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// How much cpu whole cores bring with them is known only once there is a node.
    pub(super) fn check(&self, placed: &AskPlacement) -> Result<Charge, Funnel> {
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
