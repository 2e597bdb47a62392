//! A load: jobs are submitted over HTTP, and a client follows the event stream until all their allocations are in the
//! awaited state. Clocks and counts are the client's and the kernel's.

mod counters;
mod drive;
mod event;
mod figures;
mod follow;
mod job;
mod ledger;
mod submit;
mod watch;

use std::{
    io,
    pin::pin,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use super::{
    Outcome, Run, RunError,
    cluster::{Cluster, NodesAsk},
};
use drive::drive;
pub(super) use figures::METRICS;
use job::JobIds;
pub(super) use job::JobTemplate;
pub(super) use ledger::Awaited;

/// Threads of the client; the server's processors are the same ones.
const CLIENT_THREADS: usize = 2;

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
        let mut interrupted = pin!(interrupted().map_err(failed)?);
        run.progress.says("starting the cluster");
        // What is dropped takes its processes and its data with it.
        let mut cluster = tokio::select! {
            cluster = Cluster::start(run, &load.nodes) => cluster?,
            () = &mut interrupted => return Err(RunError::Interrupted),
        };
        let ids = JobIds::new();
        let outcome = tokio::select! {
            outcome = drive(run, load, ids, &mut cluster) => outcome,
            () = &mut interrupted => Err(RunError::Interrupted),
        };
        if run.options.target.is_some() {
            let cleaned = submit::clean_up(&cluster.target, ids, load.jobs).await;
            return outcome.and_then(|outcome| cleaned.map(|()| outcome));
        }
        outcome.inspect(|_| cluster.stop())
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
