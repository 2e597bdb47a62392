//! The replicated state: one table a file, an O(1) clone, and the pure `apply` that alone changes it.

mod acl;
mod allocs;
mod apply;
mod deployments;
mod devices_held;
mod digest;
mod evals;
mod id_map;
mod jobs;
mod joins;
mod keyring;
mod launches;
mod namespaces;
mod node_pools;
mod nodes;
mod page_tree;
mod places;
mod postings;
mod quotas;
mod reachability;
mod results;
mod slab;
pub mod snapshot;
mod tally;
mod variables;

pub use acl::{Acl, AclRules};
pub use allocs::{AllocDetail, AllocExtra, AllocRow, AllocSlot, Allocs};
pub use deployments::Deployments;
pub use evals::{EvalSlot, Evals};
pub use jobs::{GroupCounts, JobRow, JobSlot, JobStatus, JobVersion, Jobs};
pub use joins::Joins;
pub use keyring::Keyring;
pub use launches::Launch;
pub use namespaces::{NamespaceRow, NamespaceSlot, Namespaces};
pub use node_pools::{NodePoolRow, NodePools};
pub use nodes::{LiveTotals, NodeDetail, NodeRow, NodeSlot, Nodes, SchedulingEligibility};
pub use page_tree::PageTree;
pub use quotas::{QuotaRow, Quotas};
pub use reachability::Reachability;
pub use results::TaskResults;
pub use slab::Slot;
pub use variables::{VariableTotals, Variables};

use std::sync::Arc;

use crate::{
    alloc::{ClientStatus, StopReason},
    cluster::ClusterIdentity,
    ids::{AllocId, EvalId, Index, JobKey, NodeId},
    job::{Group, Job},
    scheduling::SchedulerConfig,
    time::Timestamp,
};

/// The replicated state at one index. A clone is a snapshot: O(1), and never changed by later writes.
#[derive(Debug, Clone, Default)]
pub struct Store {
    index: Index,
    at: Timestamp,
    granted: Index,
    /// Of the newest entry that was applied.
    version: u8,
    nodes: Nodes,
    jobs: Jobs,
    allocs: Allocs,
    evals: Evals,
    deployments: Deployments,
    namespaces: Namespaces,
    quotas: Quotas,
    node_pools: NodePools,
    acl: Acl,
    keyring: Keyring,
    variables: Variables,
    scheduler_config: Arc<SchedulerConfig>,
    cluster: Arc<ClusterIdentity>,
    /// Where a snapshot last replaced the state; 0 for never.
    restored_at: Index,
    /// A snapshot that is on its way through the log. Not part of snapshots: none is written meanwhile.
    restoring: Option<Arc<snapshot::PartialRestore>>,
}

impl Store {
    /// The index of the last entry applied.
    pub fn index(&self) -> Index {
        self.index
    }

    /// The newest version of the entries that were applied; 0 for none. It never falls, and every server of the cluster
    /// knows it.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// The time of the last entry applied.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// The last index that a leader may mint; a new leader begins after it.
    pub fn granted(&self) -> Index {
        self.granted
    }

    /// Where a snapshot last replaced the state; 0 for never. What was planned before is void.
    pub fn restored_at(&self) -> Index {
        self.restored_at
    }

    /// Which cluster this is, and whose snapshots were restored into it.
    pub fn cluster(&self) -> &ClusterIdentity {
        &self.cluster
    }

    /// Whether part of a snapshot that is to replace the state has come.
    pub fn is_restoring(&self) -> bool {
        self.restoring.is_some()
    }

    /// All nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// All jobs.
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// All allocations.
    pub fn allocs(&self) -> &Allocs {
        &self.allocs
    }

    /// All evaluations.
    pub fn evals(&self) -> &Evals {
        &self.evals
    }

    /// All deployments.
    pub fn deployments(&self) -> &Deployments {
        &self.deployments
    }

    /// All namespaces.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// All quotas.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// All node pools that operators have described.
    pub fn node_pools(&self) -> &NodePools {
        &self.node_pools
    }

    /// All policies, roles and tokens.
    pub fn acl(&self) -> &Acl {
        &self.acl
    }

    /// All root keys.
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// All variables.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// How the cluster places, as operators set it.
    pub fn scheduler_config(&self) -> &Arc<SchedulerConfig> {
        &self.scheduler_config
    }

    /// A job by its key.
    pub fn job(&self, key: &JobKey) -> Option<&JobRow> {
        self.jobs.row(self.jobs.find(key)?)
    }

    /// A node by its id.
    #[inline]
    pub fn node(&self, id: NodeId) -> Option<(NodeSlot, &NodeRow)> {
        let slot = self.nodes.find(id)?;
        Some((slot, self.nodes.row(slot)?))
    }

    /// An allocation by its id.
    #[inline]
    pub fn alloc(&self, id: AllocId) -> Option<(AllocSlot, &AllocRow)> {
        let slot = self.allocs.find(id)?;
        Some((slot, self.allocs.row(slot)?))
    }

    /// An evaluation by its id.
    pub fn eval(&self, id: EvalId) -> Option<&Arc<crate::eval::Eval>> {
        self.evals.get(id)
    }

    /// The version of its job that an allocation runs, and its group there.
    #[inline]
    pub fn job_of(&self, row: &AllocRow) -> Option<(&Arc<Job>, &Group)> {
        let job = &self.jobs.row(row.job)?.version(row.job_version)?.job;
        Some((job, job.groups.get(usize::from(row.group))?))
    }

    /// Whether an allocation has ended because it was declared lost, and not because its agent has said so: it may run on.
    pub fn was_declared_lost(&self, slot: AllocSlot) -> bool {
        let is_lost = self.allocs.row(slot).is_some_and(|row| row.client == ClientStatus::Lost);
        let reason = || self.allocs.extra(slot).and_then(|extra| extra.stop_reason);
        is_lost && matches!(reason(), Some(StopReason::NodeLost | StopReason::OriginalKept))
    }

    /// The hash of all that a snapshot holds: equal on every server at the same index, and after a restore. What is
    /// counted from that (what nodes and tenants hold, how much lives) follows from it and is left out.
    pub fn hash(&self) -> u128 {
        let indexes = (self.table_indexes(), self.deployments.modify_index);
        let tables = [
            digest::hash_encoded(b'h', &(self.at, self.granted, self.restored_at, indexes)),
            self.nodes.digest(),
            self.jobs.digest(),
            self.allocs.digest(),
            self.evals.digest(),
            self.deployments.digest(),
            self.namespaces.digest(),
            self.quotas.digest(),
            digest::hash_encoded(b'c', &*self.scheduler_config),
            digest::hash_encoded(b'i', &*self.cluster),
        ];
        // What was written before there were policies and tokens has none.
        let acl = (self.acl.modify_index != Index(0)).then(|| {
            self.acl.digest() ^ digest::hash_encoded(b'a', &(self.acl.modify_index, self.acl.bootstrapped_at))
        });
        // As it is with these.
        let keyring = (self.keyring.modify_index != Index(0))
            .then(|| self.keyring.digest() ^ digest::hash_encoded(b'y', &self.keyring.modify_index));
        let variables = (self.variables.modify_index != Index(0))
            .then(|| self.variables.digest() ^ digest::hash_encoded(b'z', &self.variables.modify_index));
        let pools = (self.node_pools.modify_index != Index(0))
            .then(|| self.node_pools.digest() ^ digest::hash_encoded(b'p', &self.node_pools.modify_index));
        let tables = tables.into_iter().chain(acl).chain(keyring).chain(variables).chain(pools);
        tables.fold(u128::from(self.index.0), |sum, table| sum.rotate_left(17) ^ table)
    }

    /// The hash of an allocation's job and node.
    fn owners_hash(&self, row: &AllocRow) -> u128 {
        let job = self.jobs.row(row.job).map_or(0, |job| job.key_hash);
        let node = self.nodes.row(row.node).map_or(NodeId::default(), |node| node.id);
        allocs::owners_hash(row.id, job, node)
    }

    /// Where each table last changed: nodes, jobs, allocations, evaluations, namespaces, quotas.
    fn table_indexes(&self) -> [Index; 6] {
        [
            self.nodes.modify_index,
            self.jobs.modify_index,
            self.allocs.modify_index,
            self.evals.modify_index,
            self.namespaces.modify_index,
            self.quotas.modify_index,
        ]
    }

    fn set_table_indexes(&mut self, indexes: [Index; 6]) {
        [
            self.nodes.modify_index,
            self.jobs.modify_index,
            self.allocs.modify_index,
            self.evals.modify_index,
            self.namespaces.modify_index,
            self.quotas.modify_index,
        ] = indexes;
    }

    /// Bytes copied by writes because a snapshot still shared them.
    pub fn copied_bytes(&self) -> u64 {
        self.nodes.copied_bytes()
            + self.jobs.copied_bytes()
            + self.allocs.copied_bytes()
            + self.evals.copied_bytes()
            + self.namespaces.copied_bytes()
    }
}
