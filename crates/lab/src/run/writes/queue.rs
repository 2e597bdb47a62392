//! Waits until a queue of dispatched jobs is empty.

use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::run::{RunError, client::RunClock, cluster::Cluster, http::Connection};

/// Between two polls of the queue: each of them counts all that is in it.
const POLL_EVERY: Duration = Duration::from_millis(250);
/// After so long without one less the run has failed.
const STALLED_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ParentSummary {
    children: ChildCounts,
}

/// Counts of dispatched jobs by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ChildCounts {
    pending: u64,
    running: u64,
    dead: u64,
}

/// Waits until none is pending or runs; returns when that was.
pub(super) async fn worked_off(
    cluster: &mut Cluster,
    connection: &mut Connection,
    parent: &str,
    clock: RunClock,
) -> Result<f64, RunError> {
    let mut last = (None, Instant::now());
    loop {
        cluster.check()?;
        let (ParentSummary { children }, _) = connection.get(&format!("/v1/job/{parent}/summary")).await?;
        if children.pending + children.running == 0 {
            return Ok(clock.now_s());
        }
        if last.0 != Some(children) {
            last = (Some(children), Instant::now());
        }
        if last.1.elapsed() > STALLED_AFTER {
            let ChildCounts { pending, running, dead } = children;
            return Err(RunError::Incomplete(format!(
                "{pending} of the dispatched jobs are pending, {running} run, {dead} are done, and that has not \
                 changed for {STALLED_AFTER:?}"
            )));
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}
