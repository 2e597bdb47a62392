//! The client at work: submits, follows, and takes samples, until all allocations are where they should be.

use std::time::{Duration, Instant};

use super::{Load, counters::Counters, figures, ledger::Ledger};
use crate::run::{
    Outcome, Run, RunError,
    client::{AllocSeen, Clock, Follower, JobIds, Submission, Topics},
    cluster::{Child, Cluster},
    profile::Profiling,
    watch::Watch,
};

/// Between two samples of what processes use.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
/// After so long without an allocation that gets into the awaited state the run has failed.
const STALLED_AFTER: Duration = Duration::from_secs(60);

/// Puts the load on a cluster that is ready, and measures.
pub(super) async fn drive(
    run: &Run<'_>,
    load: &Load,
    ids: JobIds,
    cluster: &mut Cluster,
) -> Result<Outcome, RunError> {
    let counted = Counters::read(&cluster.target).await;
    let mut follower = Follower::open(&cluster.target, Topics::Allocs).await?;
    let watch = Watch::begin(cluster);
    let profiling = Profiling::begin(run, cluster.children.first().map(Child::pid));
    let clock = Clock::start();
    let submission = Submission::start(&cluster.target, &load.jobs(ids), run.options.connections, clock);
    let ledger = Ledger::new(ids, load.awaited);
    let reached = (0, Instant::now());
    let mut drive = Drive { run, load, clock, ledger, watch, submission, reached };
    drive.until_all_are_there(&mut follower, cluster).await?;
    let used = drive.watch.server_used();
    let after = Counters::read(&cluster.target).await;
    let counted = after.zip(counted).map(|(after, before)| after.since(&before));
    let mut outcome = figures::outcome(&drive.ledger, drive.submission.jobs(), used, counted.as_ref());
    outcome.notes.extend(follower.note());
    outcome.series = drive.watch.into_series();
    profiling.end(&mut outcome);
    Ok(outcome)
}

struct Drive<'a> {
    run: &'a Run<'a>,
    load: &'a Load,
    clock: Clock,
    ledger: Ledger,
    watch: Watch,
    submission: Submission,
    /// The most allocations that were in the awaited state, and since when.
    reached: (u64, Instant),
}

impl Drive<'_> {
    async fn until_all_are_there(
        &mut self,
        follower: &mut Follower,
        cluster: &mut Cluster,
    ) -> Result<(), RunError> {
        let mut sample = tokio::time::interval(SAMPLE_EVERY);
        while self.ledger.reached() < self.expected() || !self.submission.is_done() {
            tokio::select! {
                seen = follower.next() => match seen? {
                    Some(seen) => self.saw(&seen.allocs),
                    None => self.saw(&follower.catch_up().await?.allocs),
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

    fn saw(&mut self, allocs: &[AllocSeen]) {
        let at_s = self.clock.now_s();
        allocs.iter().for_each(|alloc| self.ledger.saw(at_s, self.clock, alloc));
    }

    /// Takes a sample; fails when nothing has moved for long.
    fn sample(&mut self) -> Result<(), RunError> {
        let created = self.submission.acknowledged() * u64::from(self.load.template.count);
        let counts = self.ledger.counts(created);
        self.watch.sample(self.clock.now_s(), counts);
        self.run.progress.counts(counts, self.expected());
        let (most, since) = &mut self.reached;
        if counts.running > *most {
            (*most, *since) = (counts.running, Instant::now());
        }
        if since.elapsed() < STALLED_AFTER {
            return Ok(());
        }
        Err(RunError::Incomplete(format!(
            "{} of {} allocations are {}, and there have been no more for {STALLED_AFTER:?}: {}",
            counts.running,
            self.expected(),
            self.load.awaited.name(),
            self.ledger.states(),
        )))
    }
}
