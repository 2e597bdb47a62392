//! Upkeep that an operator asks for: forgetting at once what has ended.

use axum::body::Body;
use berth_model::{
    command::{Collect, Command},
    node::NodeStatus,
    store::Store,
};

use crate::http::{
    call::{Call, Reply},
    propose, reply,
};

/// Allocations or evaluations forgotten in one command; all of them together fit an entry of the log.
const COLLECTED_MAX: usize = 4096;
/// Jobs and nodes forgotten in one command: a job takes its allocations along.
const JOBS_COLLECTED_MAX: usize = 256;
/// Commands of one request; what is left after these goes when it has been kept for long enough.
const COMMANDS_MAX: usize = 256;

/// `PUT /v1/system/gc`
pub(super) async fn collect(call: Call) -> Reply {
    for _ in 0..COMMANDS_MAX {
        let view = call.api.state.view();
        let found = call.api.heavy.run(move || collectable(&view.store)).await;
        if found.is_empty() {
            break;
        }
        propose::propose(&call.api, Command::Collect(Box::new(found))).await?;
    }
    Ok(reply::with_type(Body::empty(), reply::JSON))
}

/// `PUT /v1/system/reconcile/summaries`: there is nothing to do, counts are kept in step with what they count.
pub(super) async fn reconcile_summaries(_: Call) -> Reply {
    Ok(reply::with_type(Body::empty(), reply::JSON))
}

/// What has ended.
fn collectable(store: &Store) -> Collect {
    let jobs = store.jobs().iter().filter(|(_, row)| row.is_over());
    let evals = store.evals().iter().filter(|(_, eval)| eval.status.is_terminal());
    let allocs = store.allocs().iter().filter(|(_, row)| store.may_forget(row));
    let nodes = store.nodes().iter().filter(|(_, row)| row.status == NodeStatus::Down && row.live.is_empty());
    Collect {
        jobs: jobs.take(JOBS_COLLECTED_MAX).map(|(_, row)| row.key.clone()).collect(),
        evals: evals.take(COLLECTED_MAX).map(|(_, eval)| eval.id).collect(),
        allocs: allocs.take(COLLECTED_MAX).map(|(_, row)| row.id).collect(),
        nodes: nodes.take(JOBS_COLLECTED_MAX).map(|(_, row)| row.id).collect(),
        decided_on: Some(store.index()),
    }
}
