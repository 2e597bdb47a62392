//! `GET /v1/job/:id/explain`: why a job waits, and what would place it.

use berth_model::NodeId;
use berth_scheduler::{Budget, explain::NO_SUCH_NODE, fairness::FairPosition};

use super::{key, not_found};
use crate::{
    clock,
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    nomad::convert,
};

/// `GET /v1/job/:id/explain`, with `?node=ID` what stands in the way there. Every node is looked at, away from the threads
/// that answer.
pub(in crate::nomad) async fn explain(call: Call) -> Reply {
    let key = key(&call);
    let parse = |id: &str| {
        id.parse::<NodeId>()
            .map_err(|_| Failure::bad_request("query parameter node is not the whole id of a node"))
    };
    let node = call.query.text("node").map(parse).transpose()?;
    let view = call.view();
    let explanation = call.api.slow.run_for_client(move |client_has_left| {
        let Some(store) = view.to_plan(&key) else { return Ok(None) };
        // Of a node that the caller does not see nothing is said that distinguishes it from one that is not there.
        let visible_node = node.filter(|id| view.node(*id).is_some());
        let now = clock::now().max(store.at());
        let mut explained = berth_scheduler::explain::explain(
            store,
            &key,
            visible_node,
            now,
            &Budget::until(client_has_left),
        )?;
        if node != visible_node {
            let groups = explained.iter_mut().flat_map(|explained| &mut explained.groups);
            groups.for_each(|group| group.here = Some(vec![NO_SUCH_NODE.to_owned()]));
        }
        Ok(explained
            .map(|explained| convert::explanation(&view, &key, explained, FairPosition::of(store, &key))))
    });
    reply::json(&call.query, &explanation.await?.ok_or_else(not_found)?)
}
