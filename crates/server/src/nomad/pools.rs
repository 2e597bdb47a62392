//! Node pools: those that nodes name, and the two that are always there.

use std::collections::BTreeSet;

use berth_api::http::NodePool;
use berth_model::{Index, node::NODE_POOL_ALL};

use crate::{
    WatchKey,
    access::CallerView,
    http::{
        block,
        call::{Call, Reply},
        failure::Failure,
        list::array_of,
        reply,
    },
};

const DEFAULT: &str = "default";

/// `GET /v1/node/pools`
pub(super) async fn list(call: Call) -> Reply {
    let prefix = call.query.text("prefix").unwrap_or_default().to_owned();
    block::answer(&call, &[WatchKey::Nodes], index, async |view| {
        let names = call.api.heavy.run(move || names(&view)).await;
        let names = names.into_iter().filter(|name| name.starts_with(&prefix));
        let pools: Vec<NodePool> = names.map(|name| pool(&name)).collect();
        array_of(&call, pools, |pool, items| items.push(pool), |pool| serde_json::to_value(pool).ok()).await
    })
    .await
}

/// `GET /v1/node/pool/:name`
pub(super) async fn read(call: Call) -> Reply {
    block::answer(&call, &[WatchKey::Nodes], index, async |view| {
        let name = call.param("name");
        let names = call.api.heavy.run(move || names(&view)).await;
        if !names.contains(name) {
            return Err(Failure::not_found("node pool not found"));
        }
        reply::json(&call.query, &pool(name))
    })
    .await
}

/// Some pools have always been there: their list has an index from the start.
fn index(view: &CallerView) -> Index {
    view.nodes_index().max(Index(1))
}

/// The names of all pools: looks at every node.
pub(super) fn names(view: &CallerView) -> BTreeSet<String> {
    let mut names = BTreeSet::from([DEFAULT.to_owned(), NODE_POOL_ALL.to_owned()]);
    for (_, detail) in view.all_nodes() {
        if !names.contains(&detail.node.pool) {
            names.insert(detail.node.pool.clone());
        }
    }
    names
}

fn pool(name: &str) -> NodePool {
    let description = match name {
        DEFAULT => "The pool of nodes that name none.",
        NODE_POOL_ALL => "All nodes.",
        _ => "",
    };
    NodePool { name: name.to_owned(), description: description.to_owned(), ..NodePool::default() }
}
