//! Node pools: those that operators created, those that nodes name, and the two built-in ones.

use std::time::Duration;

use berth_api::http::{AclTtl, NodePool};
use berth_model::{
    Index,
    command::Command,
    node::{NODE_POOL_ALL, NODE_POOL_DEFAULT},
    node_pool::NodePool as Described,
    store::NodePoolRow,
};
use serde_json::Value;

use super::namespaces::{change, requested_name};
use crate::{
    WatchKey,
    access::{CallerView, Capability},
    http::{
        block,
        call::{Call, Reply},
        failure::Failure,
        named::named,
        reply,
    },
    nomad::{jobs, nodes, tenant_limits},
};

const WATCHED: [WatchKey; 2] = [WatchKey::Nodes, WatchKey::NodePools];
/// How long certificates of nodes are good: clients that send the default of other servers mean this.
const IDENTITY_TTL: Duration = Duration::from_secs(24 * 3600);

/// `GET /v1/node/pools`
pub(super) async fn list(call: Call) -> Reply {
    let prefix = call.query.text("prefix").unwrap_or_default().to_owned();
    block::answer(&call, &WATCHED, index, async |view| {
        let pools = call.api.heavy.run(move || all(&view)).await;
        let pools = pools.into_iter().filter(|pool| pool.name.starts_with(&prefix)).collect();
        named(&call, pools, |pool| pool.name.clone()).await
    })
    .await
}

/// `GET /v1/node/pool/:name`
pub(super) async fn read(call: Call) -> Reply {
    let name = call.param("name");
    call.access().require_node_pool(name, Capability::NodePoolRead)?;
    block::answer(&call, &WATCHED, index, async |view| {
        let name = name.to_owned();
        let found = move || view.node_pool(&name).map(|row| pool(&name, row));
        let found = call.api.heavy.run(found).await;
        reply::json(&call.query, &found.ok_or_else(|| Failure::not_found("node pool not found"))?)
    })
    .await
}

/// `GET /v1/node/pool/:name/nodes`, for those who see nodes.
pub(super) async fn nodes(call: Call) -> Reply {
    call.access().require_node_pool(call.param("name"), Capability::NodePoolRead)?;
    nodes::of_pool(call).await
}

/// `GET /v1/node/pool/:name/jobs`, of namespaces whose jobs the caller may list.
pub(super) async fn jobs(call: Call) -> Reply {
    call.access().require_node_pool(call.param("name"), Capability::NodePoolRead)?;
    jobs::of_pool(call).await
}

/// `PUT /v1/node/pools` and `PUT /v1/node/pool/:name`
pub(super) async fn put(mut call: Call) -> Reply {
    let mut request: NodePool = call.json().await?;
    request.name = requested_name(call.param("name"), request.name)?;
    let name = request.name.clone();
    call.access().require_node_pool(&name, Capability::NodePoolWrite)?;
    let refuse = |why: String| Failure::bad_request(format!("node pool {name:?}: {why}"));
    let described = described(request).map_err(refuse)?;
    let view = call.view();
    let is_new = !view.describes_node_pool(&name);
    let counted = match is_new {
        true => tenant_limits::check_count("node pools", view.node_pools_described()),
        false => Ok(()),
    };
    counted.and_then(|()| tenant_limits::check_node_pool(&described)).map_err(refuse)?;
    change(&call, Command::PutNodePool(Box::new(described))).await
}

/// `DELETE /v1/node/pool/:name`
pub(super) async fn delete(call: Call) -> Reply {
    let name = call.param("name").to_owned();
    call.access().require_node_pool(&name, Capability::NodePoolDelete)?;
    change(&call, Command::DeleteNodePool(name)).await
}

/// The pool that a request describes.
fn described(request: NodePool) -> Result<Described, String> {
    let says_nothing = |value: &Value| value.is_null() || value == "";
    let is_empty = |set: &Value| set.as_object().is_some_and(|set| set.values().all(says_nothing));
    if request.scheduler_configuration.is_some_and(|set| !is_empty(&set)) {
        return Err("SchedulerConfiguration is set for the cluster, not with the pool: see `berth operator scheduler set-config`"
            .to_owned());
    }
    let ttl = match request.node_identity_ttl {
        None => Some(Duration::ZERO),
        Some(AclTtl::Nanoseconds(nanos)) => Some(Duration::from_nanos(nanos)),
        Some(AclTtl::Text(text)) if text.is_empty() => Some(Duration::ZERO),
        Some(AclTtl::Text(text)) => berth_duration::parse(&text),
    };
    if ttl.is_none_or(|ttl| !ttl.is_zero() && ttl != IDENTITY_TTL) {
        return Err("NodeIdentityTTL cannot be set: certificates of nodes are good for 24 hours".to_owned());
    }
    Ok(Described {
        name: request.name,
        description: request.description,
        meta: request.meta.unwrap_or_default(),
    })
}

/// Some pools have always been there: their list has an index from the start.
fn index(view: &CallerView) -> Index {
    view.node_pools_index().max(Index(1))
}

/// All pools that the caller may read: looks at every node.
fn all(view: &CallerView) -> Vec<NodePool> {
    view.node_pools().into_iter().map(|(name, row)| pool(name, row)).collect()
}

/// A pool, as an operator described it, or as it is there by its name.
pub(super) fn pool(name: &str, row: Option<&NodePoolRow>) -> NodePool {
    if let Some(row) = row {
        return NodePool {
            name: name.to_owned(),
            description: row.pool.description.clone(),
            meta: Some(row.pool.meta.clone()),
            create_index: row.create_index.0,
            modify_index: row.modify_index.0,
            ..NodePool::default()
        };
    }
    let description = match name {
        NODE_POOL_DEFAULT => "The pool of nodes that name none.",
        NODE_POOL_ALL => "All nodes.",
        _ => "",
    };
    let (name, description) = (name.to_owned(), description.to_owned());
    NodePool { name, description, meta: Some(Default::default()), ..NodePool::default() }
}
