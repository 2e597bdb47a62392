//! Submits jobs on several connections, one request at a time on each.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::Method;
use tokio::{task::JoinSet, time::sleep};

use super::{JobIds, JobTemplate, RunClock};
use crate::run::{Target, error::RunError, http::Connection};

/// Between two tries of a request that may fail.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// When a job was on its way; seconds since the first request.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(in crate::run) struct JobTimes {
    /// When its request was sent, in seconds of the run.
    pub submitted_s: f64,
    /// When its answer had arrived, in seconds of the run.
    pub acknowledged_s: f64,
}

/// The jobs of a run, by number.
#[derive(Debug, Clone)]
pub(in crate::run) struct SubmittedJobs {
    /// Their ids.
    pub ids: JobIds,
    /// What there is to choose from.
    pub templates: Arc<[JobTemplate]>,
    /// The number of the template of each job.
    pub kinds: Arc<[usize]>,
    /// How many live at a time: for each one more the oldest is deleted. None for all.
    pub population: Option<u32>,
    /// A request that fails is sent again for so long, over a new connection. Zero where refusals are what is measured.
    pub patience: Duration,
}

impl SubmittedJobs {
    /// So many, all of one kind, that all stay.
    pub fn alike(ids: JobIds, template: JobTemplate, count: u32) -> Self {
        let kinds = Arc::from(vec![0; count as usize]);
        Self { ids, templates: Arc::from([template]), kinds, population: None, patience: Duration::ZERO }
    }

    /// Number of jobs.
    pub fn count(&self) -> u32 {
        u32::try_from(self.kinds.len()).expect("jobs are counted in 32 bits")
    }

    fn body(&self, number: u32) -> Bytes {
        self.templates[self.kinds[number as usize]].body(&self.ids.id(number))
    }

    /// The job that is deleted when this one is registered.
    fn oldest(&self, number: u32) -> Option<String> {
        Some(self.ids.id(number.checked_sub(self.population?)?))
    }
}

/// Jobs on their way.
pub(in crate::run) struct Submission {
    connections: JoinSet<Result<Vec<(u32, JobTimes)>, RunError>>,
    acknowledged: Arc<AtomicU64>,
    jobs: Vec<JobTimes>,
}

impl Submission {
    /// Begins. Jobs go out in the order of their numbers, each on the next connection that is free.
    pub fn start(target: &Target, jobs: &SubmittedJobs, connections: u32, clock: RunClock) -> Self {
        Self::start_from(target, jobs, 0, connections, clock)
    }

    /// As [`Self::start`], with jobs from this number on.
    pub fn start_from(
        target: &Target,
        jobs: &SubmittedJobs,
        first: u32,
        connections: u32,
        clock: RunClock,
    ) -> Self {
        let (next, acknowledged) = (Arc::new(AtomicU32::new(first)), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..connections.clamp(1, jobs.count()) {
            let (target, jobs) = (target.clone(), jobs.clone());
            let (next, acknowledged) = (next.clone(), acknowledged.clone());
            tasks.spawn(async move {
                let mut connection = Connection::open(&target).await?;
                let mut times = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= jobs.count() {
                        return Ok(times);
                    }
                    let body = jobs.body(number);
                    let submitted_s = clock.now_s();
                    register(&mut connection, &target, body, jobs.patience).await?;
                    times.push((number, JobTimes { submitted_s, acknowledged_s: clock.now_s() }));
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                    if let Some(oldest) = jobs.oldest(number) {
                        delete(&mut connection, &oldest).await?;
                    }
                }
            });
        }
        Self { connections: tasks, acknowledged, jobs: vec![JobTimes::default(); jobs.kinds.len()] }
    }

    /// Jobs that the server has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Whether all are acknowledged.
    pub fn is_done(&self) -> bool {
        self.connections.is_empty()
    }

    /// Waits until a connection is done.
    pub async fn next(&mut self) -> Result<(), RunError> {
        let times = match self.connections.join_next().await {
            None => return Ok(()),
            Some(Ok(times)) => times?,
            Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
        };
        for (number, times) in times {
            self.jobs[number as usize] = times;
        }
        Ok(())
    }

    /// The times of all jobs, by number.
    pub fn jobs(&self) -> &[JobTimes] {
        &self.jobs
    }
}

/// Registers a job; the same job twice is as good as once.
async fn register(
    connection: &mut Connection,
    target: &Target,
    body: Bytes,
    patience: Duration,
) -> Result<(), RunError> {
    let started_at = Instant::now();
    loop {
        match connection.write(Method::PUT, "/v1/jobs", body.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) if started_at.elapsed() >= patience => return Err(error),
            Err(_) => sleep(TRY_AGAIN).await,
        }
        if let Ok(another) = Connection::open(target).await {
            *connection = another;
        }
    }
}

/// Takes the jobs away again from a server that stays: all that can be.
///
/// # Errors
/// When one cannot be, with the error of the first of these.
pub(in crate::run) async fn clean_up(target: &Target, ids: JobIds, jobs: u32) -> Result<(), RunError> {
    let mut connection = Connection::open(target).await?;
    let mut cleaned = Ok(());
    for number in 0..jobs {
        let done = delete(&mut connection, &ids.id(number)).await;
        cleaned = cleaned.and(done);
    }
    cleaned
}

async fn delete(connection: &mut Connection, job: &str) -> Result<(), RunError> {
    let path = format!("/v1/job/{job}?purge=true");
    connection.write(Method::DELETE, &path, Bytes::new()).await
}
