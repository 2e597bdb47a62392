//! The metadata of a node: its agent keeps it, and reports it with all else that describes the node.

use std::{collections::BTreeMap, time::Duration};

use berth_api::{
    agent::{AgentOutcome, AgentQuery, ChangeNodeMeta, DynamicMeta, GetNodeMeta, NodeMeta},
    http::{NodeMetaApply, NodeMetaRead},
};
use berth_model::NodeId;

use super::unexpected_response;
use crate::{
    WatchKey,
    access::CallerView,
    http::{
        block,
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    nomad::nodes,
};

/// How long a change may take from the agent into the state before the caller is answered without that.
const STATE_WAIT_MAX: Duration = Duration::from_secs(5);

/// `GET /v1/client/metadata`
pub async fn read(call: Call) -> Reply {
    let node = node_of(&call, call.query.text("node_id").unwrap_or_default())?;
    let meta = ask(&call, node, AgentQuery::NodeMeta(GetNodeMeta {})).await?;
    reply::json(&call.query, &of_wire(meta))
}

/// `PUT /v1/client/metadata`: answers once the agent has it on its disk and, unless that takes long, constraints see it.
pub async fn apply(mut call: Call) -> Reply {
    let NodeMetaApply { node_id, meta } = call.json_with_nulls().await?;
    let in_query = call.query.text("node_id").unwrap_or_default();
    let node = node_of(&call, if node_id.is_empty() { in_query } else { &node_id })?;
    if meta.is_empty() {
        let text = "Meta must have at least one key, with a text to set it or null to unset it";
        return Err(Failure::bad_request(text));
    }
    let changes: Vec<_> = meta.into_iter().map(|(key, value)| DynamicMeta { key, value }).collect();
    let request = ChangeNodeMeta { changes: changes.clone() };
    let applied = ask(&call, node, AgentQuery::ChangeNodeMeta(request)).await?;
    // Whoever registers a job next relies on it. What is late, or was changed again meanwhile, is no failure: the agent has it.
    block::until(&call, WatchKey::Node(node), STATE_WAIT_MAX, |view| has(view, node, &changes)).await;
    reply::json(&call.query, &of_wire(applied))
}

fn node_of(call: &Call, id: &str) -> Result<NodeId, Failure> {
    if id.is_empty() {
        let text =
            "say which node with ?node_id=: this is a server, and metadata is kept by the agents of nodes";
        return Err(Failure::bad_request(text));
    }
    nodes::resolved(call, id)
}

async fn ask(call: &Call, node: NodeId, query: AgentQuery) -> Result<NodeMeta, Failure> {
    match call.ask_node(&call.view(), node, query).await? {
        AgentOutcome::NodeMeta(meta) => Ok(meta),
        _ => Err(unexpected_response()),
    }
}

/// Whether the state has what was changed; nothing is to be waited for once the node is gone.
fn has(view: &CallerView, node: NodeId, changes: &[DynamicMeta]) -> bool {
    view.node(node).is_none_or(|(_, detail)| {
        let meta = &detail.node.meta;
        changes.iter().all(|DynamicMeta { key, value }| meta.get(key) == value.as_ref())
    })
}

fn of_wire(meta: NodeMeta) -> NodeMetaRead {
    let dynamic: BTreeMap<_, _> = meta.dynamic.into_iter().map(|of| (of.key, of.value)).collect();
    NodeMetaRead { meta: meta.effective, dynamic, configured: meta.configured }
}
