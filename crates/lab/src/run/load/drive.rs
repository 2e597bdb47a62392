//! The client at work: submits, follows, and takes samples, until all allocations are where they should be.

use std::time::{Duration, Instant};

use super::{Load, counters::Counters, figures, ledger::Ledger, rollouts::Rollouts};
use crate::run::{
    Outcome, Run, RunError, audit,
    client::{Clock, Follower, JobIds, Jobs, Seen, Submission, Topics},
    cluster::{Child, Cluster},
    profile::Profiling,
    watch::Watch,
};

/// Between two samples of what processes use.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
/// After so long without an allocation that gets into the awaited state the run has failed.
const STALLED_AFTER: Duration = Duration::from_secs(60);
/// Of more allocations it is not checked whether each is where it may be: it takes as long as the rest.
const AUDITED_ALLOCS_MAX: usize = 50_000;

/// Puts the load on a cluster that is ready, and measures.
pub(super) async fn drive(
    run: &Run<'_>,
    load: &Load,
    ids: JobIds,
    cluster: &mut Cluster,
) -> Result<Outcome, RunError> {
    let counted = Counters::read(&cluster.target).await;
    let topics = if load.min_healthy.is_some() { Topics::AllocsAndDeployments } else { Topics::Allocs };
    let mut follower = Follower::open(&cluster.target, topics).await?;
    let watch = Watch::begin(cluster);
    let profiling = Profiling::begin(run, cluster.children.first().map(Child::pid));
    let clock = Clock::start();
    let submission = Submission::start(&cluster.target, &load.jobs(ids), run.options.connections, clock);
    let (ledger, rollouts) = (Ledger::new(ids, load.awaited), Rollouts::new(ids));
    let reached = (0, Instant::now());
    let mut drive = Drive { run, load, clock, ledger, rollouts, watch, submission, reached };
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
    load: &Load,
    jobs: &Jobs,
    first: u32,
    cluster: &mut Cluster,
) -> Result<(), RunError> {
    let mut follower = Follower::open(&cluster.target, Topics::Allocs).await?;
    let (watch, clock) = (Watch::begin(cluster), Clock::start());
    let submission = Submission::start_from(&cluster.target, jobs, first, run.options.connections, clock);
    let (ledger, rollouts) = (Ledger::new(jobs.ids, load.awaited), Rollouts::new(jobs.ids));
    let reached = (0, Instant::now());
    let mut drive = Drive { run, load, clock, ledger, rollouts, watch, submission, reached };
    drive.until_all_are_there(&mut follower, cluster).await
}

struct Drive<'a> {
    run: &'a Run<'a>,
    load: &'a Load,
    clock: Clock,
    ledger: Ledger,
    rollouts: Rollouts,
    watch: Watch,
    submission: Submission,
    /// The most allocations that were in the awaited state and deployments that were successful, and since when.
    reached: (u64, Instant),
}

impl Drive<'_> {
    async fn until_all_are_there(
        &mut self,
        follower: &mut Follower,
        cluster: &mut Cluster,
    ) -> Result<(), RunError> {
        let mut sample = tokio::time::interval(SAMPLE_EVERY);
        while !self.is_done() {
            tokio::select! {
                seen = follower.next() => match seen? {
                    Some(seen) => self.saw(&seen)?,
                    None => self.saw(&follower.catch_up().await?)?,
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

    fn saw(&mut self, seen: &Seen) -> Result<(), RunError> {
        let at_s = self.clock.now_s();
        seen.allocs.iter().for_each(|alloc| self.ledger.saw(at_s, self.clock, alloc));
        let mut deployments = seen.deployments.iter();
        deployments.try_for_each(|seen| self.rollouts.saw(at_s, seen)).map_err(RunError::Incomplete)
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
