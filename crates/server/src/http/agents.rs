//! The agents that have what a caller sees.

use std::sync::Arc;

use berth_api::agent::{Outcome, Question};
use berth_model::{AllocId, JobKey, NodeId};

use super::{call::Call, failure::Failure};
use crate::{
    access::{CallerView, Parts},
    shared::{Agents, ExecLink, ExecRequest, ReadPieces, ReadRequest},
};

/// An allocation that the caller reaches, at the agent that has it.
pub(crate) struct AllocAgent {
    agents: Arc<dyn Agents>,
    /// The allocation.
    pub alloc: AllocId,
    /// Its job.
    pub job: JobKey,
    /// Its node.
    pub node: NodeId,
}

impl Call {
    /// The agent that has an allocation.
    ///
    /// # Errors
    /// When the allocation's node is gone.
    pub fn agent_of(&self, parts: &Parts<'_>) -> Result<AllocAgent, Failure> {
        let gone = || Failure::not_found("the allocation's node is gone, and what its agent kept with it");
        let node = parts.node.ok_or_else(gone)?.id;
        Ok(AllocAgent {
            agents: self.api.state.agents.clone(),
            alloc: parts.row.id,
            job: parts.job.key.clone(),
            node,
        })
    }

    /// Asks the agent of a node that the caller sees.
    ///
    /// # Errors
    /// When there is no such node, or its agent does not answer.
    pub async fn ask_node(
        &self,
        view: &CallerView,
        node: NodeId,
        question: Question,
    ) -> Result<Outcome, Failure> {
        view.node(node).ok_or_else(|| Failure::not_found("node not found"))?;
        Ok(self.api.state.agents.ask(node, question).await?)
    }
}

impl AllocAgent {
    /// Asks about the allocation, whose id goes into the question.
    pub async fn ask(&self, question: impl FnOnce(Vec<u8>) -> Question) -> Result<Outcome, Failure> {
        Ok(self.agents.ask(self.node, question(self.alloc.to_bytes().to_vec())).await?)
    }

    /// Reads the log of one of its tasks, or one of its files.
    pub async fn read_file(&self, request: ReadRequest) -> Result<ReadPieces, Failure> {
        Ok(self.agents.read_file(self.node, ReadRequest { alloc: self.alloc, ..request }).await?)
    }

    /// Runs a command within one of its tasks.
    pub async fn exec(&self, request: ExecRequest) -> Result<ExecLink, Failure> {
        Ok(self.agents.exec(self.node, ExecRequest { alloc: self.alloc, ..request }).await?)
    }
}
