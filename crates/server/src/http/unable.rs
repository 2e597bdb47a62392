//! What clients ask of the agent on a node and no agent can answer yet. They are told so, instead of being shown values
//! that nobody has measured.

use hyper::StatusCode;

use super::{
    call::{Call, Reply},
    failure::Failure,
};

/// `GET /v1/client/stats`
pub(super) async fn stats(_: Call) -> Reply {
    Err(unable("agents do not measure what their machines use yet"))
}

/// `GET /v1/client/allocation/:id/stats`
pub(super) async fn allocation_stats(_: Call) -> Reply {
    Err(unable("agents do not measure what tasks use yet"))
}

fn unable(reason: &str) -> Failure {
    Failure::new(StatusCode::NOT_IMPLEMENTED, reason)
}
