//! A client that polls the server's health and has one small job after the other placed while the experiment runs.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Method;
use tokio::{task::JoinHandle, time::interval};

use super::changes::TASK_MEMORY_MB;
use crate::run::{
    RunError, Target,
    client::{EventFollower, FollowedTopics, JobIds},
    http::Connection,
    mock_job::{MockJob, registration},
};

/// Between one job that is placed and the next, and between two questions about health.
const EVERY: Duration = Duration::from_millis(50);
/// A job that is not placed after so long fails the run.
const PLACED_MAX: Duration = Duration::from_secs(30);

/// Durations in milliseconds, the shortest first.
#[derive(Debug, Default)]
pub(super) struct ProbeTimes {
    /// From the request that registers a job until its allocation is seen on the event stream.
    pub placed_ms: Vec<f64>,
    /// `/healthz`.
    pub healthy_ms: Vec<f64>,
}

/// Asks until it is ended.
pub(super) struct StateProbe {
    placements: JoinHandle<RunError>,
    health: JoinHandle<RunError>,
    placed: tokio::sync::mpsc::UnboundedReceiver<f64>,
    answered: tokio::sync::mpsc::UnboundedReceiver<f64>,
}

impl StateProbe {
    /// Begins; returns once it follows the event stream.
    pub async fn begin(target: &Target) -> Result<Self, RunError> {
        let (mut placing, mut asking) = (Connection::open(target).await?, Connection::open(target).await?);
        let mut follower = EventFollower::open(target, FollowedTopics::Allocs).await?;
        let (tell_placed, placed) = tokio::sync::mpsc::unbounded_channel();
        let (tell_answered, answered) = tokio::sync::mpsc::unbounded_channel();
        let placements = tokio::spawn(async move {
            let ids = JobIds::new();
            for number in 0.. {
                match place_job(&mut placing, &mut follower, &ids.id(number)).await {
                    Ok(took_ms) => drop(tell_placed.send(took_ms)),
                    Err(error) => return error,
                }
                if let Err(error) = follow_for(&mut follower, EVERY).await {
                    return error;
                }
            }
            unreachable!("nobody places so many jobs")
        });
        let health = tokio::spawn(async move {
            let mut ticks = interval(EVERY);
            loop {
                // As with changes: what a stalled answer holds up counts.
                let due = ticks.tick().await;
                if let Err(error) = asking.request(Method::GET, "/healthz", Bytes::new()).await {
                    return error;
                }
                let _ = tell_answered.send(due.elapsed().as_secs_f64() * 1e3);
            }
        });
        Ok(Self { placements, health, placed, answered })
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it has failed before, or has seen no job placed.
    pub async fn end(mut self) -> Result<ProbeTimes, RunError> {
        for work in [&mut self.placements, &mut self.health] {
            work.abort();
            if let Ok(error) = work.await {
                return Err(error);
            }
        }
        let mut probed = ProbeTimes::default();
        while let Ok(took_ms) = self.placed.try_recv() {
            probed.placed_ms.push(took_ms);
        }
        while let Ok(took_ms) = self.answered.try_recv() {
            probed.healthy_ms.push(took_ms);
        }
        if probed.placed_ms.is_empty() || probed.healthy_ms.is_empty() {
            let message =
                "no job was placed, or no question about health answered, beside the readers".to_owned();
            return Err(RunError::Incomplete(message));
        }
        probed.placed_ms.sort_unstable_by(f64::total_cmp);
        probed.healthy_ms.sort_unstable_by(f64::total_cmp);
        Ok(probed)
    }
}

/// Registers a job, waits until its allocation is seen, and deletes it.
async fn place_job(
    connection: &mut Connection,
    follower: &mut EventFollower,
    id: &str,
) -> Result<f64, RunError> {
    let started_at = Instant::now();
    connection.write(Method::PUT, "/v1/jobs", job(id)).await?;
    let placed = async {
        loop {
            let batch = match follower.next().await? {
                Some(batch) => batch,
                None => follower.catch_up().await?,
            };
            if batch.allocs.iter().any(|alloc| alloc.job == id) {
                return Ok(started_at.elapsed().as_secs_f64() * 1e3);
            }
        }
    };
    let took_ms = tokio::time::timeout(PLACED_MAX, placed).await.unwrap_or_else(|_| {
        Err(RunError::Incomplete(format!(
            "job {id} has no allocation after {PLACED_MAX:?}, beside the readers"
        )))
    })?;
    connection.write(Method::DELETE, &format!("/v1/job/{id}?purge=true"), Bytes::new()).await?;
    Ok(took_ms)
}

/// Reads on, so that what is seen next is not old.
async fn follow_for(follower: &mut EventFollower, pause: Duration) -> Result<(), RunError> {
    let until = tokio::time::Instant::now() + pause;
    while let Ok(batch) = tokio::time::timeout_at(until, follower.next()).await {
        if batch?.is_none() {
            follower.catch_up().await?;
        }
    }
    Ok(())
}

fn job(id: &str) -> Bytes {
    registration(id, MockJob::service(1, [1, TASK_MEMORY_MB, 10]).json())
}
