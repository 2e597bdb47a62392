//! One batch: restarts its allocations and waits until they are healthy.

use std::{collections::BTreeMap, time::Duration};

use berth_api::http::AllocationStub;

use super::health::{RestartHealth, RestartRules, RestartedAlloc};
use crate::{
    failure::{Exit, Failure},
    output::{clean, eprint_line, short_id},
    remote::Remote,
};

/// Between two polls of allocations that are to become healthy: what agents observe has no index of its own to wait for.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// One batch, and what its restarts need.
pub(super) struct RestartBatch<'a> {
    pub remote: &'a Remote,
    pub rules: &'a RestartRules,
    /// By name; empty for all that run.
    pub tasks: &'a [String],
    pub all_tasks: bool,
}

impl RestartBatch<'_> {
    /// Restarts tasks in place. Returns a line for each allocation that did not become healthy.
    pub async fn restart(&self, allocs: &[AllocationStub]) -> Result<Vec<String>, Failure> {
        let (mut pending, mut failures) = (Vec::new(), Vec::new());
        for alloc in allocs {
            let restarted = RestartedAlloc::of(alloc, self.tasks);
            match self.restart_in_place(&restarted).await {
                Ok(()) => pending.push(restarted),
                // It may have ended since it was listed.
                Err(failure) if failure.exit() == Exit::NotFound => {
                    print_status(&restarted, "has ended meanwhile")
                }
                Err(failure) if failure.exit() == Exit::Unreachable => return Err(failure),
                Err(failure) => {
                    failures.push(format!("{}: {}", label(&restarted), failure.to_string().trim()))
                }
            }
        }
        failures.extend(self.until_healthy(pending, "restarted").await?);
        Ok(failures)
    }

    async fn restart_in_place(&self, restarted: &RestartedAlloc) -> Result<(), Failure> {
        if self.tasks.is_empty() {
            return self.remote.restart_tasks(&restarted.id, "", self.all_tasks).await;
        }
        for task in restarted.tasks() {
            self.remote.restart_tasks(&restarted.id, task, false).await?;
        }
        Ok(())
    }

    /// Stops allocations, and waits for their replacements. Returns a line for each that did not become healthy.
    pub async fn reschedule(&self, allocs: &[AllocationStub]) -> Result<Vec<String>, Failure> {
        let mut stopped = Vec::new();
        for alloc in allocs {
            let index = self.remote.stop_allocation(&alloc.id).await?.index;
            stopped.push((RestartedAlloc::of(alloc, &[]), index));
        }
        let mut pending = Vec::new();
        let mut failures = Vec::new();
        while !stopped.is_empty() {
            let known = self.remote.job_allocations(self.rules.job()).await?;
            let mut waiting = Vec::new();
            for (restarted, index) in stopped {
                match successor(&known, &restarted, index) {
                    Some(successor) => pending.push(restarted.successor(successor)),
                    None if restarted.is_late(self.rules) => {
                        failures.push(format!("{}: nothing has taken its place", label(&restarted)));
                    }
                    None => waiting.push((restarted, index)),
                }
            }
            stopped = waiting;
            if !stopped.is_empty() {
                tokio::time::sleep(POLL_EVERY).await;
                self.rules.check_unchanged(self.remote).await?;
            }
        }
        failures.extend(self.until_healthy(pending, "rescheduled").await?);
        Ok(failures)
    }

    async fn until_healthy(
        &self,
        mut pending: Vec<RestartedAlloc>,
        action: &str,
    ) -> Result<Vec<String>, Failure> {
        let mut failures = Vec::new();
        while !pending.is_empty() {
            let known = self.remote.job_allocations(self.rules.job()).await?;
            let known: BTreeMap<&str, &AllocationStub> =
                known.iter().map(|alloc| (alloc.id.as_str(), alloc)).collect();
            let mut waiting = Vec::new();
            for mut restarted in pending {
                let health = match known.get(restarted.id.as_str()) {
                    Some(alloc) => {
                        let id = &alloc.id;
                        restarted.health(self.rules, alloc, async || self.checks_pass(id).await).await
                    }
                    None => RestartHealth::Gone,
                };
                match health {
                    RestartHealth::Healthy => print_status(&restarted, action),
                    RestartHealth::Gone => print_status(&restarted, "was stopped meanwhile"),
                    RestartHealth::Unhealthy(why) => failures.push(format!("{}: {why}", label(&restarted))),
                    RestartHealth::Pending => waiting.push(restarted),
                }
            }
            pending = waiting;
            if !pending.is_empty() {
                tokio::time::sleep(POLL_EVERY).await;
            }
        }
        Ok(failures)
    }

    /// Whether the checks of an allocation that count for its health pass. False while its agent cannot be reached, so that
    /// the caller tries again.
    async fn checks_pass(&self, id: &str) -> bool {
        let checks = self.remote.allocation_checks(id).await;
        checks.is_ok_and(|checks| {
            checks.values().filter(|check| check.mode == "healthiness").all(|check| check.status == "success")
        })
    }
}

/// The replacement of an allocation that was stopped at an index.
fn successor<'a>(known: &'a [AllocationStub], of: &RestartedAlloc, index: u64) -> Option<&'a AllocationStub> {
    let next = known.iter().find(|alloc| alloc.id == of.id).map(|alloc| alloc.next_allocation.as_str());
    let next = next.filter(|id| !id.is_empty());
    known.iter().find(|alloc| match next {
        Some(next) => alloc.id == next,
        None => alloc.name == of.name && alloc.create_index > index && alloc.desired_status == "run",
    })
}

fn label(restarted: &RestartedAlloc) -> String {
    format!("{} {}", short_id(&restarted.id), clean(&restarted.name))
}

fn print_status(restarted: &RestartedAlloc, what: &str) {
    eprint_line(&format!("{} {what}", label(restarted)));
}
