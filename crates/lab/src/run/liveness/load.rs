//! The load meanwhile: jobs that are registered, run briefly and are purged, and a job that runs on all nodes that come back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use hyper::Method;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use super::node_groups::RETURNING;
use crate::run::{
    Target,
    client::JobIds,
    http::Connection,
    mock_job::{MockJob, registration},
};

/// Ids of jobs that come and go, and of the one that runs on all nodes that come back.
const PASSING: u32 = 0x11fe;
pub(super) const RETURNED: u32 = 0x11ff;
/// Clients, one request at a time each.
const CLIENTS: u32 = 4;
/// Jobs of each that are there at a time.
const STAYING: u32 = 8;
/// Allocations of such a job, how long each runs, and what it requests.
const COUNT: u32 = 2;
const RUNS_FOR: &str = "50ms";
const ASKS: [u32; 3] = [10, 10, 10];

/// Clients at work until this is dropped.
pub(super) struct WriteLoad {
    _clients: JoinSet<()>,
    counts: Arc<WriteCounts>,
}

#[derive(Debug, Default)]
struct WriteCounts {
    done: AtomicU64,
    refused: AtomicU64,
}

impl WriteLoad {
    /// So many jobs a second, through a server.
    pub fn start(target: &Target, rate: u32) -> Self {
        let (counts, mut tasks) = (Arc::new(WriteCounts::default()), JoinSet::new());
        let clients = CLIENTS.min(rate);
        for number in 0..clients {
            let client = WriteClient { target: target.clone(), counts: counts.clone(), connection: None };
            let every = Duration::from_secs_f64(f64::from(clients) / f64::from(rate));
            tasks.spawn(client.work((number, clients), every));
        }
        Self { _clients: tasks, counts }
    }

    /// Writes that were done so far, and those that were not, as while nobody leads.
    pub fn writes(&self) -> (u64, u64) {
        (self.counts.done.load(Relaxed), self.counts.refused.load(Relaxed))
    }
}

struct WriteClient {
    target: Target,
    counts: Arc<WriteCounts>,
    connection: Option<Connection>,
}

impl WriteClient {
    async fn work(mut self, (first, step): (u32, u32), every: Duration) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ids = JobIds::of(PASSING);
        for number in (first..).step_by(step as usize) {
            ticks.tick().await;
            let id = ids.id(number);
            let job = MockJob { kind: "batch", run_for: RUNS_FOR, ..MockJob::service(COUNT, ASKS) };
            self.request(Method::PUT, "/v1/jobs", registration(&id, job.json())).await;
            if let Some(oldest) = number.checked_sub(STAYING * step) {
                self.request(Method::DELETE, &format!("/v1/job/{}?purge=true", ids.id(oldest)), Bytes::new())
                    .await;
            }
        }
    }

    async fn request(&mut self, method: Method, path: &str, body: Bytes) {
        let open = match self.connection.take() {
            Some(open) => Ok(open),
            None => Connection::open(&self.target).await,
        };
        let written = match open {
            Ok(mut open) => {
                let written = open.write(method, path, body).await;
                self.connection = Some(open).filter(|_| written.is_ok());
                written
            }
            Err(error) => Err(error),
        };
        let count = if written.is_ok() { &self.counts.done } else { &self.counts.refused };
        count.fetch_add(1, Relaxed);
    }
}

/// A job that runs once on each node that came back.
pub(super) fn on_all_returned() -> Bytes {
    let mut job = MockJob { kind: "system", ..MockJob::service(1, ASKS) }.json();
    job["Datacenters"] = json!([RETURNING]);
    registration(&JobIds::of(RETURNED).id(0), job)
}
