//! A second client, in a namespace of its own, that registers a job again and again while a long queue waits: how long until
//! each of these is placed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::dispatch;
use crate::{
    record::percentile,
    run::{RunError, RunOutcome, Target, client::JobIds, http::Connection},
};

/// Between one that is placed and the next.
const EVERY: Duration = Duration::from_millis(100);
/// Between two polls of whether it is placed.
const POLL_EVERY: Duration = Duration::from_millis(5);
/// Whoever is not placed after so long starves.
const PLACED_MAX: Duration = Duration::from_secs(30);

/// The running client.
pub(super) struct BackgroundWriter {
    work: JoinHandle<Result<Vec<f64>, RunError>>,
    ends: Arc<AtomicBool>,
}

impl BackgroundWriter {
    /// Begins, in a namespace that nobody else has.
    pub async fn begin(target: &Target, ids: JobIds) -> Result<Self, RunError> {
        let (target, namespace) = (target.clone(), namespace(ids));
        let mut connection = Connection::open(&target).await?;
        let body = json!({ "Name": namespace }).to_string();
        connection.write(Method::PUT, &format!("/v1/namespace/{namespace}"), body.into()).await?;
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        let work = tokio::spawn(async move {
            let mut placed_ms = Vec::new();
            // The first is placed in any case, however short the queue.
            while placed_ms.is_empty() || !ended.load(Ordering::Relaxed) {
                placed_ms.push(place_one(&mut connection, &namespace, placed_ms.len()).await?);
                tokio::time::sleep(EVERY).await;
            }
            Ok(placed_ms)
        });
        Ok(Self { work, ends })
    }

    /// Ends, and says how long each has waited.
    pub async fn end(self, outcome: &mut RunOutcome) -> Result<(), RunError> {
        self.ends.store(true, Ordering::Relaxed);
        let placed_ms =
            self.work.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
        let mut placed_ms = placed_ms?;
        placed_ms.sort_unstable_by(f64::total_cmp);
        outcome.metrics.insert("others_placed", placed_ms.len() as f64);
        for (name, part) in [("others_placed_ms_p50", 0.5), ("others_placed_ms_max", 1.0)] {
            outcome.metrics.extend(percentile(&placed_ms, part).map(|value| (name, value)));
        }
        Ok(())
    }

    /// Takes its jobs and its namespace away from a server that stays.
    pub async fn clean_up(target: &Target, ids: JobIds) -> Result<(), RunError> {
        let namespace = namespace(ids);
        let mut connection = Connection::open(target).await?;
        let jobs: Vec<Value> = connection.list(&format!("/v1/jobs?namespace={namespace}&")).await?;
        for id in jobs.iter().filter_map(|job| job["ID"].as_str()) {
            delete(&mut connection, &namespace, id).await?;
        }
        // It is not there where there were no nodes.
        let path = format!("/v1/namespace/{namespace}");
        connection.exchange(Method::DELETE, &path, Bytes::new()).await.map(drop)
    }
}

fn namespace(ids: JobIds) -> String {
    format!("{}others", ids.prefix())
}

/// Registers a job, waits until it has an allocation, and deletes it; returns how long it has waited, in milliseconds.
async fn place_one(connection: &mut Connection, namespace: &str, number: usize) -> Result<f64, RunError> {
    let id = format!("other-{number}");
    let started_at = Instant::now();
    let body = json!({ "Job": dispatch::service(&id, namespace) }).to_string();
    connection.write(Method::PUT, "/v1/jobs", body.into()).await?;
    let allocations = format!("/v1/job/{id}/allocations?namespace={namespace}");
    loop {
        let (allocs, _): (Vec<Value>, _) = connection.get(&allocations).await?;
        if !allocs.is_empty() {
            break;
        }
        if started_at.elapsed() > PLACED_MAX {
            return Err(RunError::Incomplete(format!(
                "a job of another namespace has waited for {PLACED_MAX:?} beside the queue, and has no allocation"
            )));
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    let waited_ms = started_at.elapsed().as_secs_f64() * 1e3;
    delete(connection, namespace, &id).await?;
    Ok(waited_ms)
}

async fn delete(connection: &mut Connection, namespace: &str, id: &str) -> Result<(), RunError> {
    let path = format!("/v1/job/{id}?purge=true&namespace={namespace}");
    connection.write(Method::DELETE, &path, Bytes::new()).await
}
