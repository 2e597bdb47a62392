//! An engine and agents that receive no requests.

use async_trait::async_trait;
use berth_api::agent::{AgentOutcome, AgentQuery};
use berth_model::{EvalId, NodeId, command::Command};
use berth_server::shared::{
    AgentError, Agents, Committed, Engine, ExecLink, ExecRequest, LogPosition, Metric, PlanTrace,
    ProposeError, ReadPieces, ReadRequest,
};

/// Changes nothing, and is connected to nobody.
pub struct Silent;

#[async_trait]
impl Engine for Silent {
    async fn propose(&self, _: Vec<Command>) -> Result<Committed, ProposeError> {
        Err(ProposeError::Stopping)
    }

    fn mint_id(&self) -> u128 {
        0
    }

    fn log_position(&self) -> LogPosition {
        LogPosition::default()
    }

    fn metrics(&self) -> Vec<Metric> {
        Vec::new()
    }

    fn plans(&self, _: Option<EvalId>) -> Vec<PlanTrace> {
        Vec::new()
    }
}

#[async_trait]
impl Agents for Silent {
    async fn read_file(&self, node: NodeId, _: ReadRequest) -> Result<ReadPieces, AgentError> {
        Err(AgentError::NotConnected(node))
    }

    async fn ask(&self, node: NodeId, _: AgentQuery) -> Result<AgentOutcome, AgentError> {
        Err(AgentError::NotConnected(node))
    }

    async fn exec(&self, node: NodeId, _: ExecRequest) -> Result<ExecLink, AgentError> {
        Err(AgentError::NotConnected(node))
    }
}
