//! Allocations: listing, reading, stopping.

use berth_api::http::{AllocStopped, Allocation};
use berth_model::{
    AllocId, Index,
    command::Command,
    eval::{Eval, Trigger},
    store::AllocSlot,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    WatchKey,
    access::{AllocParts, CallerView},
    http::{
        age::{self, Age},
        array::{ArrayItems, ROWS_HERE_MAX},
        block,
        call::{Call, Reply},
        failure::Failure,
        ids::{IdRange, resolve},
        list::{self, BoxedRows, Listing, Span, list as listed},
        reply,
        text::Text,
    },
    nomad::convert::{self, AllocStubParts},
};

/// `GET /v1/allocations`
pub(super) async fn list(call: Call) -> Reply {
    let listing = Allocs { range: IdRange::of_prefix(call.query.text("prefix"))?, with: stub_parts(&call)? };
    let index = |view: &CallerView| view.allocs_index();
    listed(&call, &[WatchKey::Allocs], index, listing).await
}

#[derive(Clone)]
struct Allocs {
    range: IdRange,
    with: AllocStubParts,
}

impl Listing for Allocs {
    type Key = Age<AllocId>;
    type Row<'v> = AllocParts<'v>;

    fn span(&self) -> Span<Age<AllocId>> {
        Age::span(&self.range, AllocId)
    }

    fn rows<'v>(
        &self,
        view: &'v CallerView,
        span: Span<Age<AllocId>>,
    ) -> impl DoubleEndedIterator<Item = (Age<AllocId>, Option<Self::Row<'v>>)> {
        let rows: BoxedRows<'v, Self> = if self.range == IdRange::ALL {
            Box::new(view.allocs_by_age(age::ages(span)).map(|(age, parts)| (age.into(), parts)))
        } else {
            Box::new(view.allocs_of_ids(age::ids(span)).map(|(id, parts)| ((Index(0), id).into(), parts)))
        };
        rows
    }

    fn whole(&self, _: &CallerView, parts: &Self::Row<'_>) -> Value {
        serde_json::to_value(convert::allocation(parts)).unwrap_or_default()
    }

    fn item<'v>(&self, _: &'v CallerView, parts: &Self::Row<'v>) -> impl Serialize {
        convert::allocation_stub(parts, self.with)
    }
}

/// What a list of allocations should hold.
pub(super) fn stub_parts(call: &Call) -> Result<AllocStubParts, Failure> {
    let resources = call.query.flag("resources", false)?;
    Ok(AllocStubParts { resources, task_states: call.query.flag("task_states", true)? })
}

/// A list of some allocations, newest first.
pub(super) async fn array_of(
    call: &Call,
    view: &CallerView,
    mut slots: Vec<AllocSlot>,
    write: impl Fn(&AllocParts<'_>, &mut ArrayItems) + Send + 'static,
) -> Reply {
    let (ordered, are_few) = (view.clone(), slots.len() <= ROWS_HERE_MAX);
    let order = move || {
        let order = |slot: &AllocSlot| ordered.alloc_row(*slot).map(|row| (row.create_index, row.id));
        slots.sort_by_cached_key(|slot| std::cmp::Reverse(order(slot)));
        slots
    };
    // Most lists are short, and going to another thread costs more than these.
    let slots = if are_few { order() } else { call.api.heavy.run(order).await };
    let (rows, wholes) = (view.clone(), view.clone());
    list::array_of(
        call,
        slots,
        move |slot, items| rows.alloc_in(*slot).iter().for_each(|parts| write(parts, items)),
        move |slot| serde_json::to_value(convert::allocation(&wholes.alloc_in(*slot)?)).ok(),
    )
    .await
}

/// `GET /v1/allocation/:id`
pub(super) async fn read(call: Call) -> Reply {
    let id = id_of(&call)?;
    let index = |view: &CallerView| match find(view, id) {
        Ok(parts) => parts.index(),
        Err(_) => view.logged_allocs_index(),
    };
    block::read(&call, &[WatchKey::Alloc(id)], index, |view| {
        let parts = find(view, id)?;
        reply::json(&call.query, &with_job(&parts))
    })
    .await
}

/// An allocation with the version of its job that it runs.
pub(super) fn with_job<'v>(parts: &AllocParts<'v>) -> Allocation<Text<'v>> {
    let job = parts.job_version().map(|(view, row, version)| convert::job(view, row, version));
    Allocation { job, ..convert::allocation(parts) }
}

/// `PUT /v1/allocation/:id/stop`
pub(super) async fn stop(call: Call) -> Reply {
    let id = id_of(&call)?;
    let view = call.view();
    let parts = find(&view, id)?;
    let eval = call.mint_eval();
    let job = parts.job;
    let record = Eval::pending(eval, job.key.clone(), job.job_type, job.priority, Trigger::AllocStop);
    let Index(index) = call.propose(Command::StopAlloc(id, Box::new(record))).await?;
    reply::json(&call.query, &AllocStopped { eval_id: eval.to_string(), index })
}

/// The allocation that the path names.
pub(super) fn id_of(call: &Call) -> Result<AllocId, Failure> {
    let view = call.view();
    let first_two =
        |range: IdRange| view.allocs_by_id(range.span(AllocId)).map(|parts| parts.row.id.0).take(2).collect();
    resolve(call.param("id"), "alloc", first_two).map(AllocId)
}

/// An allocation that must be there.
pub(super) fn find(view: &CallerView, id: AllocId) -> Result<AllocParts<'_>, Failure> {
    view.alloc(id).ok_or_else(|| Failure::not_found("alloc not found"))
}
