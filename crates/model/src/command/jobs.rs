//! Commands that concern jobs: each carries the evaluation that acts on it.

use std::sync::Arc;

use minicbor::{Decode, Encode};

use crate::{
    ids::{EvalId, Index, JobKey},
    job::{Job, Submission},
    scaling::ScalingEvent,
    time::Timestamp,
};

/// A job and the evaluation that acts on it.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct RegisterJob {
    /// The job as its owner desires it.
    #[n(0)]
    #[cbor(with = "crate::codec::shared")]
    pub job: Arc<Job>,
    /// The evaluation's id.
    #[n(1)]
    pub eval: EvalId,
    /// Only if the job was last registered at this index; 0 for a job that is not there.
    #[n(2)]
    pub only_if: Option<Index>,
    /// How its owner wrote it down.
    #[n(3)]
    #[cbor(with = "crate::codec::shared_option", has_nil)]
    pub submission: Option<Arc<Submission>>,
}

/// A run of another job, which its `parent_id` names: only while that one is there and not stopped, and never over a job
/// that is there.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct RunJob {
    /// The child job that is launched.
    #[n(0)]
    #[cbor(with = "crate::codec::shared")]
    pub job: Arc<Job>,
    /// The evaluation's id.
    #[n(1)]
    pub eval: EvalId,
}

/// A job that should end.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DeregisterJob {
    /// The job.
    #[n(0)]
    pub job: JobKey,
    /// Remove it as soon as its allocations have ended.
    #[n(1)]
    pub purge: bool,
    /// The evaluation's id.
    #[n(2)]
    pub eval: EvalId,
}

/// A change of a group's count, or a message about one.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct ScaleJob {
    /// The job.
    #[n(0)]
    pub job: JobKey,
    /// The group, its count and the evaluation's id, or only a message to keep.
    #[n(1)]
    pub event: ScalingEvent,
}

/// A periodic job that is due.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LaunchJob {
    /// The job.
    #[n(0)]
    pub job: JobKey,
    /// The first time at which it was due that no launch has dealt with.
    #[n(1)]
    pub due: Timestamp,
    /// The time of the run: the same, or a later one when one run makes up for several that were missed.
    #[n(2)]
    pub at: Timestamp,
    /// The evaluation's id.
    #[n(3)]
    pub eval: EvalId,
}
