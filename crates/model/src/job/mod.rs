//! A job: what its owner wishes to run, as groups of tasks.

mod group;
mod policy;
mod task;

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use crate::{
    constraint::{Constraint, Spread},
    ids::JobKey,
};

pub use group::{EphemeralDisk, Group, Network, Port};
pub use policy::{Backoff, ReschedulePolicy, RestartMode, RestartPolicy};
pub use task::{LogConfig, Task, TaskResources};

/// Versions of a job that are kept, the current one included.
pub const JOB_VERSIONS_MAX: usize = 6;
/// Allocations that one group may ask for.
pub const GROUP_COUNT_MAX: u32 = 50_000;
/// Priority of a job that does not say.
pub const PRIORITY_DEFAULT: u8 = 50;

/// How a job's allocations live and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum JobType {
    /// Runs until stopped.
    #[n(0)]
    Service,
    /// Runs until it succeeds.
    #[n(1)]
    Batch,
    /// One on each eligible node, until stopped.
    #[n(2)]
    System,
    /// One on each eligible node, until it succeeds.
    #[n(3)]
    Sysbatch,
}

impl JobType {
    /// The word used in job files and in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Batch => "batch",
            Self::System => "system",
            Self::Sysbatch => "sysbatch",
        }
    }

    /// Reads that word.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Service, Self::Batch, Self::System, Self::Sysbatch].into_iter().find(|t| t.as_str() == text)
    }

    /// Whether a task that ended well is done for good.
    pub fn runs_to_completion(self) -> bool {
        matches!(self, Self::Batch | Self::Sysbatch)
    }

    /// Whether it wants one allocation on each eligible node instead of a count.
    pub fn is_per_node(self) -> bool {
        matches!(self, Self::System | Self::Sysbatch)
    }
}

/// A job as its owner wrote it, every default filled in.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Job {
    /// Namespace and id.
    #[n(0)]
    pub key: JobKey,
    /// For people; the id when not given.
    #[n(1)]
    pub name: String,
    /// Kept for clients that send it; there is one region.
    #[n(2)]
    pub region: String,
    /// Service, batch, system or sysbatch.
    #[n(3)]
    pub job_type: JobType,
    /// 1 to 100; more goes first.
    #[n(4)]
    pub priority: u8,
    /// Place all groups or none.
    #[n(5)]
    pub all_at_once: bool,
    /// Names or globs; `*` for any.
    #[n(6)]
    pub datacenters: Vec<String>,
    /// The pool whose nodes may run it; `all` for any.
    #[n(7)]
    pub node_pool: String,
    /// The owner's own labels.
    #[n(8)]
    pub meta: BTreeMap<String, String>,
    /// Apply to every group.
    #[n(9)]
    pub constraints: Vec<Constraint>,
    /// Apply to every group.
    #[n(10)]
    pub spreads: Vec<Spread>,
    /// At least one.
    #[n(11)]
    pub groups: Vec<Group>,
    /// Whether its owner wishes it stopped.
    #[n(12)]
    pub stop: bool,
}

impl Job {
    /// The group of that name and its position.
    pub fn group(&self, name: &str) -> Option<(u16, &Group)> {
        let at = self.groups.iter().position(|g| g.name == name)?;
        Some((u16::try_from(at).ok()?, &self.groups[at]))
    }
}
