//! How the cluster places, as operators set it: for all pools, and differently for some.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use crate::{ids::Index, job::JobType};

/// Which of two nodes with capacity is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum Algorithm {
    /// The fuller one, so that others stay free for what is large.
    #[default]
    #[n(0)]
    BinPack,
    /// The emptier one, so that load is even.
    #[n(1)]
    Spread,
}

impl Algorithm {
    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BinPack => "binpack",
            Self::Spread => "spread",
        }
    }

    /// Parses the API's spelling; none for any other.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::BinPack, Self::Spread].into_iter().find(|algorithm| algorithm.as_str() == text)
    }
}

/// What operators have set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Encode, Decode)]
pub struct SchedulerConfig {
    /// In pools that do not say.
    #[n(0)]
    pub algorithm: Algorithm,
    /// In pools that do not say: whether tasks may use up to their `memory_max_mb`.
    #[n(1)]
    pub memory_oversubscription: bool,
    /// Whose work may preempt work of lower priority.
    #[n(2)]
    pub preemption: Preemption,
    /// Pools that differ, by name.
    #[n(3)]
    pub pools: BTreeMap<String, PoolConfig>,
    /// Where it was first set; set by apply.
    #[n(4)]
    pub create_index: Index,
    /// Where it was last set; set by apply.
    #[n(5)]
    pub modify_index: Index,
    /// Of a hundred nodes, how many may be declared lost at a time; none for [`LOST_NODES_MAX_PERCENT`].
    #[n(6)]
    pub lost_nodes_max_percent: Option<u8>,
}

/// Of a hundred nodes, how many may be declared lost at a time, unless operators say otherwise. More than the third that
/// is gone with one of three sites, and less than the half behind a broken switch.
pub const LOST_NODES_MAX_PERCENT: u8 = 40;

/// What one pool sets differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Encode, Decode)]
pub struct PoolConfig {
    /// None for the cluster's.
    #[n(0)]
    pub algorithm: Option<Algorithm>,
    /// None for the cluster's.
    #[n(1)]
    pub memory_oversubscription: Option<bool>,
}

/// Which types of job may preempt allocations of lower priority when there is no capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Preemption {
    /// On unless set otherwise: a system job is meant to run everywhere.
    #[n(0)]
    pub system: bool,
    /// Off unless set otherwise.
    #[n(1)]
    pub sysbatch: bool,
    /// Off unless set otherwise.
    #[n(2)]
    pub service: bool,
    /// Off unless set otherwise.
    #[n(3)]
    pub batch: bool,
    /// Whether batch jobs may preempt batch work too, where they may preempt at all; off unless set otherwise.
    #[n(4)]
    pub batch_on_batch: bool,
}

impl Default for Preemption {
    fn default() -> Self {
        Self { system: true, sysbatch: false, service: false, batch: false, batch_on_batch: false }
    }
}

impl Preemption {
    /// Whether jobs of a type may preempt others.
    pub fn is_on_for(&self, job_type: JobType) -> bool {
        match job_type {
            JobType::System => self.system,
            JobType::Sysbatch => self.sysbatch,
            JobType::Service => self.service,
            JobType::Batch => self.batch,
        }
    }
}

impl SchedulerConfig {
    /// The algorithm of jobs of a pool.
    pub fn algorithm(&self, pool: &str) -> Algorithm {
        self.pools.get(pool).and_then(|pool| pool.algorithm).unwrap_or(self.algorithm)
    }

    /// Whether tasks on nodes of a pool may use up to their `memory_max_mb`.
    pub fn memory_oversubscription(&self, pool: &str) -> bool {
        let own = self.pools.get(pool).and_then(|pool| pool.memory_oversubscription);
        own.unwrap_or(self.memory_oversubscription)
    }

    /// Of a hundred nodes, how many may be declared lost at a time.
    pub fn lost_nodes_max_percent(&self) -> u8 {
        self.lost_nodes_max_percent.unwrap_or(LOST_NODES_MAX_PERCENT)
    }
}
