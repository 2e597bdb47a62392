//! An agent that empties its node before it stops: the servers drain the node, and the agent waits for the end of what
//! runs there.

use std::time::Duration;

use berth_api::agent::{Leaving as LeavingRequest, Up};

use super::Agent;

/// What is stopped at the deadline is given so long to end: twice the longest kill timeout, and some more to be reported.
const AFTER_DEADLINE: Duration = Duration::from_secs(90);
/// Until an end is in the servers' log: who stops before may have work that is done run again elsewhere.
const TOLD_WITHIN: Duration = Duration::from_secs(15);

/// How a node is emptied before its agent stops.
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

/// A node that is being emptied.
#[derive(Debug)]
pub(super) struct Leaving {
    how: DrainOnShutdown,
    /// Nanoseconds since the Unix epoch: what is left then is stopped.
    deadline_ns: Option<u64>,
    /// A server was asked, on the present connection.
    said: bool,
    /// Nothing is left to end since then, nanoseconds since the Unix epoch; what ended may still have to be reported.
    ended_ns: Option<u64>,
}

impl Leaving {
    pub(super) fn begin(how: DrainOnShutdown, now_ns: u64) -> Self {
        let deadline = if how.force { Some(Duration::ZERO) } else { how.deadline };
        let deadline_ns = deadline.map(|span| now_ns.saturating_add(nanos(span)));
        Self { how, deadline_ns, said: false, ended_ns: None }
    }

    /// When the agent stops whatever still runs, or whoever still has to write down what ended.
    pub(super) fn give_up_at(&self) -> Option<u64> {
        let told_by = self.ended_ns.map(|at_ns| at_ns.saturating_add(nanos(TOLD_WITHIN)));
        let over = self.deadline_ns.map(|at_ns| at_ns.saturating_add(nanos(AFTER_DEADLINE)));
        told_by.into_iter().chain(over).min()
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
    pub(super) fn say_leaving(&self, leaving: &mut Leaving) {
        leaving.said &= self.session.is_open();
        let Some(up) = self.up.as_ref().filter(|_| self.session.is_open() && !leaving.said) else { return };
        let request = leaving.request(self.identity.secret.clone(), self.clock.now_ns());
        leaving.said = up.session.try_send(Up::Leaving(request)).is_ok();
        if leaving.said {
            tracing::info!("the node is drained before the agent stops; a second signal stops it at once");
        }
    }

    /// Whether nothing is left that the node is emptied of, and the servers have written down how it ended.
    pub(super) fn has_left(&self, leaving: &mut Leaving) -> bool {
        let is_system = |kind: &str| matches!(kind, "system" | "sysbatch");
        let stays = |kind: &str| leaving.how.ignore_system && is_system(kind);
        let left = || self.node.allocs().filter(|alloc| !stays(&alloc.spec().group.job_type));
        let (is_told, has_ended) = (left().next().is_none(), left().all(|alloc| alloc.has_ended()));
        let ended_ns = leaving.ended_ns.unwrap_or_else(|| self.clock.now_ns());
        leaving.ended_ns = (leaving.said && has_ended).then_some(ended_ns);
        leaving.said && is_told
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
        let leaving = Leaving::begin(how, 10 * SECOND);
        assert_eq!(leaving.request(Vec::new(), 10 * SECOND).deadline_ms, 60_000);
        assert_eq!(leaving.request(Vec::new(), 30 * SECOND).deadline_ms, 40_000);
        assert_eq!(leaving.request(Vec::new(), 300 * SECOND).deadline_ms, 1, "0 would be for ever");
        assert_eq!(leaving.give_up_at(), Some(160 * SECOND));
    }

    #[test]
    fn without_a_deadline_it_waits_for_as_long_as_it_takes() {
        let how = DrainOnShutdown { deadline: None, ..DrainOnShutdown::default() };
        let leaving = Leaving::begin(how, SECOND);
        assert_eq!((leaving.request(Vec::new(), 9 * SECOND).deadline_ms, leaving.give_up_at()), (0, None));
        let forced = Leaving::begin(DrainOnShutdown { force: true, ..how }, SECOND);
        assert!(forced.give_up_at().is_some());
    }
}
