//! Nodes: listing, reading, what runs on them, and opening or closing them to new work.

use berth_api::http::{NodeEligibility, NodeEligibilityChanged, NodeStub};
use berth_model::{
    Index, NodeId,
    command::Command,
    store::{AllocSlot, NodeRow},
};

use super::{
    allocations::{array_of, with_job},
    block,
    call::{Call, Reply},
    failure::Failure,
    ids::{IdRange, resolve},
    list::{Listing, list as listed},
    propose, reply,
};
use crate::{
    WatchKey,
    convert::nomad::{self, NodeStubParts, Parts},
    state::View,
};

/// `GET /v1/nodes`
pub(super) async fn list(call: Call) -> Reply {
    call.query.refuse_unsupported()?;
    let resources = call.query.flag("resources", false)?;
    let listing = Nodes {
        range: IdRange::of_prefix(call.query.text("prefix"))?,
        pool: call.query.text("node_pool").map(str::to_owned),
        with: NodeStubParts { resources, attributes: call.query.flag("os", false)? },
    };
    let index = |view: &View| view.store.nodes().modify_index();
    block::read(&call, &[WatchKey::Nodes], index, |view| listed(&call, view, listing)).await
}

struct Nodes {
    range: IdRange,
    /// None for all.
    pool: Option<String>,
    with: NodeStubParts,
}

impl Listing for Nodes {
    type Key = NodeId;
    type Item = NodeStub;

    fn start(&self) -> NodeId {
        NodeId(self.range.from)
    }

    fn items<'v>(&'v self, view: &'v View, from: NodeId) -> impl Iterator<Item = (NodeId, NodeStub)> + 'v {
        let nodes = view.store.nodes();
        let ids = nodes.from_id(from.max(self.start())).take_while(|(id, _)| self.range.contains(id.0));
        let found = ids.filter_map(|(id, slot)| Some((id, nodes.row(slot)?, nodes.detail(slot)?)));
        found
            .filter(|(_, _, detail)| self.pool.as_deref().is_none_or(|pool| pool == detail.node.pool))
            .map(|(id, row, detail)| (id, nomad::node_stub(row, detail, self.with)))
    }
}

/// `GET /v1/node/:id`
pub(super) async fn read(call: Call) -> Reply {
    let id = id_of(&call)?;
    block::read(
        &call,
        &[WatchKey::Node(id)],
        |view| index(view, id),
        |view| {
            let (slot, row) = view.store.node(id).ok_or_else(not_found)?;
            let detail = view.store.nodes().detail(slot).ok_or_else(not_found)?;
            reply::json(&call.query, &nomad::node(row, detail))
        },
    )
    .await
}

/// `GET /v1/node/:id/allocations`. Whole ones with their jobs, which clients look into.
pub(super) async fn allocations(call: Call) -> Reply {
    let id = id_of(&call)?;
    let watch = [WatchKey::NodeAllocs(id), WatchKey::Node(id)];
    block::read(
        &call,
        &watch,
        |view| allocs_index(view, id),
        |view| {
            let (_, row) = view.store.node(id).ok_or_else(not_found)?;
            array_of(&call, view, slots_on(view, row).collect(), with_job)
        },
    )
    .await
}

fn slots_on<'v>(view: &'v View, row: &'v NodeRow) -> impl Iterator<Item = AllocSlot> + 'v {
    let nodes = view.store.nodes();
    nodes.live(row).chain(nodes.ended(row))
}

fn allocs_index(view: &View, id: NodeId) -> Index {
    let Some((_, row)) = view.store.node(id) else { return view.store.nodes().modify_index() };
    let parts = slots_on(view, row).filter_map(|slot| Parts::of(view, slot));
    parts.map(|parts| parts.index()).fold(row.modify_index, Index::max)
}

/// `PUT /v1/node/:id/eligibility`
pub(super) async fn eligibility(mut call: Call) -> Reply {
    let id = id_of(&call)?;
    let asked: NodeEligibility = call.json().await?;
    let eligible =
        [true, false].into_iter().find(|eligible| nomad::eligibility(*eligible) == asked.eligibility);
    let eligible =
        eligible.ok_or_else(|| Failure::bad_request("Eligibility must be `eligible` or `ineligible`"))?;
    if !asked.node_id.is_empty() && asked.node_id.parse() != Ok(id) {
        return Err(Failure::bad_request("NodeID in the body is not the node of the path"));
    }
    let Index(index) = propose::propose(&call.api, Command::SetNodeEligibility(id, eligible)).await?;
    let answer = NodeEligibilityChanged {
        node_modify_index: index,
        eval_ids: Vec::new(),
        eval_create_index: 0,
        index,
    };
    reply::json(&call.query, &answer)
}

/// The node that the path names.
fn id_of(call: &Call) -> Result<NodeId, Failure> {
    let view = call.api.state.view();
    let first_two = |range: IdRange| {
        let ids = view.store.nodes().from_id(NodeId(range.from)).map(|(id, _)| id.0);
        ids.take_while(|id| range.contains(*id)).take(2).collect()
    };
    resolve(call.param("id"), "node", first_two).map(NodeId)
}

fn not_found() -> Failure {
    Failure::not_found("node not found")
}

fn index(view: &View, id: NodeId) -> Index {
    view.store.node(id).map_or(view.store.nodes().modify_index(), |(_, row)| row.modify_index)
}
