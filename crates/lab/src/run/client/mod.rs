//! Clients of a cluster: they submit jobs, and follow the event stream. All times are taken by their clock.

mod clock;
mod event;
mod follow;
mod job;
mod submit;

pub(super) use clock::RunClock;
pub(super) use event::{AllocEvent, AllocStatus, DeploymentEvent, EventBatch};
#[cfg(test)]
pub(super) use event::{EvalEvent, TaskTimes};
pub(super) use follow::{EventFollower, FollowedTopics};
pub(super) use job::{JobIds, JobTemplate};
pub(super) use submit::{JobTimes, Submission, SubmittedJobs, clean_up};
