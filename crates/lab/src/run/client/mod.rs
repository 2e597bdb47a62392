//! What clients of a cluster do: submit jobs, and follow the event stream. Clocks are theirs.

mod clock;
mod event;
mod follow;
mod job;
mod submit;

pub(super) use clock::Clock;
pub(super) use event::{AllocSeen, DeploymentSeen, Seen, Status};
#[cfg(test)]
pub(super) use event::{EvalSeen, TaskTimes};
pub(super) use follow::{Follower, Topics};
pub(super) use job::{JobIds, JobTemplate};
pub(super) use submit::{JobTimes, Jobs, Submission, clean_up};
