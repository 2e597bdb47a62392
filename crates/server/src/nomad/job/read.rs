//! Reading one job and what belongs to it.

use std::sync::Arc;

use berth_api::http::{Evaluation, Job};
use berth_model::{
    DeploymentId,
    eval::Eval,
    store::{AllocSlot, JobRow},
};

use super::{index, key, not_found};
use crate::{
    WatchKey,
    access::CallerView,
    http::{
        block,
        call::{Call, Reply},
        list::array_of,
        reply,
    },
    nomad::{
        allocations::{self, stub_parts},
        convert, deployments,
    },
};

/// `GET /v1/job/:id`
pub(in crate::nomad) async fn read(call: Call) -> Reply {
    read_row(&call, |view, row| reply::json(&call.query, &Job(convert::job(view, row, row.current())))).await
}

/// Answers a read of what a job itself is.
pub(super) async fn read_row(call: &Call, render: impl FnOnce(&CallerView, &JobRow) -> Reply) -> Reply {
    let key = key(call);
    let watch = [WatchKey::Job(key.clone())];
    block::read(
        call,
        &watch,
        |view| index(view, &key),
        |view| render(view, view.job(&key).ok_or_else(not_found)?),
    )
    .await
}

/// `GET /v1/job/:id/summary`
pub(in crate::nomad) async fn summary(call: Call) -> Reply {
    let key = key(&call);
    let watch =
        [WatchKey::Job(key.clone()), WatchKey::JobAllocs(key.clone()), WatchKey::JobEvals(key.clone())];
    let summary_index = |view: &CallerView| match view.job(&key) {
        Some(row) => view.job_counts_index(row),
        None => index(view, &key),
    };
    block::read(&call, &watch, summary_index, |view| {
        let row = view.job(&key).ok_or_else(not_found)?;
        reply::json(&call.query, &convert::summary(view, row))
    })
    .await
}

/// `GET /v1/job/:id/allocations`. A job that is not there has none.
pub(in crate::nomad) async fn allocations(call: Call) -> Reply {
    let key = key(&call);
    let with = stub_parts(&call)?;
    let watch = [WatchKey::JobAllocs(key.clone()), WatchKey::Job(key.clone())];
    let allocs_index = |view: &CallerView| match view.job(&key) {
        Some(row) => view.job_allocs_index(row),
        None => index(view, &key),
    };
    block::answer(&call, &watch, allocs_index, async |view| {
        let row = view.job(&key);
        let slots: Vec<AllocSlot> = row.iter().flat_map(|row| view.allocs_of(row)).collect();
        allocations::array_of(&call, &view, slots, move |parts, items| {
            items.push(&convert::allocation_stub(parts, with));
        })
        .await
    })
    .await
}

/// `GET /v1/job/:id/evaluations`. A job that is not there has none.
pub(in crate::nomad) async fn evaluations(call: Call) -> Reply {
    let key = key(&call);
    let watch = [WatchKey::JobEvals(key.clone()), WatchKey::Job(key.clone())];
    let evals_index = |view: &CallerView| match view.job(&key) {
        Some(row) => row.evals_index,
        None => index(view, &key),
    };
    block::answer(&call, &watch, evals_index, async |view| {
        let row = view.job(&key);
        let slots = row.iter().flat_map(|row| view.evals_of(row));
        let mut evals: Vec<_> = slots.filter_map(|slot| view.eval_in(slot)).collect();
        evals.sort_by_key(|eval| (std::cmp::Reverse(eval.create_index), eval.id));
        // The answer is written without the view, which would keep the state as it was.
        let pair = |eval: &Arc<Eval>| (eval.clone(), view.deployment_of_eval(eval));
        let rows: Vec<_> = evals.into_iter().map(pair).collect();
        let whole = |row: &_| serde_json::to_value(with_deployment(row)).ok();
        array_of(&call, rows, |row, items| items.push(&with_deployment(row)), whole).await
    })
    .await
}

fn with_deployment((eval, deployment): &(Arc<Eval>, Option<DeploymentId>)) -> Evaluation {
    convert::evaluation(eval, *deployment)
}

/// `GET /v1/job/:id/deployment`: its last one, or none.
pub(in crate::nomad) async fn deployment(call: Call) -> Reply {
    let key = key(&call);
    let watch = [WatchKey::JobDeployments(key.clone())];
    block::read(
        &call,
        &watch,
        |view| deployments::job_index(view, &key),
        |view| {
            let last = view.deployments_of(&key).next_back();
            reply::json(&call.query, &last.map(|of| convert::deployment(view, of)))
        },
    )
    .await
}

/// `GET /v1/job/:id/deployments`. A job that is not there has none.
pub(in crate::nomad) async fn deployments(call: Call) -> Reply {
    deployments::of_job(&call, &key(&call)).await
}
