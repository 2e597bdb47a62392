//! What happens when a task ends: restart on its node, then move to another.

use std::time::Duration;

use minicbor::{Decode, Encode};

use super::{JobType, seconds};

/// What the agent does once a task has used up its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum RestartMode {
    /// The allocation has failed.
    #[n(0)]
    Fail,
    /// Wait for the interval to end, then try again.
    #[n(1)]
    Delay,
}

/// How often a task is started again on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct RestartPolicy {
    /// Restarts allowed in one interval.
    #[n(0)]
    pub attempts: u32,
    /// The window in which attempts are counted.
    #[n(1)]
    #[cbor(with = "crate::codec::duration")]
    pub interval: Duration,
    /// Waited before each restart, plus up to a quarter at random.
    #[n(2)]
    #[cbor(with = "crate::codec::duration")]
    pub delay: Duration,
    /// Once attempts are used up.
    #[n(3)]
    pub mode: RestartMode,
    /// Render the task's templates again.
    #[n(4)]
    pub render_templates: bool,
}

/// How the delay between two tries grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum DelayFunction {
    /// Always the same.
    #[n(0)]
    Constant,
    /// Doubles.
    #[n(1)]
    Exponential,
    /// Each the sum of the two before.
    #[n(2)]
    Fibonacci,
}

/// How often a failed allocation is replaced by a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ReschedulePolicy {
    /// Replacements allowed in one interval, unless unlimited.
    #[n(0)]
    pub attempts: u32,
    /// The window in which attempts are counted.
    #[n(1)]
    #[cbor(with = "crate::codec::duration")]
    pub interval: Duration,
    /// Before the first replacement; at least 5 s.
    #[n(2)]
    #[cbor(with = "crate::codec::duration")]
    pub delay: Duration,
    /// How the delay grows.
    #[n(3)]
    pub backoff: DelayFunction,
    /// It grows no further than this.
    #[n(4)]
    #[cbor(with = "crate::codec::duration")]
    pub max_delay: Duration,
    /// Ignore attempts and interval.
    #[n(5)]
    pub unlimited: bool,
}

impl RestartPolicy {
    /// Nomad's default for a type of job.
    pub fn default_for(job_type: JobType) -> Self {
        let (attempts, interval) = if job_type.runs_to_completion() { (3, 24 * 3600) } else { (2, 30 * 60) };
        Self {
            attempts,
            interval: seconds(interval),
            delay: seconds(15),
            mode: RestartMode::Fail,
            render_templates: false,
        }
    }
}

impl ReschedulePolicy {
    /// Whether it allows any replacement at all.
    pub fn is_enabled(&self) -> bool {
        self.unlimited || self.attempts > 0
    }

    /// Nomad's default for a type of job: services move forever, batch work once a day, per-node work never.
    pub fn default_for(job_type: JobType) -> Self {
        match job_type {
            JobType::Service => Self {
                attempts: 0,
                interval: seconds(0),
                delay: seconds(30),
                backoff: DelayFunction::Exponential,
                max_delay: seconds(3600),
                unlimited: true,
            },
            JobType::Batch => Self {
                attempts: 1,
                interval: seconds(24 * 3600),
                delay: seconds(5),
                backoff: DelayFunction::Constant,
                max_delay: seconds(0),
                unlimited: false,
            },
            JobType::System | JobType::Sysbatch => Self {
                attempts: 0,
                interval: seconds(0),
                delay: seconds(0),
                backoff: DelayFunction::Constant,
                max_delay: seconds(0),
                unlimited: false,
            },
        }
    }
}
