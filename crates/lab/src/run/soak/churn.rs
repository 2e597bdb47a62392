//! The changes: requests of every kind, one after the other on a few connections, at a steady rate.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use hyper::Method;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::jobs;
use crate::run::{RunError, Target, client::JobIds, http::Connection};

/// Clients, one request at a time each.
const CLIENTS: u64 = 8;
/// After so many of its requests, a client dials again.
const DIALS_EVERY: u64 = 100;
/// Readers of the event stream; each reads for a while, leaves, and comes again.
const STREAMS: u64 = 4;
const STREAM_LASTS: Duration = Duration::from_secs(3);
/// Names of variables: each is written and deleted again and again.
const VARIABLES: u64 = 50;
/// Services that come and go: so many live at a time.
const PASSING: u64 = 10;
/// Between two polls of paused clients for the next round.
const PAUSE: Duration = Duration::from_millis(20);

/// What the clients change, and with which ids.
#[derive(Debug, Clone)]
pub(super) struct SoakLoad {
    pub target: Target,
    /// Ids of services that stay.
    pub staying: JobIds,
    /// Ids of all other jobs.
    pub passing: JobIds,
    pub services: u64,
    /// The node that is drained and comes back.
    pub node: String,
}

/// What clients have seen in a round.
#[derive(Debug, Default)]
pub(super) struct RoundLatencies {
    /// What each write and each list took, in milliseconds since it was due.
    pub writes_ms: Vec<f64>,
    pub reads_ms: Vec<f64>,
    /// Requests that were refused; the first of them for people.
    pub refused: u64,
    pub first_refusal: Option<String>,
}

/// Clients at work until this is dropped.
pub(super) struct SoakClients {
    work: JoinSet<RunError>,
    shared: Arc<SharedCounts>,
}

#[derive(Debug, Default)]
struct SharedCounts {
    next: AtomicU64,
    paused: AtomicBool,
    /// Requests that are on their way.
    open: AtomicU64,
    latencies: Mutex<RoundLatencies>,
}

impl SoakClients {
    /// Begins with so many requests a second.
    pub fn start(churn: &SoakLoad, rate: u64) -> Self {
        let (shared, mut work) = (Arc::new(SharedCounts::default()), JoinSet::new());
        let every = Duration::from_secs_f64(CLIENTS as f64 / rate as f64);
        for _ in 0..CLIENTS {
            let (churn, shared) = (churn.clone(), shared.clone());
            work.spawn(async move { change(&churn, &shared, every).await.unwrap_err() });
        }
        for _ in 0..STREAMS {
            let target = churn.target.clone();
            work.spawn(async move { follow(&target).await.unwrap_err() });
        }
        Self { work, shared }
    }

    /// The latencies since the last call. All clients are paused once this returns, until [`Self::go_on`].
    ///
    /// # Errors
    /// When a connection was lost, or a reader of events refused.
    pub async fn pause(&mut self) -> Result<RoundLatencies, RunError> {
        self.shared.paused.store(true, Ordering::SeqCst);
        while self.shared.open.load(Ordering::SeqCst) > 0 {
            self.check()?;
            sleep(PAUSE).await;
        }
        self.check()?;
        Ok(std::mem::take(&mut *self.shared.latencies()))
    }

    /// Lets paused clients continue.
    pub fn go_on(&self) {
        self.shared.paused.store(false, Ordering::SeqCst);
    }

    fn check(&mut self) -> Result<(), RunError> {
        match self.work.try_join_next() {
            None => Ok(()),
            Some(ended) => {
                Err(ended.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic())))
            }
        }
    }
}

impl SharedCounts {
    fn latencies(&self) -> std::sync::MutexGuard<'_, RoundLatencies> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn change(churn: &SoakLoad, shared: &SharedCounts, every: Duration) -> Result<Infallible, RunError> {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut connection = Connection::open(&churn.target).await?;
        for _ in 0..DIALS_EVERY {
            let due = ticks.tick().await;
            // Counted before `paused` is read: who sets it then waits for every request that it did not prevent.
            shared.open.fetch_add(1, Ordering::SeqCst);
            if shared.paused.load(Ordering::SeqCst) {
                shared.open.fetch_sub(1, Ordering::SeqCst);
                sleep(PAUSE).await;
                continue;
            }
            let request = churn.request(shared.next.fetch_add(1, Ordering::Relaxed));
            let is_read = request.method == Method::GET;
            let reply = connection.exchange(request.method, &request.path, request.body).await;
            shared.open.fetch_sub(1, Ordering::SeqCst);
            let (reply, took_ms) = (reply?, due.elapsed().as_secs_f64() * 1e3);
            let mut latencies = shared.latencies();
            if is_read {
                latencies.reads_ms.push(took_ms)
            } else {
                latencies.writes_ms.push(took_ms)
            }
            if !reply.status.is_success() {
                latencies.refused += 1;
                latencies
                    .first_refusal
                    .get_or_insert_with(|| format!("{}: {}: {}", request.path, reply.status, reply.text()));
            }
        }
    }
}

/// Reads events for a while, again and again.
async fn follow(target: &Target) -> Result<Infallible, RunError> {
    loop {
        let mut lines = Connection::open(target).await?.lines("/v1/event/stream?recent=false").await?;
        let read = async {
            loop {
                lines.next().await?;
            }
        };
        match timeout(STREAM_LASTS, read).await {
            Ok(Err::<Infallible, RunError>(error)) => return Err(error),
            Ok(Ok(never)) => match never {},
            Err(_) => {}
        }
    }
}

/// One request.
#[derive(Debug, PartialEq, Eq)]
struct SoakRequest {
    method: Method,
    path: String,
    body: Bytes,
}

impl SoakLoad {
    /// The request of that number. Ten numbers in a row are one of each kind; what one of them creates, a later one deletes.
    fn request(&self, number: u64) -> SoakRequest {
        let turn = number / 10;
        let service = self.staying.id(small(turn % self.services));
        let passing = |turn: u64| self.passing.id(small(turn % u64::from(u32::MAX)));
        let variable = format!("/v1/var/soak/{}", turn / 2 % VARIABLES);
        let put = |path: String, body: Bytes| SoakRequest { method: Method::PUT, path, body };
        let get = |path: &str| SoakRequest { method: Method::GET, path: path.to_owned(), body: Bytes::new() };
        let delete = |path: String| SoakRequest { method: Method::DELETE, path, body: Bytes::new() };
        match number % 10 {
            0 => put("/v1/jobs".to_owned(), jobs::service(&service, turn / self.services)),
            1 => {
                let count = jobs::SERVICE_COUNT + turn / self.services % 2;
                let body = json!({"Count": count, "Target": {"Group": jobs::GROUP}, "Message": "soak"});
                put(format!("/v1/job/{service}/scale"), body.to_string().into())
            }
            2 => put("/v1/jobs".to_owned(), jobs::batch(&format!("{}-batch", passing(turn)))),
            3 => put(
                format!("/v1/job/{}/dispatch", self.parameterized()),
                json!({"Payload": "c29haw=="}).to_string().into(),
            ),
            4 if turn.is_multiple_of(2) => {
                put(variable, json!({"Items": {"turn": turn.to_string()}}).to_string().into())
            }
            4 => delete(variable),
            5 => put("/v1/jobs".to_owned(), jobs::service(&passing(turn), 0)),
            6 if turn >= PASSING => {
                let how = turn.is_multiple_of(2);
                delete(format!("/v1/job/{}?purge={how}", passing(turn - PASSING)))
            }
            7 => get("/v1/allocations?per_page=1000"),
            8 => get("/v1/jobs?per_page=1000"),
            _ if turn.is_multiple_of(50) => self.drain((turn / 50).is_multiple_of(2)),
            _ => put(format!("/v1/job/{service}/evaluate"), json!({"JobID": service}).to_string().into()),
        }
    }

    fn drain(&self, begins: bool) -> SoakRequest {
        let drain = begins.then(|| json!({"Deadline": 5_000_000_000_u64, "IgnoreSystemJobs": false}));
        let body = json!({"DrainSpec": drain, "MarkEligible": !begins}).to_string().into();
        SoakRequest { method: Method::PUT, path: format!("/v1/node/{}/drain", self.node), body }
    }

    /// The job that is dispatched.
    pub fn parameterized(&self) -> String {
        format!("{}dispatched", self.passing.prefix())
    }

    /// The job that is launched by the clock.
    pub fn periodic(&self) -> String {
        format!("{}periodic", self.passing.prefix())
    }
}

/// The number of a job.
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn churn() -> SoakLoad {
        SoakLoad {
            target: Target::open("127.0.0.1:4646".parse().unwrap()),
            staying: JobIds::of(1),
            passing: JobIds::of(2),
            services: 5,
            node: "n".to_owned(),
        }
    }

    #[test]
    fn whatever_comes_goes_again() {
        let churn = churn();
        let made = churn.request(10 * 7 + 5);
        let id = churn.passing.id(7);
        assert!(String::from_utf8_lossy(&made.body).contains(&id));
        let gone = churn.request(10 * (7 + PASSING) + 6);
        assert_eq!((gone.method, gone.path), (Method::DELETE, format!("/v1/job/{id}?purge=false")));
        let [written, deleted] = [10 * 8 + 4, 10 * 9 + 4].map(|number| churn.request(number));
        assert_eq!((written.method, deleted.method), (Method::PUT, Method::DELETE));
        assert_eq!(written.path, deleted.path);
        let [drains, ends] = [10 * 100 + 9, 10 * 150 + 9].map(|number| churn.request(number).body);
        assert!(String::from_utf8_lossy(&drains).contains("Deadline"));
        assert!(String::from_utf8_lossy(&ends).contains("\"DrainSpec\":null"));
    }
}
