//! A deployment: how one version of a job replaces the one before, step by step, and how far it has come.

use std::time::Duration;

use minicbor::{Decode, Encode};

use crate::{
    ids::{AllocId, DeploymentId, EvalId, Index, JobKey},
    time::Timestamp,
};

/// Longest account of what went wrong with an allocation.
pub const HEALTH_MESSAGE_BYTES_MAX: usize = 256;

/// Where a deployment is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum DeploymentStatus {
    /// Goes on.
    #[n(0)]
    Running,
    /// An operator holds it.
    #[n(1)]
    Paused,
    /// All of it is healthy.
    #[n(2)]
    Successful,
    /// Something of it did not become healthy, or an operator gave it up.
    #[n(3)]
    Failed,
    /// The job was changed again or stopped before it was through.
    #[n(4)]
    Cancelled,
}

impl DeploymentStatus {
    /// Whether it may still come to something.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Paused)
    }

    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Successful => "successful",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How far a group has come.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct DeploymentGroup {
    /// The group's name.
    #[n(0)]
    pub name: String,
    /// Allocations that must be healthy in the end.
    #[n(1)]
    pub desired_total: u32,
    /// Allocations that must be healthy before any old one is replaced; 0 for none.
    #[n(2)]
    pub desired_canaries: u32,
    /// Old allocations may be replaced. True from the start where there are no canaries.
    #[n(3)]
    pub promoted: bool,
    /// Promoted as soon as all canaries are healthy.
    #[n(4)]
    pub auto_promote: bool,
    /// Back to the last stable version when it fails.
    #[n(5)]
    pub auto_revert: bool,
    /// Time in which another allocation must become healthy; zero for failing at the first unhealthy one.
    #[n(6)]
    #[cbor(with = "crate::codec::duration")]
    pub progress_deadline: Duration,
    /// Versions of the job, with the group's position there, whose allocations go on unchanged and count as its own.
    #[n(7)]
    pub carried: Vec<(u64, u16)>,
    /// Allocations that were placed or carried over.
    #[n(8)]
    pub placed: u32,
    /// Of these, the ones that are desired to run no more, or have ended by themselves.
    #[n(9)]
    pub gone: u32,
    /// Of those that are there, the healthy ones.
    #[n(10)]
    pub healthy: u32,
    /// How often one of them was found unhealthy.
    #[n(11)]
    pub unhealthy: u32,
    /// Those that were placed as canaries.
    #[n(12)]
    pub canaries: Vec<AllocId>,
    /// When the next one must have become healthy; zero as long as nothing was placed.
    #[n(13)]
    pub require_progress_by: Timestamp,
    /// The last one that was found unhealthy, and why.
    #[n(14)]
    pub culprit: Option<UnhealthyAlloc>,
}

/// An allocation that was found unhealthy.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct UnhealthyAlloc {
    /// The allocation.
    #[n(0)]
    pub alloc: AllocId,
    /// Its last task event, or what its agent waited for in vain.
    #[n(1)]
    pub message: String,
}

/// A deployment.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Deployment {
    /// Its id.
    #[n(0)]
    pub id: DeploymentId,
    /// The job.
    #[n(1)]
    pub job: JobKey,
    /// The version that is being rolled out.
    #[n(2)]
    pub job_version: u64,
    /// Where it is in its life.
    #[n(3)]
    pub status: DeploymentStatus,
    /// In words, what it is.
    #[n(4)]
    pub description: String,
    /// Groups that are rolled out, in the order of the job.
    #[n(5)]
    pub groups: Vec<DeploymentGroup>,
    /// When it was made.
    #[n(6)]
    pub created_at: Timestamp,
    /// When it last changed.
    #[n(7)]
    pub modified_at: Timestamp,
    /// Where it was made.
    #[n(8)]
    pub create_index: Index,
    /// Where it last changed.
    #[n(9)]
    pub modify_index: Index,
    /// Where its job was first registered: a job of the same name that comes later is another.
    #[n(10)]
    pub job_create_index: Index,
}

impl DeploymentGroup {
    /// Those that are there.
    pub fn live(&self) -> u32 {
        self.placed.saturating_sub(self.gone)
    }

    /// Whether it waits for its promotion.
    pub fn is_canarying(&self) -> bool {
        self.desired_canaries > 0 && !self.promoted
    }

    /// Whether all that it must show has been shown.
    pub fn is_healthy(&self) -> bool {
        self.promoted && self.healthy >= self.desired_total && self.healthy == self.live()
    }

    /// Whether an allocation of this version of the job, at this position of its group, is one of it.
    pub fn carries(&self, version: u64, group: u16) -> bool {
        self.carried.contains(&(version, group))
    }
}

impl Deployment {
    /// The group of that name.
    pub fn group(&self, name: &str) -> Option<&DeploymentGroup> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Whether it may still come to something.
    pub fn is_active(&self) -> bool {
        self.status.is_active()
    }
}

/// A deployment as a plan asks for it. What it carries over is counted when it is applied.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NewDeployment {
    /// Its id.
    #[n(0)]
    pub id: DeploymentId,
    /// At least one.
    #[n(1)]
    pub groups: Vec<DeploymentGroup>,
}

/// What an agent found of an allocation's health, as evidence of its deployment.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AllocHealth {
    /// The allocation.
    #[n(0)]
    pub alloc: AllocId,
    /// Whether it is well.
    #[n(1)]
    pub healthy: bool,
    /// Why not, cut to [`HEALTH_MESSAGE_BYTES_MAX`]; empty when it is well.
    #[n(2)]
    pub message: String,
    /// The version of its job to which it was updated while it ran, and of which this was found; none for as it was placed.
    /// Not in entries before version 4.
    #[n(3)]
    pub revision: Option<u64>,
}

/// Something becomes of a deployment that is active; of any other this changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SetDeployment {
    /// The deployment.
    #[n(0)]
    pub id: DeploymentId,
    /// The status to set.
    #[n(1)]
    pub status: DeploymentStatus,
    /// In words, what it is.
    #[n(2)]
    pub description: String,
    /// The version of the job that takes its place again, byte for byte, as a new version.
    #[n(3)]
    pub revert_to: Option<u64>,
    /// The id of the evaluation that goes on with the job; none when there is nothing to go on with.
    #[n(4)]
    pub eval: Option<EvalId>,
}

/// Old allocations may be replaced: the canaries have shown enough.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PromoteDeployment {
    /// The deployment.
    #[n(0)]
    pub id: DeploymentId,
    /// The names of groups; none for all of them.
    #[n(1)]
    pub groups: Option<Vec<String>>,
    /// The id of the evaluation that goes on with the job.
    #[n(2)]
    pub eval: EvalId,
}
