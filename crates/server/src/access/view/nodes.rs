//! Nodes, and what runs on them.

use std::{collections::BTreeMap, ops::RangeBounds};

use berth_model::{
    Index, NodeId,
    job::Job,
    node::{NODE_POOL_ALL, NODE_POOL_DEFAULT, NodeStatus},
    node_pool::is_built_in_pool,
    store::{AllocSlot, JobRow, NodeDetail, NodePoolRow, NodeRow, NodeSlot, SchedulingEligibility},
};

use super::CallerView;
use crate::access::{Capability, Denied};

impl CallerView {
    /// A node.
    pub fn node(&self, id: NodeId) -> Option<(&NodeRow, &NodeDetail)> {
        let (slot, _) = self.view.store.node(id)?;
        self.node_in(slot)
    }

    /// The node of a slot.
    pub fn node_in(&self, slot: NodeSlot) -> Option<(&NodeRow, &NodeDetail)> {
        let nodes = self.view.store.nodes();
        Some((nodes.row(slot)?, nodes.detail(slot)?)).filter(|_| self.access.sees_nodes())
    }

    /// The nodes whose ids are in a range, by id.
    pub fn nodes(
        &self,
        ids: impl RangeBounds<NodeId>,
    ) -> impl DoubleEndedIterator<Item = (&NodeRow, &NodeDetail)> {
        // Whoever sees none does not look through all of them.
        let seen = self.access.sees_nodes().then(|| self.view.store.nodes().range(ids));
        seen.into_iter().flatten().filter_map(|(_, slot)| self.node_in(slot))
    }

    /// All nodes, by id.
    pub fn all_nodes(&self) -> impl DoubleEndedIterator<Item = (&NodeRow, &NodeDetail)> {
        self.nodes(..)
    }

    /// The node pools that the caller may read, by name: those that are always there, those that operators described, and those that
    /// nodes name, whoever sees the nodes.
    pub fn node_pools(&self) -> BTreeMap<&str, Option<&NodePoolRow>> {
        let (nodes, pools) = (self.view.store.nodes(), self.view.store.node_pools());
        let mut named = BTreeMap::from([(NODE_POOL_DEFAULT, None), (NODE_POOL_ALL, None)]);
        named.extend(nodes.pools().map(|name| (name, None)));
        named.extend(pools.iter().map(|row| (&*row.pool.name, Some(row))));
        named.retain(|name, _| self.access.reads_node_pool(name));
        named
    }

    /// One of these pools.
    pub fn node_pool(&self, name: &str) -> Option<Option<&NodePoolRow>> {
        self.node_pools().remove(name)
    }

    /// How many pools operators have described, whoever reads them.
    pub fn node_pools_described(&self) -> usize {
        self.view.store.node_pools().iter().count()
    }

    /// Whether an operator has described this pool, whoever reads it.
    pub fn describes_node_pool(&self, name: &str) -> bool {
        self.view.store.node_pools().get(name).is_some()
    }

    /// Whether there is this pool, whoever reads it: what becomes of a job shows as much.
    pub fn has_node_pool(&self, name: &str) -> bool {
        is_built_in_pool(name) || self.describes_node_pool(name) || self.view.store.nodes().has_pool(name)
    }

    /// Where any node pool last changed, or any node, which may be in a pool that nobody described.
    pub fn node_pools_index(&self) -> Index {
        self.nodes_index().max(self.view.store.node_pools().modify_index())
    }

    /// Whether any node has a driver of that name, whoever sees the nodes: what becomes of a job shows as much.
    pub fn has_driver(&self, name: &str) -> bool {
        let (nodes, attribute) = (self.view.store.nodes(), format!("driver.{name}"));
        let mut details = nodes.range(..).filter_map(|(_, slot)| nodes.detail(slot));
        details.any(|detail| detail.node.attributes.contains_key(attribute.as_str()))
    }

    /// How many nodes are up, whoever sees them.
    pub fn nodes_up(&self) -> usize {
        let (nodes, statuses) =
            (self.view.store.nodes(), NodeStatus::ALL.iter().filter(|at| !at.is_silent()));
        statuses
            .flat_map(|at| SchedulingEligibility::ALL.map(|scheduling| nodes.with_state(*at, scheduling)))
            .sum()
    }

    /// Where any node last changed.
    pub fn nodes_index(&self) -> Index {
        self.view.store.nodes().modify_index()
    }

    /// The allocations on a node that the caller sees, those that have ended last.
    pub fn allocs_on<'v>(&'v self, row: &'v NodeRow) -> impl Iterator<Item = AllocSlot> + 'v {
        let nodes = self.view.store.nodes();
        nodes.live(row).chain(nodes.ended(row)).filter(|slot| self.alloc_row(*slot).is_some())
    }

    /// The jobs of any namespace that a change of a node concerns, by key: those that have something there which has not ended,
    /// and those that run on every node of its pool.
    ///
    /// # Errors
    /// For whoever may not change nodes.
    pub fn jobs_concerned<'v>(
        &'v self,
        row: &'v NodeRow,
        detail: &'v NodeDetail,
    ) -> Result<impl Iterator<Item = &'v JobRow>, Denied> {
        self.access.require_of_cluster(Capability::NodeWrite)?;
        let store = &self.view.store;
        let live = store.nodes().live(row).filter_map(|slot| store.allocs().row(slot));
        let there = live.filter_map(|alloc| store.jobs().row(alloc.job));
        let in_pool = |job: &Job| [&*detail.node.pool, NODE_POOL_ALL].contains(&&*job.node_pool);
        let everywhere = store.jobs().iter().map(|(_, row)| row).filter(move |row| {
            let job = row.job();
            job.job_type.is_per_node() && !job.stop && in_pool(job)
        });
        let jobs = there.chain(everywhere).filter(|row| !row.key.is_purged());
        Ok(jobs.map(|row| (&row.key, row)).collect::<BTreeMap<_, _>>().into_values())
    }

    /// How many allocations have not ended on a node, whoever sees them.
    pub fn live_on(&self, row: &NodeRow) -> usize {
        self.view.store.nodes().live(row).count()
    }
}
