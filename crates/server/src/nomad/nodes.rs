//! Nodes: listing, reading, their allocations, and their eligibility.

use berth_api::http::{
    DrainSpec, NodeDrain, NodeEligibility, NodeEligibilityChanged, NodeEvaluated, NodePurged,
};
use berth_model::{
    Index, NodeId, Timestamp,
    acl::ChangeAcl,
    command::{Collect, Command, DrainNode, NewDrain},
    eval::{Eval, Trigger},
    node::{NODE_POOL_ALL, NodeStatus},
    store::{NodeDetail, NodeRow},
};
use hyper::StatusCode;
use serde::Serialize;
use serde_json::Value;

use super::allocations::{array_of, with_job};
use crate::{
    WatchKey,
    access::CallerView,
    clock,
    http::{
        block,
        call::{Call, Reply},
        failure::Failure,
        ids::{IdRange, resolve},
        list::{Listing, Span, list as listed},
        reply,
    },
    nomad::convert::{self, NodeStubParts},
};

/// Longest message of a drain, in bytes.
const DRAIN_META_BYTES_MAX: usize = 4 << 10;
/// Evaluations that are made in one command.
const EVALS_MADE_MAX: usize = 256;

/// `GET /v1/nodes`
pub(super) async fn list(call: Call) -> Reply {
    list_in(&call, call.query.text("node_pool")).await
}

/// The nodes of the pool that the path names.
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
    let index = |view: &CallerView| view.nodes_index();
    listed(call, &[WatchKey::Nodes], index, listing).await
}

#[derive(Clone)]
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
        view: &'v CallerView,
        span: Span<NodeId>,
    ) -> impl DoubleEndedIterator<Item = (NodeId, Option<Self::Row<'v>>)> {
        view.nodes(span).map(|(row, detail)| (row.id, Some((row, detail))))
    }

    fn has(&self, (_, detail): &Self::Row<'_>) -> bool {
        self.pool.as_deref().is_none_or(|pool| pool == detail.node.pool)
    }

    fn whole(&self, _: &CallerView, (row, detail): &Self::Row<'_>) -> Value {
        serde_json::to_value(convert::node(row, detail)).unwrap_or_default()
    }

    fn item<'v>(&self, _: &'v CallerView, (row, detail): &Self::Row<'v>) -> impl Serialize {
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
            let (row, detail) = view.node(id).ok_or_else(not_found)?;
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
            let (row, _) = view.node(id).ok_or_else(not_found)?;
            let slots = view.allocs_on(row).collect();
            array_of(&call, &view, slots, |parts, items| items.push(&with_job(parts))).await
        },
    )
    .await
}

fn allocs_index(view: &CallerView, id: NodeId) -> Index {
    let Some((row, _)) = view.node(id) else { return view.nodes_index() };
    let parts = view.allocs_on(row).filter_map(|slot| view.alloc_in(slot));
    parts.map(|parts| parts.index()).fold(row.modify_index, Index::max)
}

/// `PUT /v1/node/:id/eligibility`
pub(super) async fn eligibility(mut call: Call) -> Reply {
    let id = id_of(&call)?;
    let request: NodeEligibility = call.json().await?;
    let eligible =
        [true, false].into_iter().find(|eligible| convert::eligibility(*eligible) == request.eligibility);
    let eligible =
        eligible.ok_or_else(|| Failure::bad_request("Eligibility must be `eligible` or `ineligible`"))?;
    if !request.node_id.is_empty() && request.node_id.parse() != Ok(id) {
        return Err(Failure::bad_request("NodeID in the body is not the node of the path"));
    }
    let Index(index) = call.propose(Command::SetNodeEligibility(id, eligible)).await?;
    let answer = NodeEligibilityChanged {
        node_modify_index: index,
        eval_ids: Vec::new(),
        eval_create_index: 0,
        index,
    };
    reply::json(&call.query, &answer)
}

/// `PUT /v1/node/:id/drain`
pub(super) async fn drain(mut call: Call) -> Reply {
    let id = id_of(&call)?;
    let request: NodeDrain = call.json().await?;
    if !request.node_id.is_empty() && request.node_id.parse() != Ok(id) {
        return Err(Failure::bad_request("NodeID in the body is not the node of the path"));
    }
    let meta = request.meta.unwrap_or_default();
    let bytes: usize = meta.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > DRAIN_META_BYTES_MAX {
        let text = format!("Meta has {bytes} bytes, the limit is {DRAIN_META_BYTES_MAX}: say less");
        return Err(Failure::bad_request(text));
    }
    let drain = request.drain_spec.map(|spec| new_drain(&spec, clock::now()));
    let command = DrainNode { node: id, drain, eligible: request.mark_eligible, meta };
    let Index(index) = call.propose(Command::DrainNode(Box::new(command))).await?;
    let answer = NodeEligibilityChanged {
        node_modify_index: index,
        eval_ids: Vec::new(),
        eval_create_index: 0,
        index,
    };
    reply::json(&call.query, &answer)
}

fn new_drain(spec: &DrainSpec, now: Timestamp) -> NewDrain {
    let deadline = match spec.deadline {
        0 => None,
        ns => Some(Timestamp(now.0.saturating_add(u64::try_from(ns).unwrap_or(0)))),
    };
    NewDrain { deadline, ignore_system: spec.ignore_system_jobs, requested_ns: spec.deadline }
}

/// `PUT /v1/node/:id/evaluate`: has the jobs looked at that a node concerns, as if it had changed.
pub(super) async fn evaluate(call: Call) -> Reply {
    let id = id_of(&call)?;
    let view = call.view();
    let (row, detail) = view.node(id).ok_or_else(not_found)?;
    let jobs = view.jobs_concerned(row, detail)?;
    let evals: Vec<Eval> = jobs
        .map(|job| {
            let job = job.job();
            let key = job.key.clone();
            let eval = Eval::pending(call.mint_eval(), key, job.job_type, job.priority, Trigger::NodeUpdate);
            Eval { node: Some(id), ..eval }
        })
        .collect();
    let mut answer = NodeEvaluated {
        eval_ids: evals.iter().map(|eval| eval.id.to_string()).collect(),
        node_modify_index: row.modify_index.0,
        index: row.modify_index.0,
        ..NodeEvaluated::default()
    };
    for evals in evals.chunks(EVALS_MADE_MAX) {
        let Index(index) = call.propose(Command::CreateEvals(evals.to_vec())).await?;
        (answer.eval_create_index, answer.index) = (index, index);
    }
    reply::json(&call.query, &answer)
}

/// `PUT /v1/node/:id/purge`
pub(super) async fn purge(call: Call) -> Reply {
    let id = id_of(&call)?;
    let view = call.view();
    let (row, _) = view.node(id).ok_or_else(|| not_found_to_purge(&call, id))?;
    if row.status != NodeStatus::Down {
        let text = format!("the node is {}: stop its agent first", row.status.as_str());
        return Err(Failure::new(StatusCode::CONFLICT, text));
    }
    let live = view.live_on(row);
    if live > 0 {
        let text = format!("{live} allocations have not ended on the node yet: try again in a moment");
        return Err(Failure::new(StatusCode::CONFLICT, text));
    }
    // To its end, though its client may leave in between: a second request would not find the node, whose certificate were still valid.
    let purged = tokio::spawn(purge_to_its_end(call, id, view.log_index())).await;
    purged.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
}

/// A purge may have been cut short before it revoked the certificate.
fn not_found_to_purge(call: &Call, id: NodeId) -> Failure {
    if call.server().secure.is_none() || call.is_revoked(id) {
        return not_found();
    }
    let text = "node not found; if it was purged, its certificate may still be valid: `berth node revoke";
    Failure::not_found(format!("{text} {id}` revokes it"))
}

async fn purge_to_its_end(call: Call, id: NodeId, decided_on: Index) -> Reply {
    let collect = Collect { nodes: vec![id], decided_on: Some(decided_on), ..Collect::default() };
    let Index(index) = call.propose(Command::Collect(Box::new(collect))).await?;
    let after = call.view_since(Index(index))?;
    if after.node(id).is_some_and(|(now, _)| now.create_index.0 < index) {
        return Err(Failure::new(StatusCode::CONFLICT, "the node changed meanwhile, and was not purged"));
    }
    // A machine that is gone for good may be in somebody's hands: its certificate must let nobody in.
    if call.server().secure.is_some() {
        let revoke = Command::ChangeAcl(Box::new(ChangeAcl::RevokeNode(id)));
        call.propose(revoke).await.map_err(|failure| {
            tracing::warn!(node = %id, error = failure.text, "the node was purged, and its certificate is still valid");
            let text = format!(
                "the node was purged, but its certificate is still valid; `berth node revoke {id}` revokes it: {}",
                failure.text
            );
            Failure { text, ..failure }
        })?;
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
    let view = call.view();
    let first_two =
        |range: IdRange| view.nodes(range.span(NodeId)).map(|(row, _)| row.id.0).take(2).collect();
    resolve(id, "node", first_two).map(NodeId)
}

/// The node that a request names, or the only one where it names none: that is a question to an agent, and this is a server.
pub(super) fn of_query(call: &Call) -> Result<NodeId, Failure> {
    if let Some(id) = call.query.text("node_id").filter(|id| !id.is_empty()) {
        return resolved(call, id);
    }
    let view = call.view();
    let mut nodes = view.all_nodes().map(|(row, _)| row.id);
    match (nodes.next(), nodes.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(Failure::bad_request(
            "say which node with ?node_id=: this is a server, and there is not just one node",
        )),
    }
}

fn not_found() -> Failure {
    Failure::not_found("node not found")
}

fn index(view: &CallerView, id: NodeId) -> Index {
    view.node(id).map_or(view.nodes_index(), |(row, _)| row.modify_index)
}
