//! Writes that go on: from the failure on, small jobs are registered one after the other through a server that lives, and must run.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::load::{self, PROBES};
use crate::run::{
    RunError, Target,
    client::{JobIds, JobTemplate},
    http::{Connection, HttpReply},
    restart::is_recovering,
};

/// The pause between two probes.
const PAUSE: Duration = Duration::from_millis(50);
/// Between two requests to a server that does not answer, and between two polls of whether a probe runs.
const RETRY_EVERY: Duration = Duration::from_millis(5);
/// Probes at most. One fits on a node.
const PROBES_MAX: u32 = 200;
/// A write that is not answered by then has no answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// A probe that does not run by then never will.
const RUNNING_MAX: Duration = Duration::from_secs(120);
/// Refusals that are named, for people.
const NAMED_MAX: usize = 5;

/// What became of the probes.
#[derive(Debug, Clone, Default)]
pub(super) struct PlacementProbes {
    /// From the failure to when the first was seen to run, in seconds.
    pub first_s: Option<f64>,
    /// How many were registered, and seen to run.
    pub placed: u32,
    /// The longest that a write has waited for its answer, in seconds.
    pub write_s_max: f64,
    /// Writes of which nobody knows whether they were done: they were written again.
    pub unanswered: u32,
    /// Why writes were refused, or what was written does not run.
    pub wrong: Vec<String>,
}

/// A client at work.
pub(super) struct ProbeClient {
    stop: watch::Sender<bool>,
    first: watch::Receiver<Option<f64>>,
    work: JoinHandle<PlacementProbes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ProbeAlloc {
    client_status: String,
}

impl ProbeClient {
    /// Begins on a server, which may not be there yet; times are seconds since `since`.
    pub fn start(target: Target, nodes: u32, since: Instant) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (sender, first) = watch::channel(None);
        let (template, most) = (load::probe(), PROBES_MAX.min(nodes));
        let client = Prober { target, since, most, stopped, first: sender, template, connection: None };
        Self { stop, first, work: tokio::spawn(client.work()) }
    }

    /// When the first of them was seen to run.
    pub fn first_s(&self) -> Option<f64> {
        *self.first.borrow()
    }

    /// Ends the probes, and returns what they measured.
    pub async fn stop(self) -> PlacementProbes {
        let _ = self.stop.send(true);
        self.work.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
    }
}

struct Prober {
    target: Target,
    since: Instant,
    most: u32,
    stopped: watch::Receiver<bool>,
    first: watch::Sender<Option<f64>>,
    template: JobTemplate,
    connection: Option<Connection>,
}

impl Prober {
    async fn work(mut self) -> PlacementProbes {
        let mut probed = PlacementProbes::default();
        for number in 0..self.most {
            if *self.stopped.borrow() {
                break;
            }
            let id = JobIds::of(PROBES).id(number);
            let written = Instant::now();
            if !self.write(&id, &mut probed).await {
                break;
            }
            probed.write_s_max = probed.write_s_max.max(written.elapsed().as_secs_f64());
            if !self.until_running(&id).await {
                probed.wrong.push(format!("job {id} was accepted, and does not run after {RUNNING_MAX:?}"));
                break;
            }
            probed.placed += 1;
            let now_s = self.since.elapsed().as_secs_f64();
            if probed.first_s.is_none() {
                probed.first_s = Some(now_s);
                let _ = self.first.send(Some(now_s));
            }
            let _ = timeout(PAUSE, self.stopped.changed()).await;
        }
        probed
    }

    /// Whether it was accepted, even after some tries that nobody has answered.
    async fn write(&mut self, id: &str, probed: &mut PlacementProbes) -> bool {
        let body = self.template.body(id);
        loop {
            if *self.stopped.borrow() || probed.wrong.len() >= NAMED_MAX {
                return false;
            }
            match self.request(Method::PUT, "/v1/jobs", body.clone()).await {
                Ok(reply) if reply.status.is_success() => return true,
                Ok(reply) if is_recovering(&reply) => {}
                Ok(reply) => {
                    probed.wrong.push(format!("job {id} was refused: {}: {}", reply.status, reply.text()))
                }
                // A server that is not there has done nothing.
                Err(_) if self.connection.is_none() => {}
                Err(_) => {
                    probed.unanswered += 1;
                    self.connection = None;
                }
            }
            sleep(RETRY_EVERY).await;
        }
    }

    async fn until_running(&mut self, id: &str) -> bool {
        let (path, started_at) = (format!("/v1/job/{id}/allocations"), Instant::now());
        while started_at.elapsed() < RUNNING_MAX {
            match self.request(Method::GET, &path, Bytes::new()).await {
                Ok(reply) => {
                    let allocs: Vec<ProbeAlloc> = serde_json::from_slice(&reply.body).unwrap_or_default();
                    if allocs.iter().any(|alloc| alloc.client_status == "running") {
                        return true;
                    }
                }
                Err(_) => self.connection = None,
            }
            sleep(RETRY_EVERY).await;
        }
        false
    }

    /// Asks on the connection that there is, or a new one.
    async fn request(&mut self, method: Method, path: &str, body: Bytes) -> Result<HttpReply, RunError> {
        let mut open = match self.connection.take().filter(|open| !open.is_closed()) {
            Some(open) => open,
            None => Connection::open(&self.target).await?,
        };
        let answered = timeout(ANSWER_MAX, open.exchange(method, path, body)).await;
        self.connection = Some(open);
        let late = |_| RunError::Http {
            doing: format!("ask for {path}"),
            reason: format!("no answer in {ANSWER_MAX:?}"),
        };
        answered.map_err(late)?
    }
}
