//! The changes while others read: half of them are jobs that are registered again over HTTP, the other half are tasks that end and are
//! started again by their nodes. Neither adds to the lists or takes from them.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};

use super::cluster_state::ClusterState;
use crate::run::{
    RunError, Target,
    client::JobIds,
    http::Connection,
    mock_job::{MockJob, registration},
};

/// Jobs that change, the one whose tasks restart included.
pub(super) const JOBS: u32 = 101;
/// Memory of a task that restarts.
pub(super) const TASK_MEMORY_MB: u32 = 10;
/// Clients that write, one request at a time each.
const CLIENTS: u32 = 16;
/// From one start of a task to the next: a change a second.
const RUNS_FOR: &str = "900ms";
const RESTARTS_AFTER_NS: u64 = 100_000_000;
/// Until all tasks that restart must have been placed.
const PLACED_MAX: Duration = Duration::from_secs(60);
/// The pause between two polls of them.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// Changes that go on until this is dropped.
pub(super) struct BackgroundChanges {
    clients: JoinSet<RunError>,
    /// Duration of each write since the last call, in milliseconds.
    took_ms: Arc<Mutex<Vec<f64>>>,
    target: Target,
    restarting: String,
    since: ChangeBaseline,
}

/// Where a count of changes begins.
#[derive(Debug, Clone, Copy)]
struct ChangeBaseline {
    at: Instant,
    restarts: u64,
}

/// What has changed for a while.
#[derive(Debug)]
pub(super) struct ChangeRates {
    /// How long each write of a client took, the shortest first: milliseconds.
    pub writes_ms: Vec<f64>,
    /// Writes and restarts, a second.
    pub per_s: f64,
}

impl BackgroundChanges {
    /// Begins, and returns once all tasks that restart have been placed.
    pub async fn start(target: &Target, state: &ClusterState) -> Result<Self, RunError> {
        let tasks = state.changes / 2;
        let restarting = state.changing.id(0);
        let mut connection = Connection::open(target).await?;
        if tasks > 0 {
            connection.write(Method::PUT, "/v1/jobs", restarts(&restarting, tasks)).await?;
        }
        let started_at = Instant::now();
        while allocs(&mut connection, &restarting).await?.len() < tasks as usize {
            if started_at.elapsed() > PLACED_MAX {
                let message = format!(
                    "not all of {tasks} allocations whose tasks restart are placed after {PLACED_MAX:?}"
                );
                return Err(RunError::Incomplete(message));
            }
            sleep(POLL_EVERY).await;
        }
        let took_ms = Arc::new(Mutex::new(Vec::new()));
        let (rate, mut clients) = (state.changes - tasks, JoinSet::new());
        for number in 0..CLIENTS.min(rate) {
            let (target, took_ms, ids) = (target.clone(), took_ms.clone(), state.changing);
            let every = Duration::from_secs_f64(f64::from(CLIENTS.min(rate)) / f64::from(rate));
            clients.spawn(async move {
                match write(&target, ids, number, every, &took_ms).await {
                    Ok(never) => match never {},
                    Err(error) => error,
                }
            });
        }
        let since = ChangeBaseline { at: Instant::now(), restarts: 0 };
        let mut changes = Self { clients, took_ms, target: target.clone(), restarting, since };
        changes.changed().await?;
        Ok(changes)
    }

    /// What has changed since the last call.
    ///
    /// # Errors
    /// When a write has failed.
    pub async fn changed(&mut self) -> Result<ChangeRates, RunError> {
        if let Some(failed) = self.clients.try_join_next() {
            return Err(failed.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic())));
        }
        let mut connection = Connection::open(&self.target).await?;
        let restarts =
            allocs(&mut connection, &self.restarting).await?.iter().map(RestartingAlloc::restarts).sum();
        let mut writes_ms =
            std::mem::take(&mut *self.took_ms.lock().expect("nothing panics while it holds this lock"));
        let before = std::mem::replace(&mut self.since, ChangeBaseline { at: Instant::now(), restarts });
        writes_ms.sort_unstable_by(f64::total_cmp);
        let changes = writes_ms.len() as f64 + restarts.saturating_sub(before.restarts) as f64;
        Ok(ChangeRates { writes_ms, per_s: changes / before.at.elapsed().as_secs_f64() })
    }
}

/// Registers jobs one after the other, each time with something new, forever.
async fn write(
    target: &Target,
    ids: JobIds,
    number: u32,
    every: Duration,
    took_ms: &Mutex<Vec<f64>>,
) -> Result<Infallible, RunError> {
    let mut connection = Connection::open(target).await?;
    let mut ticks = interval(every);
    // Whoever is held up catches up, so that as many changes are made in all.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut jobs = (1..JOBS).skip(number as usize).step_by(CLIENTS as usize).cycle();
    for revision in 0_u64.. {
        // From when it was due: what waits behind a stalled answer has been held up as well.
        let due = ticks.tick().await;
        let body = registers(&ids.id(jobs.next().unwrap_or(1)), revision);
        connection.write(Method::PUT, "/v1/jobs", body).await?;
        let took = due.elapsed().as_secs_f64() * 1e3;
        took_ms.lock().expect("nothing panics while it holds this lock").push(took);
    }
    unreachable!("there are more revisions than anybody can write")
}

/// A job of no allocations.
fn registers(id: &str, revision: u64) -> Bytes {
    let task = json!({"Name": "task", "Driver": "mock_driver"});
    let group = json!({"Name": "group", "Count": 0, "Tasks": [task]});
    let job = json!({
        "Type": "service",
        "Datacenters": ["*"],
        "Update": {"MaxParallel": 0},
        "Meta": {"revision": revision.to_string()},
        "TaskGroups": [group],
    });
    registration(id, job)
}

/// A job whose tasks end once a second, and are started again where they are.
fn restarts(id: &str, count: u32) -> Bytes {
    const DAY_NS: u64 = 86_400_000_000_000;
    let job = MockJob { run_for: RUNS_FOR, ..MockJob::service(count, [1, TASK_MEMORY_MB, 10]) };
    let mut job = job.json();
    job["TaskGroups"][0]["RestartPolicy"] =
        json!({"Attempts": 100_000, "Interval": DAY_NS, "Delay": RESTARTS_AFTER_NS, "Mode": "delay"});
    registration(id, job)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RestartingAlloc {
    #[serde(default)]
    task_states: Option<std::collections::BTreeMap<String, TaskRestarts>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TaskRestarts {
    #[serde(default)]
    restarts: u64,
}

impl RestartingAlloc {
    fn restarts(&self) -> u64 {
        self.task_states.iter().flat_map(|tasks| tasks.values()).map(|task| task.restarts).sum()
    }
}

async fn allocs(connection: &mut Connection, job: &str) -> Result<Vec<RestartingAlloc>, RunError> {
    Ok(connection.get(&format!("/v1/job/{job}/allocations")).await?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_those_of_all_tasks() {
        let allocs: Vec<RestartingAlloc> = serde_json::from_str(
            r#"[{"TaskStates":null},{},{"TaskStates":{"one":{"Restarts":2},"two":{"Restarts":3,"State":"running"}}}]"#,
        )
        .unwrap();
        assert_eq!(allocs.iter().map(RestartingAlloc::restarts).sum::<u64>(), 5);
    }
}
