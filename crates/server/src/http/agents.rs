//! Access of request handlers to the agents of allocations and nodes that the caller may see.

use std::{sync::Arc, time::Duration};

use berth_api::{
    LogDetail,
    agent::{AgentOutcome, AgentQuery},
};
use berth_model::{AllocId, JobKey, NodeId};
use tokio::time::timeout;

use super::{call::Call, failure::Failure};
use crate::{
    access::{AllocParts, CallerView},
    shared::{AgentError, Agents, ExecLink, ExecRequest, ReadPieces, ReadRequest, ReadSource},
};

/// How long an agent may take to send the first piece of its log.
const FIRST_PIECE_MAX: Duration = Duration::from_secs(10);

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
    pub fn agent_of(&self, parts: &AllocParts<'_>) -> Result<AllocAgent, Failure> {
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
        query: AgentQuery,
    ) -> Result<AgentOutcome, Failure> {
        view.node(node).ok_or_else(|| Failure::not_found("node not found"))?;
        Ok(self.api.state.agents.ask(node, query).await?)
    }
}

impl Call {
    /// Follows the log of a node's agent. The first piece, which is always empty, has been taken: it shows that the agent sends its log.
    ///
    /// # Errors
    /// When the caller sees no such node and no such agent is connected, or the agent does not send its log.
    pub async fn agent_log(&self, node: NodeId, detail: LogDetail) -> Result<ReadPieces, Failure> {
        let source = ReadSource::AgentLog(detail);
        let request = ReadRequest { alloc: AllocId(0), source, offset: 0, from_end: false, follow: true };
        let mut pieces = match self.api.state.agents.read_file(node, request).await {
            Err(AgentError::NotConnected(_)) if self.view().node(node).is_none() => {
                return Err(Failure::not_found("node not found"));
            }
            pieces => pieces?,
        };
        match timeout(FIRST_PIECE_MAX, pieces.recv()).await {
            Ok(Some(Ok(_))) => Ok(pieces),
            Ok(Some(Err(AgentError::NotFound(_)))) => Err(Failure::bad_request(format!(
                "the agent of node {node}, or the server that it is connected to, is older than this server: its log \
                 is not sent to servers; upgrade it, or read the log on the node: `journalctl -u berth-agent -f`"
            ))),
            Ok(Some(Err(error))) => Err(error.into()),
            Ok(None) => Err(AgentError::NotConnected(node).into()),
            Err(_) => Err(AgentError::Silent(node).into()),
        }
    }
}

impl AllocAgent {
    /// Sends a query about the allocation, which is made from the allocation's id.
    pub async fn ask(&self, query: impl FnOnce(Vec<u8>) -> AgentQuery) -> Result<AgentOutcome, Failure> {
        Ok(self.agents.ask(self.node, query(self.alloc.to_bytes().to_vec())).await?)
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
