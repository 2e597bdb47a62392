//! Agents that give the answers that a test has set.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use berth_api::agent::{AgentOutcome, AgentQuery, Done, ImageLoad, LoadImages};
use berth_model::NodeId;
use tokio::sync::mpsc;

use crate::shared::{
    AgentError, Agents, ExecInput, ExecLink, ExecOutput, ExecRequest, ReadPiece, ReadPieces, ReadRequest,
};

/// Messages of a command that wait, in either direction.
const HANDED_MAX: usize = 4;

/// The other end of a command that was started.
pub struct FakeExec {
    pub request: ExecRequest,
    pub input: mpsc::Receiver<ExecInput>,
    pub output: mpsc::Sender<Result<ExecOutput, AgentError>>,
}

#[derive(Default)]
pub struct FakeAgents {
    /// What a log holds, and whether it is still being written.
    pub log: Mutex<(Vec<Result<ReadPiece, AgentError>>, bool)>,
    /// Which log was asked for last.
    pub read_request: Mutex<Option<ReadRequest>>,
    /// Keeps logs open that are still being written.
    writers: Mutex<Vec<mpsc::Sender<Result<ReadPiece, AgentError>>>>,
    /// What was asked last.
    pub requested: Mutex<Option<(NodeId, AgentQuery)>>,
    /// What the next question comes to; done if nothing is said.
    pub outcome: Mutex<Option<Result<AgentOutcome, AgentError>>>,
    /// Where commands go; they are refused without.
    pub execs: Mutex<Option<mpsc::Sender<FakeExec>>>,
}

/// What a test holds of the agents.
pub fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Agents for FakeAgents {
    async fn read_file(&self, _: NodeId, request: ReadRequest) -> Result<ReadPieces, AgentError> {
        *held(&self.read_request) = Some(request);
        let (chunks, open) = held(&self.log).clone();
        let (sender, receiver) = mpsc::channel(chunks.len().max(1));
        for chunk in chunks {
            sender.try_send(chunk).expect("there is room");
        }
        if open {
            held(&self.writers).push(sender);
        }
        Ok(receiver)
    }

    async fn ask(&self, node: NodeId, query: AgentQuery) -> Result<AgentOutcome, AgentError> {
        let taken = match &query {
            AgentQuery::LoadImages(LoadImages { cancel: false, offset, data, end, .. }) => {
                let offset = offset + data.len() as u64;
                Some(AgentOutcome::ImageLoad(ImageLoad { offset, done: *end, ..ImageLoad::default() }))
            }
            _ => None,
        };
        *held(&self.requested) = Some((node, query));
        if let Some(taken) = taken {
            return Ok(taken);
        }
        held(&self.outcome).take().unwrap_or(Ok(AgentOutcome::Done(Done {})))
    }

    async fn exec(&self, node: NodeId, request: ExecRequest) -> Result<ExecLink, AgentError> {
        let execs = held(&self.execs).clone().ok_or(AgentError::NotConnected(node))?;
        let ((input, inputs), (outputs, output)) = (mpsc::channel(HANDED_MAX), mpsc::channel(HANDED_MAX));
        let exec = FakeExec { request, input: inputs, output: outputs };
        execs.send(exec).await.map_err(|_| AgentError::NotConnected(node))?;
        Ok(ExecLink { input, output })
    }
}
