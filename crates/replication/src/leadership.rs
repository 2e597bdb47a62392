//! Tells the observer who leads, and when consensus itself has failed.

use std::sync::Arc;

use openraft::{
    async_runtime::WatchReceiver,
    errors::Fatal,
    metrics::{RaftMetrics, RaftServerMetrics},
    type_config::alias::WatchReceiverOf,
};

use crate::{
    observer::{Alarm, Observer},
    runtime::{Runtime, engine::AsyncRuntime},
    types::{Raft, Types},
};

/// Follows `raft` until it ends.
pub(crate) fn follow<R: Runtime>(raft: &Raft<R>, observer: Arc<dyn Observer>, alarm: Arc<Alarm>) {
    drop(R::Async::spawn(run::<R>(raft.server_metrics(), raft.metrics(), observer, alarm)));
}

async fn run<R: Runtime>(
    mut server: WatchReceiverOf<Types<R>, RaftServerMetrics<Types<R>>>,
    all: WatchReceiverOf<Types<R>, RaftMetrics<Types<R>>>,
    observer: Arc<dyn Observer>,
    alarm: Arc<Alarm>,
) {
    let tell = |(term, leader)| alarm.guard("tell who leads", || observer.on_leadership(term, leader));
    let mut told = (0, false);
    loop {
        let now = leadership(&server.borrow_watched());
        if now != told && tell(now).is_err() {
            return;
        }
        told = now;
        if server.changed().await.is_err() {
            break;
        }
    }
    if told.1 && tell((told.0, false)).is_err() {
        return;
    }
    if let Err(error @ (Fatal::StorageError(_) | Fatal::Panicked)) = &all.borrow_watched().running_state {
        alarm.raise(&error.to_string());
    }
}

fn leadership<R: Runtime>(metrics: &RaftServerMetrics<Types<R>>) -> (u64, bool) {
    (metrics.vote.leader_id.term, metrics.state.is_leader())
}
