//! Garbage collection on one node, as Nomad's clients request it. It removes ended allocations from the state; the agent then
//! deletes their directories, as it does of all allocations that the servers no longer know.

use std::sync::atomic::AtomicBool;

use berth_model::{
    NodeId,
    command::{Collect, Command},
    store::Store,
};
use hyper::StatusCode;
use serde_json::{Map, Value};

use super::super::{
    allocations::{find, id_of},
    nodes, system,
};
use crate::http::{
    call::{Call, Reply},
    failure::Failure,
    heavy::while_client_waits,
    reply,
};

/// `GET` and `PUT /v1/client/gc`: forgets the allocations that have ended on a node.
pub async fn of_node(call: Call) -> Reply {
    let node = nodes::of_query(&call)?;
    system::forget(&call, move |store, client_has_left| ended_on(store, node, client_has_left)).await?;
    reply::json(&call.query, &Map::<String, Value>::new())
}

/// `GET` and `PUT /v1/client/allocation/:id/gc`: forgets one that has ended.
pub async fn of_allocation(call: Call) -> Reply {
    let view = call.view();
    let (store, id) = (view.everything()?, id_of(&call)?);
    let row = find(&view, id)?.row;
    let refusal = match (row.is_terminal(), store.may_collect(row)) {
        (false, _) => Some("has not ended: `berth alloc stop` ends it"),
        (_, false) if store.awaits_replacement(row) => Some(
            "has its place in its group until it is replaced (`berth job eval -force-reschedule` does that now, where `reschedule` \
             allows it), or its job is changed or stopped",
        ),
        (_, false) => Some("keeps its job from running again: `berth job stop -purge` removes both"),
        _ => None,
    };
    if let Some(why) = refusal {
        return Err(Failure::new(StatusCode::CONFLICT, format!("allocation {id} {why}")));
    }
    let one = Collect { allocs: vec![id], decided_on: Some(store.index()), ..Collect::default() };
    call.propose(Command::Collect(Box::new(one))).await?;
    reply::json(&call.query, &Map::<String, Value>::new())
}

/// What has ended on a node and may be forgotten before its job.
fn ended_on(store: &Store, node: NodeId, client_has_left: &AtomicBool) -> Collect {
    let ended = store.node(node).into_iter().flat_map(|(_, row)| store.nodes().ended(row));
    let rows = while_client_waits(client_has_left, ended).filter_map(|slot| store.allocs().row(slot));
    let ids = rows.filter(|row| store.may_collect(row)).map(|row| row.id);
    let allocs = ids.take(system::REQUEST_MAX).collect();
    Collect { allocs, decided_on: Some(store.index()), ..Collect::default() }
}
