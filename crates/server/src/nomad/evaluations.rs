//! Evaluations: listing, reading, and the allocations that they placed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_api::http::{Evaluation, EvaluationStub};
use berth_model::{EvalId, Index, eval::Eval, store::AllocSlot};
use serde::Serialize;
use serde_json::Value;

use super::allocations::{array_of, stub_parts};
use crate::{
    WatchKey,
    access::CallerView,
    http::{
        age::{self, Age},
        block,
        call::{Call, Reply},
        failure::Failure,
        ids::{IdRange, resolve},
        list::{BoxedRows, Listing, Span, list as listed},
        reply,
    },
    nomad::convert,
};

/// Relatives listed for one evaluation.
const RELATED_MAX: usize = 256;

/// `GET /v1/evaluations`
pub(super) async fn list(call: Call) -> Reply {
    let text = |name| call.query.text(name).map(str::to_owned);
    let listing = Evals {
        range: IdRange::of_prefix(call.query.text("prefix"))?,
        job: text("job"),
        status: text("status"),
    };
    let index = |view: &CallerView| view.evals_index();
    listed(&call, &[WatchKey::Evals], index, listing).await
}

#[derive(Clone)]
struct Evals {
    range: IdRange,
    /// None for all, as below.
    job: Option<String>,
    status: Option<String>,
}

impl Listing for Evals {
    type Key = Age<EvalId>;
    type Row<'v> = &'v Eval;

    fn span(&self) -> Span<Age<EvalId>> {
        Age::span(&self.range, EvalId)
    }

    fn rows<'v>(
        &self,
        view: &'v CallerView,
        span: Span<Age<EvalId>>,
    ) -> impl DoubleEndedIterator<Item = (Age<EvalId>, Option<Self::Row<'v>>)> {
        let rows: BoxedRows<'v, Self> = if self.range == IdRange::ALL {
            Box::new(view.evals_by_age(age::ages(span)).map(|(age, eval)| (age.into(), eval)))
        } else {
            Box::new(view.evals_of_ids(age::ids(span)).map(|(id, eval)| ((Index(0), id).into(), eval)))
        };
        rows
    }

    fn has(&self, eval: &Self::Row<'_>) -> bool {
        let is = |wanted: &Option<String>, own: &str| wanted.as_deref().is_none_or(|wanted| wanted == own);
        is(&self.job, eval.job.name()) && is(&self.status, eval.status.as_str())
    }

    fn whole(&self, view: &CallerView, eval: &Self::Row<'_>) -> Value {
        serde_json::to_value(self.item(view, eval)).unwrap_or_default()
    }

    fn item<'v>(&self, view: &'v CallerView, eval: &Self::Row<'v>) -> impl Serialize {
        convert::evaluation(eval, view.deployment_of_eval(eval))
    }
}

/// `GET /v1/evaluation/:id`
pub(super) async fn read(call: Call) -> Reply {
    let id = id_of(&call)?;
    let related = call.query.flag("related", false)?;
    block::read(
        &call,
        &[WatchKey::Eval(id)],
        |view| index(view, id),
        |view| {
            let eval = find(view, id)?;
            let related_evals = related.then(|| relatives(view, eval));
            reply::json(
                &call.query,
                &Evaluation { related_evals, ..convert::evaluation(eval, view.deployment_of_eval(eval)) },
            )
        },
    )
    .await
}

/// The evaluations that made this one or that it made, and theirs, by id.
fn relatives(view: &CallerView, eval: &Eval) -> Vec<EvaluationStub> {
    let links = links(view, eval);
    let mut found = BTreeSet::from([eval.id]);
    let mut unvisited = vec![eval.id];
    while let Some(id) = unvisited.pop() {
        for next in links.get(&id).into_iter().flatten() {
            if found.len() <= RELATED_MAX && found.insert(*next) {
                unvisited.push(*next);
            }
        }
    }
    found.remove(&eval.id);
    let stub = |eval: &Arc<Eval>| convert::evaluation_stub(eval, view.deployment_of_eval(eval));
    found.into_iter().filter_map(|id| view.eval(id)).map(stub).collect()
}

/// Which evaluation of the same job made which, in both directions.
fn links(view: &CallerView, eval: &Eval) -> BTreeMap<EvalId, Vec<EvalId>> {
    let job = view.job_of(eval);
    let slots = job.iter().flat_map(|row| view.evals_of(row));
    let mut links: BTreeMap<EvalId, Vec<EvalId>> = BTreeMap::new();
    for eval in slots.filter_map(|slot| view.eval_in(slot)) {
        for other in [eval.previous, eval.blocked].into_iter().flatten() {
            links.entry(eval.id).or_default().push(other);
            links.entry(other).or_default().push(eval.id);
        }
    }
    links
}

/// `GET /v1/evaluation/:id/allocations`. An evaluation that is not there has none.
pub(super) async fn allocations(call: Call) -> Reply {
    let id = id_of(&call)?;
    let with = stub_parts(&call)?;
    block::answer(
        &call,
        &[WatchKey::EvalAllocs(id)],
        |view| allocs_index(view, id),
        async |view| {
            array_of(&call, &view, placed_by(&view, id), move |parts, items| {
                items.push(&convert::allocation_stub(parts, with));
            })
            .await
        },
    )
    .await
}

/// `GET /v1/evaluation/:id/plans`: how it was answered, as far as this server still knows.
pub(super) async fn plans(call: Call) -> Reply {
    let plans = call.plans(Some(id_of(&call)?));
    reply::json(&call.query, &plans.iter().map(convert::plan_trace).collect::<Vec<_>>())
}

/// Where any allocation of the evaluation's job last changed: cheap to find, never too low, seldom too high.
fn allocs_index(view: &CallerView, id: EvalId) -> Index {
    let eval = view.eval(id);
    let job = eval.and_then(|eval| view.job_of(eval));
    job.map_or(view.logged_allocs_index(), |row| view.job_allocs_index(row))
}

fn placed_by(view: &CallerView, id: EvalId) -> Vec<AllocSlot> {
    let job = view.eval(id).and_then(|eval| view.job_of(eval));
    let slots = job.iter().flat_map(|row| view.allocs_of(row));
    slots.filter(|slot| view.alloc_in(*slot).is_some_and(|parts| parts.detail.eval == id)).collect()
}

/// The evaluation that the path names.
fn id_of(call: &Call) -> Result<EvalId, Failure> {
    let view = call.view();
    let first_two =
        |range: IdRange| view.evals_by_id(range.span(EvalId)).map(|eval| eval.id.0).take(2).collect();
    resolve(call.param("id"), "eval", first_two).map(EvalId)
}

fn find(view: &CallerView, id: EvalId) -> Result<&Arc<Eval>, Failure> {
    view.eval(id).ok_or_else(|| Failure::not_found("eval not found"))
}

fn index(view: &CallerView, id: EvalId) -> Index {
    view.eval(id).map_or(view.evals_index(), |eval| eval.modify_index)
}
