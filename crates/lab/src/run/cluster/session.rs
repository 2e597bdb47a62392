//! Runs work on a cluster, from its start to its end, also when it is interrupted.

use std::{io, pin::pin};

use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use super::{Cluster, ClusterParams, Target};
use crate::run::{Run, RunError};

/// Threads of the client; the server's processors are the same ones.
const CLIENT_THREADS: usize = 2;

/// Does the work on a cluster that is ready, and ends the cluster. A target stays: there `clean_up` takes away what the work
/// has left, however that has ended.
pub(in crate::run) fn on_cluster<T>(
    run: &Run<'_>,
    request: &ClusterParams,
    work: impl AsyncFnOnce(&mut Cluster) -> Result<T, RunError>,
    clean_up: impl AsyncFnOnce(&Target) -> Result<(), RunError>,
) -> Result<T, RunError> {
    let failed = |source| RunError::Io { doing: "start the client".to_owned(), source };
    let runtime = runtime::Builder::new_multi_thread().worker_threads(CLIENT_THREADS).enable_all().build();
    runtime.map_err(failed)?.block_on(async {
        let mut interrupted = pin!(interrupted().map_err(failed)?);
        run.progress.print("starting the cluster");
        // What is dropped takes its processes and its data with it.
        let mut cluster = tokio::select! {
            cluster = Cluster::start(run, request) => cluster?,
            () = &mut interrupted => return Err(RunError::Interrupted),
        };
        let done = tokio::select! {
            done = work(&mut cluster) => done,
            () = &mut interrupted => Err(RunError::Interrupted),
        };
        if run.options.target.is_some() {
            let cleaned = clean_up(&cluster.target).await;
            return done.and_then(|done| cleaned.map(|()| done));
        }
        done.inspect(|_| cluster.stop())
    })
}

/// Completes at a signal to end.
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
