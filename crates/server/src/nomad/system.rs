//! Garbage collection on request of an operator.

use std::sync::atomic::AtomicBool;

use axum::body::Body;
use berth_model::{
    command::{Collect, Command},
    deployment::Deployment,
    node::NodeStatus,
    store::{NodeRow, Store},
};

use crate::http::{
    call::{Call, Reply},
    failure::Failure,
    heavy::{unless_disconnected, while_client_waits},
    reply,
};

/// Allocations or evaluations forgotten in one command; all of them together fit an entry of the log.
const COLLECTED_MAX: usize = 4096;
/// Jobs and nodes forgotten in one command: a job takes its allocations along.
const JOBS_COLLECTED_MAX: usize = 256;
/// Objects of one kind that one request collects; the rest are collected at their usual time.
pub(super) const REQUEST_MAX: usize = 1 << 20;
/// How often a request looks for what has ended: the second time finds what the first made free to go, as nodes whose
/// allocations are forgotten. What ends meanwhile is not chased.
const ROUNDS: usize = 2;

/// `PUT /v1/system/gc`: forgets what had ended when it was asked.
pub(super) async fn collect(call: Call) -> Reply {
    for _ in 0..ROUNDS {
        forget(&call, collectable).await?;
    }
    Ok(reply::with_type(Body::empty(), reply::JSON))
}

/// Forgets what is found in the state.
///
/// # Errors
/// When the caller may not, or the client has left.
pub(super) async fn forget(
    call: &Call,
    find: impl FnOnce(&Store, &AtomicBool) -> Collect + Send + 'static,
) -> Result<(), Failure> {
    let store = call.view().everything()?.clone();
    let find = move |client_has_left: &AtomicBool| {
        unless_disconnected(client_has_left, find(&store, client_has_left))
    };
    for part in parts(call.api.heavy.run_for_client(find).await?) {
        call.propose(Command::Collect(Box::new(part))).await?;
    }
    Ok(())
}

/// As many commands as it takes for each to fit an entry of the log.
fn parts(mut all: Collect) -> impl Iterator<Item = Collect> {
    std::iter::from_fn(move || {
        let part = Collect {
            jobs: first(&mut all.jobs, JOBS_COLLECTED_MAX),
            evals: first(&mut all.evals, COLLECTED_MAX),
            allocs: first(&mut all.allocs, COLLECTED_MAX),
            nodes: first(&mut all.nodes, JOBS_COLLECTED_MAX),
            deployments: first(&mut all.deployments, COLLECTED_MAX),
            decided_on: all.decided_on,
        };
        (!part.is_empty()).then_some(part)
    })
}

fn first<T>(all: &mut Vec<T>, most: usize) -> Vec<T> {
    let rest = all.split_off(most.min(all.len()));
    std::mem::replace(all, rest)
}

/// `PUT /v1/system/reconcile/summaries`: there is nothing to do, counts are kept in step with what they count.
pub(super) async fn reconcile_summaries(_: Call) -> Reply {
    Ok(reply::with_type(Body::empty(), reply::JSON))
}

/// The objects that have ended and that a request may collect; only a part of them if its client leaves meanwhile.
pub fn collectable(store: &Store, client_has_left: &AtomicBool) -> Collect {
    let jobs = while_client_waits(client_has_left, store.jobs().iter()).filter(|(_, row)| row.is_over());
    let evals = while_client_waits(client_has_left, store.evals().iter())
        .filter(|(_, eval)| eval.status.is_terminal());
    let allocs =
        while_client_waits(client_has_left, store.allocs().iter()).filter(|(_, row)| store.may_collect(row));
    let is_gone = |row: &NodeRow| row.status == NodeStatus::Down && row.live.is_empty();
    let nodes = while_client_waits(client_has_left, store.nodes().iter()).filter(|(_, row)| is_gone(row));
    // The last one of a job stays; what can go is known to the state alone, and so is asked for once.
    let is_last =
        |d: &Deployment| store.deployments().of_job(&d.job).next_back().is_some_and(|l| l.id == d.id);
    let deployments = while_client_waits(client_has_left, store.deployments().iter());
    let deployments = deployments.filter(|d| !d.is_active() && !is_last(d));
    Collect {
        jobs: jobs.take(REQUEST_MAX).map(|(_, row)| row.key.clone()).collect(),
        evals: evals.take(REQUEST_MAX).map(|(_, eval)| eval.id).collect(),
        allocs: allocs.take(REQUEST_MAX).map(|(_, row)| row.id).collect(),
        nodes: nodes.take(REQUEST_MAX).map(|(_, row)| row.id).collect(),
        deployments: deployments.take(REQUEST_MAX).map(|deployment| deployment.id).collect(),
        decided_on: Some(store.index()),
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{AllocId, EvalId};

    use crate::nomad::tests::world::{register, small_job, world};

    use super::*;

    #[test]
    fn what_is_forgotten_is_proposed_in_parts_and_nothing_twice() {
        let ids = || (0..10_000).map(AllocId).collect::<Vec<_>>();
        let all: Vec<Collect> = parts(Collect { allocs: ids(), ..Collect::default() }).collect();
        let sizes: Vec<usize> = all.iter().map(|part| part.allocs.len()).collect();
        assert_eq!(sizes, [4096, 4096, 1808]);
        assert_eq!(all.into_iter().flat_map(|part| part.allocs).collect::<Vec<_>>(), ids());
        assert_eq!(parts(Collect::default()).count(), 0);
    }

    #[test]
    fn nobody_looks_for_what_has_ended_once_the_client_has_left() {
        let world = world();
        let job = berth_model::job::Job { stop: true, ..small_job("over") };
        world.apply(vec![register(job, EvalId(1))]);
        let view = world.view.load();
        let found = |has_left: bool| collectable(&view.store, &AtomicBool::new(has_left));
        assert!(!found(false).is_empty());
        assert!(found(true).is_empty());
    }
}
