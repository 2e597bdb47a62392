//! Allocations: listing, reading, stopping.

use std::sync::Arc;

use berth_api::http::{AllocStopped, Allocation, AllocationStub};
use berth_model::{
    AllocId, Index,
    command::Command,
    eval::{Eval, Trigger},
    store::AllocSlot,
};
use serde::Serialize;

use super::{
    array::{PIECE_ITEMS, array},
    block,
    call::{Call, Reply},
    failure::Failure,
    ids::{IdRange, resolve},
    list::{Listing, list as listed},
    namespaces, propose, reply,
};
use crate::{
    WatchKey,
    convert::nomad::{self, AllocStubParts, Parts},
    state::View,
};

/// `GET /v1/allocations`
pub(super) async fn list(call: Call) -> Reply {
    call.query.refuse_unsupported()?;
    let listing = Allocs {
        range: IdRange::of_prefix(call.query.text("prefix"))?,
        namespace: Some(call.namespace()).filter(|name| *name != namespaces::ALL).map(str::to_owned),
        with: stub_parts(&call)?,
    };
    let index = |view: &View| view.store.allocs().modify_index().max(view.observed.index());
    block::read(&call, &[WatchKey::Allocs], index, |view| listed(&call, view, listing)).await
}

struct Allocs {
    range: IdRange,
    /// None for all.
    namespace: Option<String>,
    with: AllocStubParts,
}

impl Listing for Allocs {
    type Key = AllocId;
    type Item = AllocationStub;

    fn start(&self) -> AllocId {
        AllocId(self.range.from)
    }

    fn items<'v>(
        &'v self,
        view: &'v View,
        from: AllocId,
    ) -> impl Iterator<Item = (AllocId, AllocationStub)> + 'v {
        let ids = view.store.allocs().from_id(from.max(self.start()));
        ids.take_while(|(id, _)| self.range.contains(id.0))
            .filter_map(|(id, slot)| Some((id, Parts::of(view, slot)?)))
            .filter(|(_, parts)| {
                self.namespace.as_deref().is_none_or(|name| name == &*parts.job.key.namespace)
            })
            .map(|(id, parts)| (id, nomad::allocation_stub(&parts, self.with)))
    }
}

/// What a list of allocations should hold.
pub(super) fn stub_parts(call: &Call) -> Result<AllocStubParts, Failure> {
    let resources = call.query.flag("resources", false)?;
    Ok(AllocStubParts { resources, task_states: call.query.flag("task_states", true)? })
}

/// A list of some allocations, newest first.
pub(super) fn array_of<T: Serialize + 'static>(
    call: &Call,
    view: &Arc<View>,
    mut slots: Vec<AllocSlot>,
    item: impl Fn(&Parts<'_>) -> T + Send + Unpin + 'static,
) -> Reply {
    let order = |slot: &AllocSlot| view.store.allocs().row(*slot).map(|row| (row.create_index, row.id));
    slots.sort_by_cached_key(|slot| std::cmp::Reverse(order(slot)));
    let mut slots = slots.into_iter();
    array(&call.query, view, move |view| {
        let piece = slots.by_ref().filter_map(|slot| Parts::of(view, slot)).take(PIECE_ITEMS);
        piece.map(|parts| item(&parts)).collect()
    })
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
pub(super) fn with_job(parts: &Parts<'_>) -> Allocation {
    let version = parts.job_row.version(parts.row.job_version);
    let job = version.map(|version| nomad::job(parts.job_row, version));
    Allocation { job, ..nomad::allocation(parts) }
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
    reply::json(&call.query, &serde_json::Map::new())
}

/// The allocation that the path names.
pub(super) fn id_of(call: &Call) -> Result<AllocId, Failure> {
    let view = call.api.state.view();
    let first_two = |range: IdRange| {
        let ids = view.store.allocs().from_id(AllocId(range.from)).map(|(id, _)| id.0);
        ids.take_while(|id| range.contains(*id)).take(2).collect()
    };
    resolve(call.param("id"), "alloc", first_two).map(AllocId)
}

/// An allocation that must be there.
pub(super) fn find(view: &View, id: AllocId) -> Result<(AllocSlot, Parts<'_>), Failure> {
    let slot = view.store.allocs().find(id);
    let found = slot.and_then(|slot| Some((slot, Parts::of(view, slot)?)));
    found.ok_or_else(|| Failure::not_found("alloc not found"))
}
