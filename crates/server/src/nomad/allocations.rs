//! Allocations: listing, reading, stopping.

use std::sync::Arc;

use berth_api::http::{AllocStopped, Allocation};
use berth_model::{
    AllocId, Index,
    command::Command,
    eval::{Eval, Trigger},
    store::AllocSlot,
};
use serde::Serialize;
use serde_json::Value;

use super::namespaces;
use crate::{
    WatchKey,
    http::{
        age::{self, Age},
        array::Items,
        block,
        call::{Call, Reply},
        failure::Failure,
        ids::{IdRange, resolve},
        list::{self, Listing, Span, list as listed},
        propose, reply,
        text::Text,
    },
    nomad::convert::{self, AllocStubParts, Parts},
    state::View,
};

/// `GET /v1/allocations`
pub(super) async fn list(call: Call) -> Reply {
    let listing = Allocs {
        range: IdRange::of_prefix(call.query.text("prefix"))?,
        namespace: Some(call.namespace()).filter(|name| *name != namespaces::ALL).map(str::to_owned),
        with: stub_parts(&call)?,
    };
    let index = |view: &View| view.store.allocs().modify_index().max(view.observed.index());
    listed(&call, &[WatchKey::Allocs], index, listing).await
}

struct Allocs {
    range: IdRange,
    /// None for all.
    namespace: Option<String>,
    with: AllocStubParts,
}

impl Listing for Allocs {
    type Key = Age<AllocId>;
    type Row<'v> = Parts<'v>;

    fn span(&self) -> Span<Age<AllocId>> {
        Age::span(&self.range, AllocId)
    }

    fn rows<'v>(
        &self,
        view: &'v View,
        span: Span<Age<AllocId>>,
    ) -> impl DoubleEndedIterator<Item = (Age<AllocId>, Parts<'v>)> {
        let allocs = view.store.allocs();
        let places: Box<dyn DoubleEndedIterator<Item = (Index, AllocId)> + 'v> = if self.range == IdRange::ALL
        {
            Box::new(allocs.by_age(age::ages(span)))
        } else {
            Box::new(allocs.range(age::ids(span)).map(|(id, _)| (Index(0), id)))
        };
        places.filter_map(|(created, id)| Some((Age { created, id }, Parts::of(view, allocs.find(id)?)?)))
    }

    fn has(&self, parts: &Parts<'_>) -> bool {
        self.namespace.as_deref().is_none_or(|name| name == &*parts.job.key.namespace)
    }

    fn whole(&self, _: &View, parts: &Parts<'_>) -> Value {
        serde_json::to_value(convert::allocation(parts)).unwrap_or_default()
    }

    fn item<'v>(&self, _: &'v View, parts: &Parts<'v>) -> impl Serialize {
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
    view: &Arc<View>,
    mut slots: Vec<AllocSlot>,
    write: impl Fn(&Parts<'_>, &mut Items) + Send + 'static,
) -> Reply {
    let order = |slot: &AllocSlot| view.store.allocs().row(*slot).map(|row| (row.create_index, row.id));
    slots.sort_by_cached_key(|slot| std::cmp::Reverse(order(slot)));
    let (rows, wholes) = (view.clone(), view.clone());
    list::array_of(
        call,
        slots,
        move |slot, items| Parts::of(&rows, *slot).iter().for_each(|parts| write(parts, items)),
        move |slot| serde_json::to_value(convert::allocation(&Parts::of(&wholes, *slot)?)).ok(),
    )
    .await
}

/// `GET /v1/allocation/:id`
pub(super) async fn read(call: Call) -> Reply {
    let id = id_of(&call)?;
    let index = |view: &View| match find(view, id) {
        Ok((_, parts)) => parts.index(),
        Err(_) => view.store.allocs().modify_index(),
    };
    block::read(&call, &[WatchKey::Alloc(id)], index, |view| {
        let (_, parts) = find(view, id)?;
        reply::json(&call.query, &with_job(&parts))
    })
    .await
}

/// An allocation with the version of its job that it runs.
pub(super) fn with_job<'v>(parts: &Parts<'v>) -> Allocation<Text<'v>> {
    let version = parts.job_row.version(parts.row.job_version);
    let job = version.map(|version| convert::job(parts.job_row, version));
    Allocation { job, ..convert::allocation(parts) }
}

/// `PUT /v1/allocation/:id/stop`
pub(super) async fn stop(call: Call) -> Reply {
    let id = id_of(&call)?;
    let view = call.api.state.view();
    let (_, parts) = find(&view, id)?;
    let eval = propose::mint_eval(&call.api);
    let job = parts.job;
    let record = Eval::pending(eval, job.key.clone(), job.job_type, job.priority, Trigger::AllocStop);
    let Index(index) = propose::propose(&call.api, Command::StopAlloc(id, Box::new(record))).await?;
    reply::json(&call.query, &AllocStopped { eval_id: eval.to_string(), index })
}

/// `GET /v1/client/allocation/:id/checks`: none, there are no checks yet; clients ask all the same.
pub(super) async fn checks(call: Call) -> Reply {
    find(&call.api.state.view(), id_of(&call)?)?;
    reply::json(&call.query, &serde_json::Map::<String, Value>::new())
}

/// The allocation that the path names, if the caller may do there what the route is for.
pub(super) fn id_of(call: &Call) -> Result<AllocId, Failure> {
    let view = call.api.state.view();
    let first_two =
        |range: IdRange| view.store.allocs().range(range.span(AllocId)).map(|(id, _)| id.0).take(2).collect();
    let id = resolve(call.param("id"), "alloc", first_two).map(AllocId)?;
    if let Ok((_, parts)) = find(&view, id) {
        call.check_namespace(&parts.job_row.key.namespace)?;
    }
    Ok(id)
}

/// An allocation that must be there.
pub(super) fn find(view: &View, id: AllocId) -> Result<(AllocSlot, Parts<'_>), Failure> {
    let slot = view.store.allocs().find(id);
    let found = slot.and_then(|slot| Some((slot, Parts::of(view, slot)?)));
    found.ok_or_else(|| Failure::not_found("alloc not found"))
}
