//! The well-behaved client: it reads and writes a little all the time, and notes how long it waits.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use tokio::{
    runtime::{self, Runtime},
    time::{MissedTickBehavior, interval, timeout},
};

use super::attacked_server::AttackedServer;
use crate::run::{RunError, Target, http::Connection};

/// The pause between two requests.
const EVERY: Duration = Duration::from_millis(10);
/// After so long it stops waiting for an answer, and counts a failure.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// A request that has waited for so long when the attack ends has failed.
const OPEN_MAX: Duration = Duration::from_secs(1);
/// Number of jobs that it writes in turn.
const JOBS: u64 = 10;
/// One request of so many comes on a connection of its own, and reads the server's health.
const HEALTH_EVERY: u64 = 20;
/// One of so many writes.
const WRITE_EVERY: u64 = 5;

/// What it has seen.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientReport {
    /// How long the client waited for each answer, in milliseconds.
    pub waited_ms: Vec<f64>,
    /// Requests without an answer, or with one that is no success; the first of them for people.
    pub failed: u64,
    pub first_failure: Option<String>,
    /// When the request was begun that has no answer yet.
    open_since: Option<Instant>,
}

impl ClientReport {
    fn answered(&mut self, waited: Duration, result: Result<(), String>) {
        self.open_since = None;
        self.waited_ms.push(waited.as_secs_f64() * 1e3);
        if let Err(why) = result {
            self.failed += 1;
            self.first_failure.get_or_insert(why);
        }
    }

    /// With the request that has no answer yet.
    fn with_open(mut self) -> Self {
        if let Some(waited) = self.open_since.map(|since| since.elapsed()) {
            let result = if waited < OPEN_MAX { Ok(()) } else { Err(format!("no answer for {waited:.1?}")) };
            self.answered(waited, result);
        }
        self
    }
}

/// The client at work, on a thread of its own: what the attackers compute must not count as the server's delay.
pub(super) struct WatchedClient {
    report: Arc<Mutex<ClientReport>>,
    /// None once it ends.
    runtime: Option<Runtime>,
}

impl WatchedClient {
    /// Starts the client on a thread of its own.
    pub fn start(attacked: &AttackedServer) -> Result<Self, RunError> {
        let report = Arc::new(Mutex::new(ClientReport::default()));
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| RunError::Http {
            doing: "begin a client that behaves well".to_owned(),
            reason: error.to_string(),
        })?;
        runtime.spawn(work(attacked.target.clone(), report.clone()));
        Ok(Self { report, runtime: Some(runtime) })
    }

    /// What was seen so far does not count.
    pub fn forget(&self) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        *report =
            ClientReport { open_since: report.open_since.map(|_| Instant::now()), ..ClientReport::default() };
    }

    /// What it has seen so far.
    pub fn report(&self) -> ClientReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone().with_open()
    }
}

impl Drop for WatchedClient {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn work(target: Target, report: Arc<Mutex<ClientReport>>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut connection = None;
    for number in 0_u64.. {
        ticks.tick().await;
        let started_at = Instant::now();
        report.lock().unwrap_or_else(PoisonError::into_inner).open_since = Some(started_at);
        let outcome = timeout(ANSWER_MAX, request_once(&target, &mut connection, number)).await;
        let result = outcome.unwrap_or_else(|_| Err(format!("no answer for {ANSWER_MAX:?}")));
        if result.is_err() {
            connection = None;
        }
        report.lock().unwrap_or_else(PoisonError::into_inner).answered(started_at.elapsed(), result);
    }
}

async fn request_once(
    target: &Target,
    idle_connection: &mut Option<Connection>,
    number: u64,
) -> Result<(), String> {
    let text = |error: RunError| error.to_string();
    let (method, path, body) = request(number);
    let mut connection = match idle_connection.take() {
        Some(connection) if !connection.is_closed() && !number.is_multiple_of(HEALTH_EVERY) => connection,
        _ => Connection::open(target).await.map_err(text)?,
    };
    let reply = connection.exchange(method, &path, body).await.map_err(text)?;
    *idle_connection = Some(connection);
    if reply.status.is_success() {
        Ok(())
    } else {
        Err(format!("{path}: {}: {}", reply.status, reply.text()))
    }
}

fn request(number: u64) -> (Method, String, Bytes) {
    let id = format!("well-behaved-{}", number / WRITE_EVERY % JOBS);
    if number.is_multiple_of(HEALTH_EVERY) {
        (Method::GET, "/healthz".to_owned(), Bytes::new())
    } else if number % WRITE_EVERY == 1 {
        (Method::PUT, "/v1/jobs".to_owned(), json!({ "Job": job(&id, number) }).to_string().into())
    } else {
        (Method::GET, "/v1/jobs?prefix=well-behaved&per_page=20".to_owned(), Bytes::new())
    }
}

fn job(id: &str, number: u64) -> Value {
    json!({
        "ID": id,
        "Datacenters": ["dc1"],
        "Meta": {"number": number.to_string()},
        "Update": {"MaxParallel": 0},
        "TaskGroups": [{
            "Name": "group",
            "Tasks": [{
                "Name": "task",
                "Driver": "mock_driver",
                "Config": {"run_for": "24h"},
                "Resources": {"CPU": 10, "MemoryMB": 10},
            }],
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_an_answer_counts() {
        let mut report = ClientReport::default();
        report.answered(Duration::from_millis(3), Ok(()));
        report.open_since = Instant::now().checked_sub(Duration::from_secs(2));
        let report = report.with_open();
        assert_eq!((report.waited_ms.len(), report.failed), (2, 1));
        assert!(report.first_failure.is_some_and(|why| why.starts_with("no answer for")));
    }
}
