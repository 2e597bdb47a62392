//! The outcome of one evaluation: what to place, what to stop, what could not be placed and why.

use berth_model::{
    AllocId, EvalId, Index, JobKey, Timestamp,
    alloc::{Placement, Stop},
    deployment::NewDeployment,
    eval::{EvalStatus, GroupFailure, Trigger},
    quota::Usage,
    resources::Resources,
};

use crate::claims::Claim;

/// A proposal; nothing has changed yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The evaluation it answers.
    pub eval: EvalId,
    /// The job it is about.
    pub job: JobKey,
    /// The version of the job that was planned.
    pub job_version: u64,
    /// The state on which it rests.
    pub snapshot_index: Index,
    /// Place all or nothing.
    pub all_at_once: bool,
    /// What each new allocation holds, in the order of `placements`.
    pub holds: Vec<Usage>,
    /// What each adds to what its node holds: less where predecessors leave it capacity.
    pub charges: Vec<Resources>,
    /// What the new allocations add to what their namespace holds; counted only where quotas are.
    pub pledge: Usage,
    /// Allocations to be.
    pub placements: Vec<Placement>,
    /// Allocations to end.
    pub stops: Vec<Stop>,
    /// Allocations of older versions that go on under this one where they are.
    pub updates: Vec<AllocId>,
    /// What could not be placed, and why.
    pub failures: Vec<GroupFailure>,
    /// The deployment to make for the job's version.
    pub deployment: Option<Box<NewDeployment>>,
    /// Evaluations to make for what is left to be done.
    pub next: Vec<FollowUpEval>,
    /// The budget did not reach for all of it: once this is committed, the evaluation is to be planned again.
    pub more: bool,
}

/// An evaluation to be made; whoever commits the plan gives it an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowUpEval {
    /// Blocked, or pending with a time before which it must not run.
    pub status: EvalStatus,
    /// Why it is made.
    pub trigger: Trigger,
    /// Not before this; zero for at once.
    pub wait_until: Timestamp,
}

impl Plan {
    /// What it takes, for the planners that work on a state that does not show it yet.
    pub fn claims(&self) -> impl Iterator<Item = Claim> {
        self.placements.iter().zip(&self.holds).map(|(placement, holds)| Claim::of(placement, holds.clone()))
    }

    /// Whether committing it would change nothing but the evaluation.
    pub fn is_noop(&self) -> bool {
        self.placements.is_empty()
            && self.stops.is_empty()
            && self.updates.is_empty()
            && self.deployment.is_none()
    }
}
