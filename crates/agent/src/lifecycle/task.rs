//! The state of one task: its phase, the progress of its kill, and whether it is to restart.

use super::restart::Window;

/// The longest time between a kill signal and SIGKILL, unless the operator says another.
pub const KILL_TIMEOUT_MS_MAX: u32 = 30_000;

/// How long after a SIGKILL without effect the next one is sent.
pub(super) const KILL_AGAIN_NS: u64 = 10_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// Its allocation may not start yet.
    #[default]
    Waiting,
    /// Its start is on disk, and its allocation is being prepared: there is no process.
    Preparing,
    /// A start was asked for, and has not been answered.
    Starting,
    /// The task's process lives.
    Running,
    /// The pause between two starts.
    Backoff { until_ns: u64 },
    /// Will not start again.
    Dead,
}

/// How far the killing of a task has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kill {
    #[default]
    No,
    /// Its shutdown delay runs.
    Delayed { until_ns: u64 },
    /// The kill signal was sent.
    Requested { force_at_ns: u64 },
    /// SIGKILL was sent.
    Forced { again_at_ns: u64 },
}

/// Whether its end is followed by another start, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Restart {
    #[default]
    No,
    /// A user asked for it; the restart policy does not count it.
    Requested,
    /// A check says that it is not well; its restart policy decides.
    Unhealthy,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Task {
    pub(super) attempt: u32,
    pub(super) phase: Phase,
    pub(super) kill: Kill,
    pub(super) window: Window,
    pub(super) restart: Restart,
    /// Its process lives since then: nanoseconds since the Unix epoch.
    pub(super) since_ns: u64,
    /// It has taken more than it may, and gets no time to end by itself.
    pub(super) overran: bool,
}

impl Task {
    pub(super) fn is_dead(&self) -> bool {
        self.phase == Phase::Dead
    }

    /// When time alone changes something.
    pub(super) fn deadline(&self) -> Option<u64> {
        match (self.phase, self.kill) {
            (Phase::Backoff { until_ns }, _) => Some(until_ns),
            (Phase::Running, Kill::Delayed { until_ns }) => Some(until_ns),
            (Phase::Running, Kill::Requested { force_at_ns }) => Some(force_at_ns),
            (Phase::Running, Kill::Forced { again_at_ns }) => Some(again_at_ns),
            _ => None,
        }
    }
}
