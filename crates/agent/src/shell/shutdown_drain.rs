//! Drains the node before the agent stops: the servers drain it, and the agent waits until what runs there has ended.

use std::time::Duration;

use berth_api::agent::{Leaving as LeavingRequest, Up};

use super::Agent;

/// How long what is stopped at the deadline has to end, besides what its delays and kill timeouts take.
const AFTER_DEADLINE_BEYOND: Duration = Duration::from_secs(30);
/// How long the agent waits, after all has ended, until the ends are in the servers' log: an agent that stops earlier may have
/// finished work run again elsewhere.
const REPORTED_WITHIN: Duration = Duration::from_secs(15);

/// How a node is drained before its agent stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainOnShutdown {
    /// What is left then is stopped; none for as long as it takes.
    pub deadline: Option<Duration>,
    /// All of it is stopped at once.
    pub force: bool,
    /// What runs on every node stays, and runs on without the agent.
    pub ignore_system: bool,
}

impl Default for DrainOnShutdown {
    fn default() -> Self {
        Self { deadline: Some(Duration::from_secs(60 * 60)), force: false, ignore_system: false }
    }
}

/// A drain that is in progress.
#[derive(Debug)]
pub(super) struct ShutdownDrain {
    how: DrainOnShutdown,
    /// Nanoseconds since the Unix epoch: what is left then is stopped.
    deadline_ns: Option<u64>,
    /// The longest time that something here has needed, or may need, to end once it is stopped.
    ending_max: Duration,
    /// Whether the drain was requested on the present connection.
    requested: bool,
    /// Nothing is left to end since then, nanoseconds since the Unix epoch; what ended may still have to be reported.
    ended_ns: Option<u64>,
}

impl ShutdownDrain {
    pub(super) fn begin(how: DrainOnShutdown, now_ns: u64) -> Self {
        let deadline = if how.force { Some(Duration::ZERO) } else { how.deadline };
        let deadline_ns = deadline.map(|span| now_ns.saturating_add(nanos(span)));
        Self { how, deadline_ns, ending_max: Duration::ZERO, requested: false, ended_ns: None }
    }

    /// Gives what is stopped at the deadline at least so long to end.
    fn allow(&mut self, ending: Duration) {
        self.ending_max = self.ending_max.max(ending);
    }

    /// When the agent stops, whatever still runs or is still to be reported.
    pub(super) fn deadline_at(&self) -> Option<u64> {
        let report_deadline = self.ended_ns.map(|at_ns| at_ns.saturating_add(nanos(REPORTED_WITHIN)));
        let after_deadline_ns = nanos(self.ending_max.saturating_add(AFTER_DEADLINE_BEYOND));
        let over = self.deadline_ns.map(|at_ns| at_ns.saturating_add(after_deadline_ns));
        report_deadline.into_iter().chain(over).min()
    }

    fn request(&self, secret: Vec<u8>, now_ns: u64) -> LeavingRequest {
        let DrainOnShutdown { force, ignore_system, .. } = self.how;
        // Whoever asks again on another connection gets no more time.
        let left_ns = self.deadline_ns.map(|at_ns| at_ns.saturating_sub(now_ns));
        LeavingRequest {
            secret,
            deadline_ms: left_ns.map(|left_ns| (left_ns / 1_000_000).max(1)).unwrap_or(0),
            force,
            ignore_system,
        }
    }
}

impl Agent {
    /// Asks a server to drain the node, once on each connection: each time the first server may be gone before it did.
    pub(super) fn request_drain(&self, shutdown_drain: &mut ShutdownDrain) {
        shutdown_drain.requested &= self.session.is_open();
        let Some(up) = self.up.as_ref().filter(|_| self.session.is_open() && !shutdown_drain.requested)
        else {
            return;
        };
        let request = shutdown_drain.request(self.identity.secret.clone(), self.clock.now_ns());
        shutdown_drain.requested = up.session.try_send(Up::Leaving(request)).is_ok();
        if shutdown_drain.requested {
            tracing::info!("the node is drained before the agent stops; a second signal stops it at once");
        }
    }

    /// Whether nothing is left that the node is emptied of, and the servers have written down how it ended.
    pub(super) fn has_left(&self, shutdown_drain: &mut ShutdownDrain) -> bool {
        shutdown_drain.allow(self.ending_max());
        let is_system = |kind: &str| matches!(kind, "system" | "sysbatch");
        let stays = |kind: &str| shutdown_drain.how.ignore_system && is_system(kind);
        let left = || self.node.allocs().filter(|alloc| !stays(&alloc.spec().group.job_type));
        let (is_reported, has_ended) = (left().next().is_none(), left().all(|alloc| alloc.has_ended()));
        let ended_ns = shutdown_drain.ended_ns.unwrap_or_else(|| self.clock.now_ns());
        shutdown_drain.ended_ns = (shutdown_drain.requested && has_ended).then_some(ended_ns);
        shutdown_drain.requested && is_reported
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_second_connection_gets_no_more_time() {
        let how = DrainOnShutdown { deadline: Some(Duration::from_secs(60)), ..DrainOnShutdown::default() };
        let shutdown_drain = ShutdownDrain::begin(how, 10 * SECOND);
        assert_eq!(shutdown_drain.request(Vec::new(), 10 * SECOND).deadline_ms, 60_000);
        assert_eq!(shutdown_drain.request(Vec::new(), 30 * SECOND).deadline_ms, 40_000);
        assert_eq!(shutdown_drain.request(Vec::new(), 300 * SECOND).deadline_ms, 1, "0 would be for ever");
        assert_eq!(shutdown_drain.deadline_at(), Some(100 * SECOND));
    }

    /// Otherwise the agent is gone before SIGKILL is due, and tasks that do not end by themselves run on without it.
    #[test]
    fn tasks_have_the_time_to_end_after_the_deadline_however_long_that_may_be() {
        let how = DrainOnShutdown { force: true, ..DrainOnShutdown::default() };
        let mut shutdown_drain = ShutdownDrain::begin(how, SECOND);
        shutdown_drain.allow(Duration::from_secs(600));
        shutdown_drain.allow(Duration::ZERO);
        assert_eq!(shutdown_drain.deadline_at(), Some((1 + 600 + 30) * SECOND));
    }

    #[test]
    fn without_a_deadline_it_waits_for_as_long_as_it_takes() {
        let how = DrainOnShutdown { deadline: None, ..DrainOnShutdown::default() };
        let shutdown_drain = ShutdownDrain::begin(how, SECOND);
        assert_eq!(
            (shutdown_drain.request(Vec::new(), 9 * SECOND).deadline_ms, shutdown_drain.deadline_at()),
            (0, None)
        );
        let force = DrainOnShutdown { force: true, ..how };
        let forced = ShutdownDrain::begin(force, SECOND);
        assert!(forced.deadline_at().is_some());
    }
}
