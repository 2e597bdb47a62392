//! What only the agent on an allocation's node can do or tell.

mod exec;
mod orders;
mod usage;

use berth_api::agent::{Outcome, Question};
use berth_model::{AllocId, NodeId};

use super::allocations::{find, id_of};
use crate::http::{call::Call, failure::Failure};

pub(super) use exec::exec;
pub(super) use orders::{restart, signal};
pub(super) use usage::{allocation as allocation_usage, node as node_usage};

/// An allocation, and the node whose agent has it.
struct Target {
    alloc: AllocId,
    node: NodeId,
}

impl Target {
    /// The allocation that the path names.
    fn of(call: &Call) -> Result<Self, Failure> {
        let alloc = id_of(call)?;
        let view = call.api.state.view();
        let (_, parts) = find(&view, alloc)?;
        let node = parts.node.ok_or_else(|| Failure::not_found("the allocation's node is gone"))?.id;
        Ok(Self { alloc, node })
    }

    fn id(&self) -> Vec<u8> {
        self.alloc.to_bytes().to_vec()
    }

    async fn ask(&self, call: &Call, question: Question) -> Result<Outcome, Failure> {
        Ok(call.api.state.agents.ask(self.node, question).await?)
    }
}

/// An agent answered something else than it was asked.
fn odd_answer() -> Failure {
    Failure::new(
        hyper::StatusCode::BAD_GATEWAY,
        "the agent's answer fits no question: is it of another version?",
    )
}
