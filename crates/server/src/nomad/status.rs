//! The servers as a whole: who leads, who is there, which regions.

use crate::http::{
    call::{Call, Reply},
    reply,
};

/// `GET /v1/status/leader`
pub(super) async fn leader(call: Call) -> Reply {
    reply::json(&call.query, &call.server().agent_addr)
}

/// `GET /v1/status/peers`
pub(super) async fn peers(call: Call) -> Reply {
    reply::json(&call.query, &vec![call.server().agent_addr.clone()])
}

/// `GET /v1/regions`
pub(super) async fn regions(call: Call) -> Reply {
    reply::json(&call.query, &vec![call.server().region.clone()])
}
