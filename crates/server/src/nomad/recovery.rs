//! The number of nodes whose state the leader has not confirmed yet, after a start or a change of leader.

use berth_api::http::{HeldNode, RecoveryStatus};
use berth_controller::NodeRecovery;
use berth_model::Timestamp;

use crate::{
    access::CallerView,
    clock,
    http::{
        call::{Call, Reply},
        reply,
    },
};

/// `GET /v1/status/recovery`
pub(super) async fn status(call: Call) -> Reply {
    let known_leader = call.contact().known_leader;
    reply::json(&call.query, &recovery(&call.view(), known_leader, clock::now()))
}

fn recovery(view: &CallerView, known_leader: bool, now: Timestamp) -> RecoveryStatus {
    let NodeRecovery { unconfirmed, unheard, grace_until, held, held_nodes } = view.recovery();
    let nodes = view.nodes_up() as u64;
    let named = held_nodes
        .iter()
        .filter_map(|id| view.node(*id))
        .map(|(row, detail)| HeldNode { id: row.id.to_string(), name: detail.node.name.clone() });
    RecoveryStatus {
        done: known_leader && *unconfirmed == 0 && *held == 0,
        known_leader,
        nodes,
        confirmed: nodes.saturating_sub(*unconfirmed),
        unconfirmed: *unconfirmed,
        unheard: *unheard,
        grace_left: grace_until.0.saturating_sub(now.0),
        held: *held,
        held_nodes: named.collect(),
        lost_nodes_max_percent: view.scheduler_config().lost_nodes_max_percent(),
    }
}
