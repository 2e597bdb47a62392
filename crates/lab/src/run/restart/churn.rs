//! Writes without a pause: jobs are registered, updated, stopped, purged and registered again.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    job,
    job_states::{JobState, REVISION},
    ledger::SharedLedger,
};
use crate::{
    random::Random,
    run::{
        RunError, Target,
        http::{Connection, HttpReply},
    },
};

/// Clients that write, each with jobs of its own and one request at a time.
const CLIENTS: u32 = 16;
/// Jobs that change, for each change a second.
const JOBS_PER_CHANGE: u32 = 10;
/// Allocations of the first of these jobs, which stands for the large ones.
const LARGE: u32 = 100;
/// Every so many jobs have more than one allocation, and how many.
const SOME_EVERY: u32 = 4;
const SOME: u32 = 4;
/// After so long without an answer nobody knows what has become of a write, and nobody will.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Until all jobs must have been written, in the end, so that it is known what they are.
const CONFIRM_MAX: Duration = Duration::from_secs(60);
/// Before a server that is not there is dialed again.
const DIAL_AGAIN: Duration = Duration::from_millis(20);

/// What there is to write.
#[derive(Debug, Clone)]
pub(super) struct ChangePlan {
    /// How the ids of all jobs that change begin.
    pub prefix: String,
    pub rate: u32,
    pub seed: u64,
}

/// The running clients.
pub(super) struct ChangeClients {
    stop: watch::Sender<bool>,
    clients: JoinSet<Result<(), RunError>>,
}

/// How many jobs change, and how many allocations they have in all when all are there.
pub(super) fn size(rate: u32) -> (u32, u32) {
    let jobs = rate * JOBS_PER_CHANGE;
    (jobs, (0..jobs).map(count).sum())
}

/// Allocations of a job that changes, by its number.
fn count(number: u32) -> u32 {
    match number {
        0 => LARGE,
        _ if number.is_multiple_of(SOME_EVERY) => SOME,
        _ => 1,
    }
}

impl ChangeClients {
    /// Starts the clients.
    pub fn start(target: &Target, changes: &ChangePlan, ledger: &SharedLedger) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut clients = JoinSet::new();
        let (jobs, _) = size(changes.rate);
        for number in 0..CLIENTS.min(changes.rate) {
            let client = ChangeClient {
                target: target.clone(),
                changes: changes.clone(),
                ledger: ledger.clone(),
                random: Random::new(changes.seed ^ u64::from(number)),
                jobs: (number..jobs).step_by(CLIENTS as usize).collect(),
                revision: 0,
                connection: None,
            };
            clients.spawn(client.work(stopped.clone()));
        }
        Self { stop, clients }
    }

    /// No more writes; returns when the last one is answered.
    pub async fn stop(mut self) -> Result<(), RunError> {
        let _ = self.stop.send(true);
        while let Some(done) = self.clients.join_next().await {
            done.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))?;
        }
        Ok(())
    }
}

/// A client that writes.
struct ChangeClient {
    target: Target,
    changes: ChangePlan,
    ledger: SharedLedger,
    random: Random,
    /// The numbers of its jobs.
    jobs: Vec<u32>,
    /// The last that it has written.
    revision: u64,
    connection: Option<Connection>,
}

/// What has become of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteResult {
    Acknowledged,
    /// Not done, and never will be.
    Refused,
    /// There is no such job.
    NotFound,
    /// Done or not, whoever was to do it is gone.
    Unanswered,
    /// Done or not, or yet to be done.
    Waiting,
}

impl ChangeClient {
    async fn work(mut self, mut stopped: watch::Receiver<bool>) -> Result<(), RunError> {
        let clients = f64::from(CLIENTS.min(self.changes.rate));
        let mut ticks = interval(Duration::from_secs_f64(clients / f64::from(self.changes.rate)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.jobs.is_empty() {
            tokio::select! {
                _ = ticks.tick() => {
                    let at = self.random.below(self.jobs.len() as u64) as usize;
                    self.change(at).await;
                }
                _ = stopped.changed() => break,
            }
        }
        self.confirm().await
    }

    /// Writes every job again of which nobody knows what it is.
    async fn confirm(&mut self) -> Result<(), RunError> {
        let started_at = Instant::now();
        loop {
            let unsure = |number: &u32| !self.ledger.lock().job_states.is_confirmed(&self.id(*number));
            let Some(at) = self.jobs.iter().position(unsure) else { return Ok(()) };
            if started_at.elapsed() > CONFIRM_MAX {
                let message =
                    format!("job {} could not be written for {CONFIRM_MAX:?}", self.id(self.jobs[at]));
                return Err(RunError::Incomplete(message));
            }
            self.change(at).await;
        }
    }

    fn id(&self, number: u32) -> String {
        format!("{}{number}", self.changes.prefix)
    }

    async fn change(&mut self, at: usize) {
        let number = self.jobs[at];
        let id = self.id(number);
        let (before, next) = self.next(&id);
        self.ledger.lock().job_states.begin(&id, count(number), next);
        let written = self.write(&id, count(number), next).await;
        let mut ledger = self.ledger.lock();
        match written {
            WriteResult::Acknowledged => {
                ledger.acknowledged += 1;
                ledger.job_states.acknowledge(&id);
            }
            WriteResult::Refused => {
                ledger.refused += 1;
                ledger.job_states.withdraw(&id);
            }
            WriteResult::NotFound => {
                ledger.job_states.withdraw(&id);
                ledger.wrong.push(format!("job {id} is {before:?}, and not found when it is to be stopped"));
            }
            WriteResult::Unanswered => ledger.unanswered += 1,
            WriteResult::Waiting => {
                ledger.unanswered += 1;
                ledger.job_states.stop_checking(&id);
                self.jobs.swap_remove(at);
            }
        }
    }

    /// What the job is, as far as anybody knows, and what it is to become. A job of which nobody knows is registered.
    fn next(&mut self, id: &str) -> (Option<JobState>, JobState) {
        let ledger = self.ledger.lock();
        let (latest, confirmed) = (ledger.job_states.latest(id), ledger.job_states.is_confirmed(id));
        self.revision += 1;
        let revision = self.revision;
        let next = match latest {
            Some(JobState::Live(_)) if confirmed => match self.random.below(4) {
                0 => JobState::Stopped,
                1 => JobState::Purged,
                _ => JobState::Live(revision),
            },
            _ => JobState::Live(revision),
        };
        (latest, next)
    }

    async fn write(&mut self, id: &str, count: u32, state: JobState) -> WriteResult {
        let (method, path, body) = match state {
            JobState::Live(revision) => (Method::PUT, "/v1/jobs".to_owned(), self.body(id, count, revision)),
            JobState::Stopped => (Method::DELETE, format!("/v1/job/{id}"), Bytes::new()),
            JobState::Purged => (Method::DELETE, format!("/v1/job/{id}?purge=true"), Bytes::new()),
        };
        let mut connection = match self.connection.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => connection,
            None => match Connection::open(&self.target).await {
                Ok(connection) => connection,
                Err(_) => {
                    sleep(DIAL_AGAIN).await;
                    return WriteResult::Refused;
                }
            },
        };
        let Ok(answer) = timeout(ANSWER_MAX, connection.exchange(method, &path, body)).await else {
            return WriteResult::Waiting;
        };
        let Ok(reply) = answer else { return WriteResult::Unanswered };
        self.connection = Some(connection);
        match reply.status {
            status if status.is_success() => WriteResult::Acknowledged,
            StatusCode::NOT_FOUND => WriteResult::NotFound,
            status if status.is_client_error() || is_recovering(&reply) => WriteResult::Refused,
            _ => WriteResult::Unanswered,
        }
    }

    fn body(&self, id: &str, count: u32, revision: u64) -> Bytes {
        let mut job = job(count);
        job["ID"] = id.into();
        job["Name"] = id.into();
        job["Meta"] = json!({ REVISION: revision.to_string() });
        json!({ "Job": job }).to_string().into()
    }
}

/// Whether a server refuses because it is still recovering.
pub(in crate::run) fn is_recovering(reply: &HttpReply) -> bool {
    let text = reply.text();
    let is_said = ["recover", "not caught up"].iter().any(|word| text.contains(word));
    reply.status == StatusCode::SERVICE_UNAVAILABLE && is_said
}
