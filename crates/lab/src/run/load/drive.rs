//! The client at work: submits jobs, follows them, and takes samples until all allocations have reached the awaited state.

use std::time::{Duration, Instant};

use super::{LoadParams, counters::Counters, figures, ledger::AllocLedger, rollouts::Rollouts};
use crate::run::{
    Run, RunError, RunOutcome, audit,
    client::{EventBatch, EventFollower, FollowedTopics, JobIds, RunClock, Submission, SubmittedJobs},
    cluster::{ChildProcess, Cluster},
    profile::Profiling,
    usage_sampler::UsageSampler,
};

/// Between two samples of what processes use.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
/// After so long without an allocation that gets into the awaited state the run has failed.
const STALLED_AFTER: Duration = Duration::from_secs(60);
/// With more allocations their placement is not audited: that would take as long as the rest of the run.
const AUDITED_ALLOCS_MAX: usize = 50_000;

/// Puts the load on a cluster that is ready, and measures.
pub(super) async fn drive(
    run: &Run<'_>,
    load: &LoadParams,
    ids: JobIds,
    cluster: &mut Cluster,
) -> Result<RunOutcome, RunError> {
    let counted = Counters::read(&cluster.target).await;
    let topics = if load.min_healthy.is_some() {
        FollowedTopics::AllocsAndDeployments
    } else {
        FollowedTopics::Allocs
    };
    let mut follower = EventFollower::open(&cluster.target, topics).await?;
    let watch = UsageSampler::begin(cluster);
    let profiling = Profiling::begin(run, cluster.children.first().map(ChildProcess::pid));
    let clock = RunClock::start();
    let submission = Submission::start(&cluster.target, &load.jobs(ids), run.options.connections, clock);
    let (ledger, rollouts) = (AllocLedger::new(ids, load.awaited), Rollouts::new(ids));
    let reached = (0, Instant::now());
    let mut drive = LoadDriver { run, load, clock, ledger, rollouts, watch, submission, reached };
    drive.until_all_are_there(&mut follower, cluster).await?;
    let used = drive.watch.server_used();
    let after = Counters::read(&cluster.target).await;
    let counted = after.zip(counted).map(|(after, before)| after.since(&before));
    let mut outcome = figures::outcome(&drive.ledger, drive.submission.jobs(), used, counted.as_ref());
    if let Some(min_healthy) = load.min_healthy {
        figures::deployments(&mut outcome, drive.ledger.allocs(), drive.rollouts.done_s(), min_healthy);
    }
    outcome.notes.extend(follower.note());
    outcome.series = drive.watch.into_series();
    profiling.end(&mut outcome);
    if drive.ledger.allocs().len() <= AUDITED_ALLOCS_MAX {
        outcome.failures.extend(audit::failures(&cluster.target).await?);
    }
    Ok(outcome)
}

/// Puts one kind of jobs on a cluster, those from the number `first` on, and waits until all their allocations are where they
/// should be: what an experiment needs before it begins to measure.
pub(in crate::run) async fn fill(
    run: &Run<'_>,
    load: &LoadParams,
    jobs: &SubmittedJobs,
    first: u32,
    cluster: &mut Cluster,
) -> Result<(), RunError> {
    let mut follower = EventFollower::open(&cluster.target, FollowedTopics::Allocs).await?;
    let (watch, clock) = (UsageSampler::begin(cluster), RunClock::start());
    let submission = Submission::start_from(&cluster.target, jobs, first, run.options.connections, clock);
    let (ledger, rollouts) = (AllocLedger::new(jobs.ids, load.awaited), Rollouts::new(jobs.ids));
    let reached = (0, Instant::now());
    let mut drive = LoadDriver { run, load, clock, ledger, rollouts, watch, submission, reached };
    drive.until_all_are_there(&mut follower, cluster).await
}

struct LoadDriver<'a> {
    run: &'a Run<'a>,
    load: &'a LoadParams,
    clock: RunClock,
    ledger: AllocLedger,
    rollouts: Rollouts,
    watch: UsageSampler,
    submission: Submission,
    /// The most allocations that were in the awaited state and deployments that were successful, and since when.
    reached: (u64, Instant),
}

impl LoadDriver<'_> {
    async fn until_all_are_there(
        &mut self,
        follower: &mut EventFollower,
        cluster: &mut Cluster,
    ) -> Result<(), RunError> {
        let mut sample = tokio::time::interval(SAMPLE_EVERY);
        while !self.is_done() {
            tokio::select! {
                batch = follower.next() => match batch? {
                    Some(batch) => self.record(&batch)?,
                    None => self.record(&follower.catch_up().await?)?,
                },
                more = self.submission.next(), if !self.submission.is_done() => more?,
                _ = sample.tick() => {
                    cluster.check()?;
                    self.sample()?;
                }
            }
        }
        self.sample()?;
        self.run.progress.ends(self.ledger.counts(self.expected()));
        Ok(())
    }

    fn expected(&self) -> u64 {
        u64::from(self.load.jobs) * u64::from(self.load.template.count)
    }

    fn is_done(&self) -> bool {
        let deployed =
            self.load.min_healthy.is_none() || self.rollouts.successful() == u64::from(self.load.jobs);
        deployed && self.ledger.reached() == self.expected() && self.submission.is_done()
    }

    fn record(&mut self, batch: &EventBatch) -> Result<(), RunError> {
        let at_s = self.clock.now_s();
        batch.allocs.iter().for_each(|alloc| self.ledger.record(at_s, self.clock, alloc));
        let mut deployments = batch.deployments.iter();
        deployments.try_for_each(|batch| self.rollouts.record(at_s, batch)).map_err(RunError::Incomplete)
    }

    /// Takes a sample; fails when nothing has moved for long.
    fn sample(&mut self) -> Result<(), RunError> {
        let created = self.submission.acknowledged() * u64::from(self.load.template.count);
        let counts = self.ledger.counts(created);
        self.watch.sample(self.clock.now_s(), counts);
        self.run.progress.counts(counts, self.expected());
        let (most, since) = &mut self.reached;
        let reached = counts.running + self.rollouts.successful();
        if reached > *most {
            (*most, *since) = (reached, Instant::now());
        }
        if since.elapsed() < STALLED_AFTER {
            return Ok(());
        }
        Err(RunError::Incomplete(format!(
            "{} of {} allocations are {}, {} deployments are successful, and there have been no more for \
             {STALLED_AFTER:?}: {}",
            counts.running,
            self.expected(),
            self.load.awaited.name(),
            self.rollouts.successful(),
            self.ledger.states(),
        )))
    }
}
