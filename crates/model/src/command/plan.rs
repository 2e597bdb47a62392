//! Plans as they are written to the log.

use minicbor::{Decode, Encode};

use super::ENTRY_VERSION_MIN;
use crate::{
    alloc::{Placement, Stop, StopReason},
    deployment::NewDeployment,
    eval::{EvalStatus, Failures, Trigger},
    ids::{AllocId, EvalId, Index, JobKey},
    time::Timestamp,
};

/// What one evaluation decided, or one part of it when it is too large for one entry.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct PlanRecord {
    /// The evaluation.
    #[n(0)]
    pub eval: EvalId,
    /// Its job.
    #[n(1)]
    pub job: JobKey,
    /// The version of the job that was planned.
    #[n(2)]
    pub job_version: u64,
    /// The state on which it was planned.
    #[n(3)]
    pub snapshot_index: Index,
    /// Allocations to place.
    #[n(4)]
    pub placements: Vec<Placement>,
    /// Allocations to stop.
    #[n(5)]
    pub stops: Vec<Stop>,
    /// What becomes of the evaluation; none when more of its plan is to come.
    #[n(6)]
    pub outcome: Option<EvalOutcome>,
    /// The deployment of the job's version, made with the first part of its first plan.
    #[n(7)]
    pub deployment: Option<Box<NewDeployment>>,
    /// Allocations of older versions that go on under this one where they are; none for none. Not in entries before
    /// version 4.
    #[n(8)]
    pub updates: Option<Vec<AllocId>>,
}

/// What becomes of an evaluation that has been planned.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EvalOutcome {
    /// A terminal status; or blocked, of one that waited for capacity and goes on waiting for what is left.
    #[n(0)]
    pub status: EvalStatus,
    /// Why it has that status, for users.
    #[n(1)]
    pub description: String,
    /// What could not be placed, and why.
    #[n(2)]
    pub failures: Failures,
    /// The evaluation to make for what is left to be done.
    #[n(3)]
    pub next: Vec<NextEval>,
}

/// An evaluation made by another one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NextEval {
    /// Its id.
    #[n(0)]
    pub id: EvalId,
    /// Blocked, or pending with a time before which it must not run.
    #[n(1)]
    pub status: EvalStatus,
    /// Why it is made.
    #[n(2)]
    pub trigger: Trigger,
    /// Not before this; zero for at once.
    #[n(3)]
    pub wait_until: Timestamp,
}

impl PlanRecord {
    /// The version of entries from which on it can be written as it is.
    pub(super) fn since(&self) -> u8 {
        if self.stops.iter().any(|stop| stop.observed_at.is_some()) {
            return 6;
        }
        if self.placements.iter().any(|placement| placement.job_version.is_some()) {
            return 5;
        }
        let rescheduled = self.placements.iter().flat_map(|placement| &placement.reschedules);
        let stops = self.stops.iter().map(|stop| stop.reason);
        let next = self.outcome.iter().flat_map(|outcome| &outcome.next);
        let is_new = self.updates.is_some()
            || rescheduled.clone().any(|event| event.of.is_some())
            || stops.clone().any(|reason| {
                matches!(reason, StopReason::Migrated | StopReason::Drained)
                    || matches!(reason, StopReason::ReplacementKept | StopReason::OriginalKept)
            })
            || next.clone().any(|next| next.trigger.since() > ENTRY_VERSION_MIN);
        if is_new { 4 } else { ENTRY_VERSION_MIN }
    }
}
