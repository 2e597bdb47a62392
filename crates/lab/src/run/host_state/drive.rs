//! The client: fills the cluster, requests instances, and follows the outcome of each request.

use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::json;
use tokio::time::timeout;

use super::{
    decisions::PlacementRequests,
    figures::{self, RunMeasurements},
    flavors::FLAVORS,
    plans::{self, PlanningOverview},
    preload::{fillers, preload},
    refusals::{JobRequests, holders, left, wrong_refusals},
    scenario::Scenario,
    warm_up::warm_up,
};
use crate::run::{
    Run, RunError, RunOutcome, Target,
    client::{
        EventBatch, EventFollower, FollowedTopics, JobIds, JobTemplate, RunClock, Submission, SubmittedJobs,
    },
    cluster::{ChildProcess, Cluster},
    http::Connection,
    profile::Profiling,
    progress::TaskCounts,
    usage_sampler::UsageSampler,
};

/// Up to so many requests are sent at once, each on a connection of its own.
const AT_ONCE_MAX: u32 = 64;
/// Between two samples of what processes use.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
/// Until what waits must have been placed on resources that others have freed.
const SETTLE_MAX: Duration = Duration::from_secs(5);
/// After so long without another decision the run has failed.
const STALLED_AFTER: Duration = Duration::from_secs(60);

/// Runs the scenario on a cluster that is ready, and measures.
pub(super) async fn drive(
    run: &Run<'_>,
    scenario: &Scenario,
    cluster: &mut Cluster,
) -> Result<RunOutcome, RunError> {
    let target = cluster.target.clone();
    let (ids, flavors) = (JobIds::new(), scenario.flavors(run.seed));
    let fillers = if scenario.preload { fillers(scenario, &flavors) } else { Vec::new() };
    configure(&target, scenario.algorithm).await?;
    preload(&target, &fillers).await?;
    warm_up(&target, scenario.planners).await?;
    let mut follower = EventFollower::open(&target, FollowedTopics::AllocsAndEvals).await?;
    let watch = UsageSampler::begin(cluster);
    let profiling = Profiling::begin(run, cluster.children.first().map(ChildProcess::pid));
    let jobs = SubmittedJobs {
        ids,
        templates: FLAVORS.iter().map(|flavor| JobTemplate::new(1, flavor.job(1))).collect(),
        kinds: flavors.as_slice().into(),
        population: scenario.population,
        patience: Duration::ZERO,
    };
    let connections = if scenario.requests <= AT_ONCE_MAX { AT_ONCE_MAX } else { run.options.connections };
    let clock = RunClock::start();
    let submission = Submission::start(&target, &jobs, connections, clock);
    let decisions = PlacementRequests::new(ids, scenario.requests);
    let mut drive = HostStateDriver {
        run,
        target: target.clone(),
        clock,
        decisions,
        submission,
        watch,
        decided: (0, Instant::now()),
    };
    drive.until_all_are_decided(&mut follower, cluster).await?;
    let job_requests = JobRequests { ids, flavors: &flavors, fillers: &fillers };
    let wrong_refusals = drive.wrong_refusals(&mut follower, scenario, &job_requests).await?;
    let planning = PlanningOverview::of(&plans::read(&target).await?, ids, clock);
    let HostStateDriver { decisions, submission, watch, .. } = drive;
    let measured = RunMeasurements {
        requests: decisions.requests(),
        submitted: submission.jobs(),
        planning: &planning,
        wrong_refusals,
        used: watch.server_used(),
    };
    let mut outcome = figures::outcome(scenario, &measured);
    outcome.notes.extend(follower.note());
    outcome.series = watch.into_series();
    profiling.end(&mut outcome);
    Ok(outcome)
}

async fn configure(target: &Target, algorithm: &str) -> Result<(), RunError> {
    let body = json!({ "SchedulerAlgorithm": algorithm }).to_string().into();
    let mut connection = Connection::open(target).await?;
    connection.write(Method::PUT, "/v1/operator/scheduler/configuration", body).await
}

struct HostStateDriver<'a> {
    run: &'a Run<'a>,
    target: Target,
    clock: RunClock,
    decisions: PlacementRequests,
    submission: Submission,
    watch: UsageSampler,
    /// The most requests that were decided, and since when.
    decided: (usize, Instant),
}

impl HostStateDriver<'_> {
    async fn until_all_are_decided(
        &mut self,
        follower: &mut EventFollower,
        cluster: &mut Cluster,
    ) -> Result<(), RunError> {
        let mut sample = tokio::time::interval(SAMPLE_EVERY);
        while !self.decisions.is_complete() || !self.submission.is_done() {
            tokio::select! {
                batch = follower.next() => match batch? {
                    Some(batch) => self.record(&batch),
                    None => self.record(&follower.catch_up().await?),
                },
                more = self.submission.next(), if !self.submission.is_done() => more?,
                _ = sample.tick() => {
                    cluster.check()?;
                    self.sample()?;
                }
            }
        }
        self.sample()?;
        self.run.progress.ends(self.counts());
        Ok(())
    }

    /// How many refusals were wrong. Where instances end, what waits gets some time to be placed on the resources that they free.
    async fn wrong_refusals(
        &mut self,
        follower: &mut EventFollower,
        scenario: &Scenario,
        job_requests: &JobRequests<'_>,
    ) -> Result<usize, RunError> {
        let first = scenario.first_to_stay();
        let settled_by = Instant::now() + SETTLE_MAX;
        loop {
            let left = left(scenario.nodes, &holders(&self.target).await?, job_requests);
            let (requests, flavors) = (&self.decisions.requests()[first..], &job_requests.flavors[first..]);
            let wrong = wrong_refusals(requests, flavors, left, scenario.population.is_none());
            let is_final = wrong == 0 || scenario.population.is_none();
            if is_final || Instant::now() > settled_by {
                return Ok(wrong);
            }
            let batch = timeout(SAMPLE_EVERY, follower.next()).await;
            if let Ok(batch) = batch {
                batch?.into_iter().for_each(|batch| self.record(&batch));
            }
        }
    }

    fn record(&mut self, batch: &EventBatch) {
        self.decisions.record(self.clock.now_s(), batch);
    }

    fn counts(&self) -> TaskCounts {
        TaskCounts {
            created: self.submission.acknowledged(),
            placed: self.decisions.placed() as u64,
            running: self.decisions.started() as u64,
        }
    }

    /// Takes a sample; fails when nothing has moved for long.
    fn sample(&mut self) -> Result<(), RunError> {
        let (counts, all) = (self.counts(), self.decisions.requests().len());
        self.watch.sample(self.clock.now_s(), counts);
        self.run.progress.counts(counts, all as u64);
        let (most, since) = &mut self.decided;
        if self.decisions.decided() > *most {
            (*most, *since) = (self.decisions.decided(), Instant::now());
        }
        if since.elapsed() < STALLED_AFTER {
            return Ok(());
        }
        let message = format!(
            "{} of {all} requests are decided and {} of {} instances run, and there have been no more for \
             {STALLED_AFTER:?}",
            self.decisions.decided(),
            counts.running,
            counts.placed
        );
        Err(RunError::Incomplete(message))
    }
}
