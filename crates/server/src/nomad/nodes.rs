//! Nodes: listing, reading, what runs on them, and opening or closing them to new work.

use berth_api::http::{NodeEligibility, NodeEligibilityChanged, NodePurged};
use berth_model::{
    Index, NodeId,
    command::{Collect, Command},
    node::{NODE_POOL_ALL, NodeStatus},
    store::{AllocSlot, NodeDetail, NodeRow},
};
use hyper::StatusCode;
use serde::Serialize;
use serde_json::Value;

use super::allocations::{array_of, with_job};
use crate::{
    WatchKey,
    http::{
        block,
        call::{Call, Reply},
        failure::Failure,
        ids::{IdRange, resolve},
        list::{Listing, Span, list as listed},
        propose, reply,
    },
    nomad::convert::{self, NodeStubParts, Parts},
    state::View,
};

/// `GET /v1/nodes`
pub(super) async fn list(call: Call) -> Reply {
    list_in(&call, call.query.text("node_pool")).await
}

/// `GET /v1/node/pool/:name/nodes`
pub(super) async fn of_pool(call: Call) -> Reply {
    list_in(&call, Some(call.param("name"))).await
}

async fn list_in(call: &Call, pool: Option<&str>) -> Reply {
    let resources = call.query.flag("resources", false)?;
    let listing = Nodes {
        range: IdRange::of_prefix(call.query.text("prefix"))?,
        pool: pool.filter(|pool| *pool != NODE_POOL_ALL).map(str::to_owned),
        with: NodeStubParts { resources, attributes: call.query.flag("os", false)? },
    };
    let index = |view: &View| view.store.nodes().modify_index();
    listed(call, &[WatchKey::Nodes], index, listing).await
}

struct Nodes {
    range: IdRange,
    /// None for all.
    pool: Option<String>,
    with: NodeStubParts,
}

impl Listing for Nodes {
    type Key = NodeId;
    type Row<'v> = (&'v NodeRow, &'v NodeDetail);

    fn span(&self) -> Span<NodeId> {
        self.range.span(NodeId)
    }

    fn rows<'v>(
        &self,
        view: &'v View,
        span: Span<NodeId>,
    ) -> impl DoubleEndedIterator<Item = (NodeId, Self::Row<'v>)> {
        let nodes = view.store.nodes();
        nodes.range(span).filter_map(|(id, slot)| Some((id, (nodes.row(slot)?, nodes.detail(slot)?))))
    }

    fn has(&self, (_, detail): &Self::Row<'_>) -> bool {
        self.pool.as_deref().is_none_or(|pool| pool == detail.node.pool)
    }

    fn whole(&self, _: &View, (row, detail): &Self::Row<'_>) -> Value {
        serde_json::to_value(convert::node(row, detail)).unwrap_or_default()
    }

    fn item<'v>(&self, _: &'v View, (row, detail): &Self::Row<'v>) -> impl Serialize {
        convert::node_stub(row, detail, self.with)
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
            reply::json(&call.query, &convert::node(row, detail))
        },
    )
    .await
}

/// `GET /v1/node/:id/allocations`. Whole ones with their jobs, which clients look into.
pub(super) async fn allocations(call: Call) -> Reply {
    let id = id_of(&call)?;
    let watch = [WatchKey::NodeAllocs(id), WatchKey::Node(id)];
    block::answer(
        &call,
        &watch,
        |view| allocs_index(view, id),
        async |view| {
            let (_, row) = view.store.node(id).ok_or_else(not_found)?;
            let slots = slots_on(&view, row).collect();
            array_of(&call, &view, slots, |parts, items| items.push(&with_job(parts))).await
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
        [true, false].into_iter().find(|eligible| convert::eligibility(*eligible) == asked.eligibility);
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

/// `PUT /v1/node/:id/purge`
pub(super) async fn purge(call: Call) -> Reply {
    let id = id_of(&call)?;
    let view = call.api.state.view();
    let (_, row) = view.store.node(id).ok_or_else(not_found)?;
    if row.status != NodeStatus::Down {
        let text = format!("the node is {}: stop its agent first", row.status.as_str());
        return Err(Failure::new(StatusCode::CONFLICT, text));
    }
    let live = view.store.nodes().live(row).count();
    if live > 0 {
        let text = format!("{live} allocations have not ended on the node yet: try again in a moment");
        return Err(Failure::new(StatusCode::CONFLICT, text));
    }
    let collect = Collect { nodes: vec![id], decided_on: Some(view.store.index()), ..Collect::default() };
    let Index(index) = propose::propose(&call.api, Command::Collect(Box::new(collect))).await?;
    let after = call.api.state.view();
    if after.store.node(id).is_some_and(|(_, now)| now.create_index.0 < index) {
        return Err(Failure::new(StatusCode::CONFLICT, "the node changed meanwhile, and was not purged"));
    }
    reply::json(
        &call.query,
        &NodePurged { eval_ids: Vec::new(), eval_create_index: 0, node_modify_index: index, index },
    )
}

/// The node that the path names.
fn id_of(call: &Call) -> Result<NodeId, Failure> {
    resolved(call, call.param("id"))
}

/// The node whose id begins like this; one that is not there for a whole id.
pub(super) fn resolved(call: &Call, id: &str) -> Result<NodeId, Failure> {
    let view = call.api.state.view();
    let first_two =
        |range: IdRange| view.store.nodes().range(range.span(NodeId)).map(|(id, _)| id.0).take(2).collect();
    resolve(id, "node", first_two).map(NodeId)
}

fn not_found() -> Failure {
    Failure::not_found("node not found")
}

fn index(view: &View, id: NodeId) -> Index {
    view.store.node(id).map_or(view.store.nodes().modify_index(), |(_, row)| row.modify_index)
}
