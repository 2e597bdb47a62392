//! Requests that only the agent on an allocation's node can answer.

mod checks;
mod collect;
mod exec;
mod images;
mod meta;
mod task_commands;
mod task_metrics;
mod usage;

use super::allocations::{find, id_of};
use crate::http::{agents::AllocAgent, call::Call, failure::Failure};

pub(super) use checks::checks;
pub(super) use collect::{of_allocation as collect_allocation, of_node as collect_node};
pub(super) use exec::exec;
pub(super) use images::{list as images, load as load_images, pull as pull_image, remove as remove_image};
pub(super) use meta::{apply as apply_meta, read as meta};
pub(super) use task_commands::{restart, signal};
pub(super) use usage::{
    allocation as allocation_usage, allocations as allocations_usage, node as node_usage,
};

/// The agent that has the allocation which the path names.
pub(super) fn agent_of(call: &Call) -> Result<AllocAgent, Failure> {
    call.agent_of(&find(&call.view(), id_of(call)?)?)
}

/// An agent's response does not match the query.
pub(super) fn unexpected_response() -> Failure {
    Failure::new(
        hyper::StatusCode::BAD_GATEWAY,
        "the agent's answer fits no question: is it of another version?",
    )
}
