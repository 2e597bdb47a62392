//! An agent that is connected to another server, or that server's own log: read piece by piece, as fast as the reader takes them.

use std::{sync::Arc, time::Duration};

use berth_api::{
    LogDetail,
    agent::{AgentOutcome, AgentQuery},
};
use berth_model::NodeId;
use berth_replication::peer::{PeerAddress, RequestError};
use tokio::{sync::mpsc, time::sleep};

use super::wire::{self, RelayedAnswer, RelayedRequest};
use crate::{
    cluster::{
        Cluster,
        wire::{PeerAnswer, PeerRequest},
    },
    shared::{AgentError, ExecInput, ExecLink, ExecOutput, ExecRequest, ReadPieces, ReadRequest},
};

/// How long the other server may take to answer: longer than it waits for the agent, a command's beginning included.
const ANSWER_MAX: Duration = Duration::from_secs(80);
/// While a reader takes nothing, the other server is asked this often to keep the stream, which it closes as idle otherwise.
const KEEP_EVERY: Duration = Duration::from_secs(3);
/// Pieces queued for a reader.
const HANDED_MAX: usize = 4;

/// The server that has the session or the log, and the node of the agent.
#[derive(Clone)]
pub(super) struct RemoteServer {
    cluster: Arc<Cluster>,
    server: (u64, PeerAddress),
    /// None for the server itself.
    node: Option<NodeId>,
}

/// A stream that is open on the other server.
struct RemoteStream {
    remote: RemoteServer,
    number: u64,
}

impl RemoteServer {
    pub fn new(cluster: Arc<Cluster>, server: (u64, PeerAddress), node: Option<NodeId>) -> Self {
        Self { cluster, server, node }
    }

    pub async fn ask(&self, query: AgentQuery) -> Result<AgentOutcome, AgentError> {
        match self.request(RelayedRequest::Ask(self.node()?, wire::query(query))).await? {
            RelayedAnswer::Outcome(bytes) => wire::read_outcome(&bytes).ok_or_else(|| self.makes_no_sense()),
            _ => Err(self.makes_no_sense()),
        }
    }

    pub async fn read_file(self, request: ReadRequest) -> Result<ReadPieces, AgentError> {
        let stream = self.begin(RelayedRequest::Read(self.node()?, request.into())).await?;
        Ok(stream.into_pieces())
    }

    /// Follows the log of the server itself.
    pub async fn server_log(self, detail: LogDetail) -> Result<ReadPieces, AgentError> {
        let stream = self.begin(RelayedRequest::ServerLog(detail.into())).await?;
        Ok(stream.into_pieces())
    }

    pub async fn exec(self, request: ExecRequest) -> Result<ExecLink, AgentError> {
        let stream = self.begin(RelayedRequest::Exec(self.node()?, request.into())).await?;
        let (input, inputs) = mpsc::channel(HANDED_MAX);
        let (outputs, output) = mpsc::channel::<Result<ExecOutput, AgentError>>(HANDED_MAX);
        tokio::spawn(async move {
            let output = |answer| match answer {
                RelayedAnswer::Output(output) => Some(output.into()),
                _ => None,
            };
            tokio::select! {
                () = stream.carry(&outputs, output) => {}
                () = stream.carry_input(inputs) => {}
            }
            stream.end().await;
        });
        Ok(ExecLink { input, output })
    }

    async fn begin(&self, request: RelayedRequest) -> Result<RemoteStream, AgentError> {
        match self.request(request).await? {
            RelayedAnswer::Begun(number) => Ok(RemoteStream { remote: self.clone(), number }),
            _ => Err(self.makes_no_sense()),
        }
    }

    async fn request(&self, request: RelayedRequest) -> Result<RelayedAnswer, AgentError> {
        let id = self.server.0;
        match self.cluster.ask_for(&self.server, &PeerRequest::Agent(request), ANSWER_MAX).await {
            Ok(PeerAnswer::Agent(RelayedAnswer::Failed(failure))) => Err(failure.of(self.node)),
            Ok(PeerAnswer::Agent(answer)) => Ok(answer),
            Ok(_) => Err(self.makes_no_sense()),
            Err(RequestError::NotSent(why)) => Err(match self.node {
                Some(node) => AgentError::NotConnected(node),
                None => AgentError::Failed(format!("server {id} is not reached: {why}")),
            }),
            Err(RequestError::Refused(why)) => Err(AgentError::Failed(format!("server {id}: {why}"))),
            Err(RequestError::Unknown(why)) => Err(AgentError::Failed(match self.node {
                Some(node) => format!(
                    "node {node} is reached through server {id}, which was lost meanwhile, so that it is not known what \
                     came of it: {why}"
                ),
                None => format!("server {id} was lost meanwhile: {why}"),
            })),
        }
    }

    fn node(&self) -> Result<NodeId, AgentError> {
        self.node.ok_or_else(|| self.makes_no_sense())
    }

    fn makes_no_sense(&self) -> AgentError {
        AgentError::Failed(format!(
            "the answer of server {} makes no sense: is it of another version?",
            self.server.0
        ))
    }
}

impl RemoteStream {
    /// What comes of a log or a file, for a reader that ends it by taking no more.
    fn into_pieces(self) -> ReadPieces {
        let (reader, pieces) = mpsc::channel(HANDED_MAX);
        tokio::spawn(async move {
            let piece = |answer| match answer {
                RelayedAnswer::Piece(piece) => Some(piece.into()),
                _ => None,
            };
            self.carry(&reader, piece).await;
            self.end().await;
        });
        pieces
    }

    /// Hands over what comes until it ends, or nobody takes it any more.
    async fn carry<T>(
        &self,
        reader: &mpsc::Sender<Result<T, AgentError>>,
        read: impl Fn(RelayedAnswer) -> Option<T>,
    ) {
        loop {
            let next = tokio::select! {
                next = self.remote.request(RelayedRequest::Next(self.number)) => next,
                () = reader.closed() => return,
            };
            let next = match next {
                Ok(RelayedAnswer::NotYet) => continue,
                Ok(RelayedAnswer::Ended) => return,
                Ok(answer) => read(answer).ok_or_else(|| self.remote.makes_no_sense()),
                Err(error) => Err(error),
            };
            let is_last = next.is_err();
            if !self.hand_over(reader, next).await || is_last {
                return;
            }
        }
    }

    /// Whether the reader took it.
    async fn hand_over<T>(
        &self,
        reader: &mpsc::Sender<Result<T, AgentError>>,
        next: Result<T, AgentError>,
    ) -> bool {
        loop {
            tokio::select! {
                permit = reader.reserve() => return permit.map(|permit| permit.send(next)).is_ok(),
                () = sleep(KEEP_EVERY) => {
                    // Should it be gone, the next request fails.
                    let _ = self.remote.request(RelayedRequest::Keep(self.number)).await;
                }
            }
        }
    }

    /// Until nobody writes any more. Should the command be gone, its output says so.
    async fn carry_input(&self, mut inputs: mpsc::Receiver<ExecInput>) {
        while let Some(input) = inputs.recv().await {
            loop {
                let request = RelayedRequest::Input(self.number, input.clone().into());
                match self.remote.request(request).await {
                    Ok(RelayedAnswer::NotYet) => {}
                    Ok(_) => break,
                    Err(_) => return std::future::pending().await,
                }
            }
        }
    }

    /// Closes the stream on the other server. If that fails, the other server closes it once it is idle.
    async fn end(&self) {
        let _ = self.remote.request(RelayedRequest::End(self.number)).await;
    }
}
