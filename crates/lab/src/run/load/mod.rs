//! A load: jobs are submitted over HTTP, and a client follows the event stream until all their allocations are in the
//! awaited state. Clocks and counts are the client's and the kernel's.

mod counters;
mod event;
mod figures;
mod follow;
mod job;
mod ledger;
mod submit;
mod watch;

use std::{
    io,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use super::{
    Outcome, Run, RunError,
    cluster::{Child, Cluster, NodesAsk},
    profile::Profiling,
};
use counters::Counters;
pub(super) use figures::METRICS;
use follow::Follower;
use job::JobIds;
pub(super) use job::JobTemplate;
pub(super) use ledger::Awaited;
use ledger::Ledger;
use submit::Submission;
use watch::Watch;

/// Threads of the client; the server's processors are the same ones.
const CLIENT_THREADS: usize = 2;
/// Between two samples of what processes use.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
/// After so long without an allocation that gets into the awaited state the run has failed.
const STALLED_AFTER: Duration = Duration::from_secs(60);

/// What is asked of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Load {
    /// The nodes.
    pub nodes: NodesAsk,
    /// What the jobs have in common.
    pub template: JobTemplate,
    /// How many jobs.
    pub jobs: u32,
    /// Which state every allocation must reach.
    pub awaited: Awaited,
}

/// Seconds since the first request, and the same on the clocks of others.
#[derive(Debug, Clone, Copy)]
struct Clock {
    begun: Instant,
    begun_ns: u64,
}

impl Clock {
    fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { begun: Instant::now(), begun_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) }
    }

    fn now_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Of nanoseconds since the Unix epoch.
    fn at_s(&self, ns: u64) -> f64 {
        (i128::from(ns) - i128::from(self.begun_ns)) as f64 / 1e9
    }
}

/// Puts the load on a cluster, and measures.
pub(super) fn measure(run: &Run<'_>, load: &Load) -> Result<Outcome, RunError> {
    let failed = |source| RunError::Io { doing: "start the client".to_owned(), source };
    let runtime = runtime::Builder::new_multi_thread().worker_threads(CLIENT_THREADS).enable_all().build();
    runtime.map_err(failed)?.block_on(async {
        let interrupted = interrupted().map_err(failed)?;
        // What is not finished is dropped, and takes its processes and its data with it.
        tokio::select! {
            outcome = on_cluster(run, load) => outcome,
            () = interrupted => Err(RunError::Interrupted),
        }
    })
}

/// Completes when somebody asks for the end.
fn interrupted() -> io::Result<impl Future<Output = ()>> {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [interrupt, terminate, hangup] = kinds.map(signal);
    let (mut interrupt, mut terminate, mut hangup) = (interrupt?, terminate?, hangup?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

async fn on_cluster(run: &Run<'_>, load: &Load) -> Result<Outcome, RunError> {
    run.progress.says("starting the cluster");
    let mut cluster = Cluster::start(run, &load.nodes).await?;
    let outcome = drive(run, load, &mut cluster).await?;
    cluster.stop();
    Ok(outcome)
}

async fn drive(run: &Run<'_>, load: &Load, cluster: &mut Cluster) -> Result<Outcome, RunError> {
    let ids = JobIds::new();
    let expected = u64::from(load.jobs) * u64::from(load.template.count);
    let counted = Counters::read(&cluster.target).await;
    let mut follower = Follower::open(&cluster.target).await?;
    let mut ledger = Ledger::new(ids, load.awaited);
    let mut watch = Watch::begin(cluster);
    let profiling = Profiling::begin(run, cluster.children.first().map(Child::pid));
    let clock = Clock::start();
    let mut submission = Submission::start(&cluster.target, load, ids, run.options.connections, clock);
    let mut sample = tokio::time::interval(SAMPLE_EVERY);
    let mut progressed = (0, Instant::now());
    while ledger.reached() < expected || !submission.is_done() {
        tokio::select! {
            seen = follower.next() => {
                let seen = match seen? {
                    Some(seen) => seen,
                    None => follower.catch_up().await?,
                };
                let at_s = clock.now_s();
                seen.iter().for_each(|alloc| ledger.saw(at_s, clock, alloc));
            }
            more = submission.next(), if !submission.is_done() => more?,
            _ = sample.tick() => {
                let counts = ledger.counts(submission.acknowledged() * u64::from(load.template.count));
                watch.sample(clock.now_s(), counts);
                run.progress.counts(counts, expected);
                cluster.check()?;
                if counts.running > progressed.0 {
                    progressed = (counts.running, Instant::now());
                } else if progressed.1.elapsed() > STALLED_AFTER {
                    return Err(stalled(&ledger, expected));
                }
            }
        }
    }
    let counts = ledger.counts(expected);
    watch.sample(clock.now_s(), counts);
    run.progress.ends(counts);
    let used = watch.server_used();
    let counted =
        Counters::read(&cluster.target).await.zip(counted).map(|(after, before)| after.since(before));
    if run.options.target.is_some() {
        submit::clean_up(&cluster.target, ids, load.jobs).await?;
    }
    let mut outcome = figures::outcome(&ledger, submission.jobs(), used, counted);
    outcome.notes.extend(follower.note());
    outcome.series = watch.into_series();
    profiling.end(&mut outcome);
    Ok(outcome)
}

fn stalled(ledger: &Ledger, expected: u64) -> RunError {
    RunError::Incomplete(format!(
        "{} of {expected} allocations are {}, and nothing has changed for {STALLED_AFTER:?}: {}",
        ledger.reached(),
        ledger.awaited().name(),
        ledger.states(),
    ))
}
