//! The leader, the members, and the regions.

use hyper::StatusCode;

use super::servers;
use crate::http::{
    call::{Call, Reply},
    failure::Failure,
    reply,
};

/// `GET /v1/status/leader`
pub(super) async fn leader(call: Call) -> Reply {
    let all = servers::all(&call);
    let leader = all.leader.and_then(|leader| all.all.iter().find(|server| server.id == leader));
    // Clients know this text.
    let leader =
        leader.ok_or_else(|| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "No cluster leader"))?;
    reply::json(&call.query, &leader.agent_addr)
}

/// `GET /v1/status/peers`
pub(super) async fn peers(call: Call) -> Reply {
    let voters = servers::all(&call).all.into_iter().filter(|server| server.voter);
    reply::json(&call.query, &voters.map(|server| server.agent_addr).collect::<Vec<_>>())
}

/// `GET /v1/regions`
pub(super) async fn regions(call: Call) -> Reply {
    reply::json(&call.query, &vec![call.server().region.clone()])
}
