//! Serves this server's agents and its own log to other servers. They request one piece after the other, so that a stream in
//! progress holds no more than the agents' windows. Idle streams are closed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use berth_api::{LogDetail, LogFeed};
use berth_model::NodeId;
use tokio::{
    sync::{Mutex as AsyncMutex, mpsc},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    own_log,
    wire::{self, RelayedAnswer, RelayedRequest, WireError, WireExec, WireInput, WireRead},
};
use crate::{
    agents::Registry,
    shared::{AgentError, Agents, ExecInput, ExecLink, ExecOutput, ReadPieces},
};

/// Streams that one other server may have open here.
const STREAMS_MAX: usize = 256;
/// How long a request for the next piece waits before it is repeated.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// Streams without a request for so long are closed.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Requests of other servers to agents that are connected to this one.
pub(in crate::cluster) struct AgentService {
    agents: Arc<Registry>,
    log_feed: LogFeed,
    open: Arc<Mutex<HashMap<u64, Arc<OpenStream>>>>,
}

/// An open stream of another server.
struct OpenStream {
    /// The server that reads it.
    server: u64,
    last_request: Mutex<Instant>,
    /// Nobody waits for it any more.
    ended: CancellationToken,
    what: StreamSource,
}

enum StreamSource {
    Log(AsyncMutex<ReadPieces>),
    Exec {
        input: mpsc::Sender<ExecInput>,
        output: AsyncMutex<mpsc::Receiver<Result<ExecOutput, AgentError>>>,
    },
}

type AgentReply = Result<RelayedAnswer, AgentError>;

impl AgentService {
    /// A service without open streams.
    pub fn new(agents: Arc<Registry>, log_feed: LogFeed) -> Self {
        Self { agents, log_feed, open: Arc::default() }
    }

    /// Handles a request of another server.
    pub async fn answer(&self, server: u64, request: RelayedRequest) -> RelayedAnswer {
        let outcome = match request {
            RelayedRequest::Find(node) if self.agents.has(node) => Ok(RelayedAnswer::Done),
            RelayedRequest::Find(_) => Ok(RelayedAnswer::NotYet),
            RelayedRequest::Ask(node, query) => self.ask(node, &query).await,
            RelayedRequest::Read(node, read) => self.read(server, node, read).await,
            RelayedRequest::Exec(node, exec) => self.exec(server, node, exec).await,
            RelayedRequest::ServerLog(lines) => self.server_log(server, lines.into()),
            RelayedRequest::Next(number) => Ok(self.next(server, number).await),
            RelayedRequest::Input(number, input) => Ok(self.input(server, number, input).await),
            RelayedRequest::Keep(number) => {
                Ok(self.find(server, number).map_or_else(gone, |_| RelayedAnswer::Done))
            }
            RelayedRequest::End(number) => {
                if let Some(stream) = self.find(server, number) {
                    self.open().remove(&number);
                    stream.ended.cancel();
                }
                Ok(RelayedAnswer::Done)
            }
        };
        outcome.unwrap_or_else(|error| RelayedAnswer::Failed(error.into()))
    }

    async fn ask(&self, node: NodeId, query: &[u8]) -> AgentReply {
        let unknown = || AgentError::Failed("a newer server asks what this one does not know".to_owned());
        let query = wire::read_question(query).ok_or_else(unknown)?;
        Ok(RelayedAnswer::Outcome(wire::outcome(self.agents.ask(node, query).await?)))
    }

    async fn read(&self, server: u64, node: NodeId, read: WireRead) -> AgentReply {
        self.check_room(server)?;
        let chunks = self.agents.read_file(node, read.into()).await?;
        Ok(self.begin(server, StreamSource::Log(AsyncMutex::new(chunks))))
    }

    async fn exec(&self, server: u64, node: NodeId, exec: WireExec) -> AgentReply {
        self.check_room(server)?;
        let ExecLink { input, output } = self.agents.exec(node, exec.into()).await?;
        Ok(self.begin(server, StreamSource::Exec { input, output: AsyncMutex::new(output) }))
    }

    fn server_log(&self, server: u64, detail: LogDetail) -> AgentReply {
        self.check_room(server)?;
        let pieces = own_log::follow(&self.log_feed, detail);
        Ok(self.begin(server, StreamSource::Log(AsyncMutex::new(pieces))))
    }

    fn check_room(&self, server: u64) -> Result<(), AgentError> {
        if self.open().values().filter(|stream| stream.server == server).count() < STREAMS_MAX {
            return Ok(());
        }
        let text = format!(
            "{STREAMS_MAX} logs and commands go through another server already: try again in a moment"
        );
        Err(AgentError::Busy(text))
    }

    fn begin(&self, server: u64, what: StreamSource) -> RelayedAnswer {
        // Random: numbers that count up would begin again after a restart, and a reader of before could get another stream.
        let number = crate::engine::random_u64();
        let stream = Arc::new(OpenStream {
            server,
            last_request: Mutex::new(Instant::now()),
            ended: CancellationToken::new(),
            what,
        });
        self.open().insert(number, stream.clone());
        tokio::spawn(end_idle(self.open.clone(), number, stream));
        RelayedAnswer::Begun(number)
    }

    async fn next(&self, server: u64, number: u64) -> RelayedAnswer {
        let Some(stream) = self.find(server, number) else { return gone() };
        let next = tokio::select! {
            next = timeout(WAIT_MAX, stream.what.next()) => next,
            () = stream.ended.cancelled() => return gone(),
        };
        match next {
            Err(_) => RelayedAnswer::NotYet,
            Ok(Some(Ok(next))) => next,
            Ok(last) => {
                self.open().remove(&number);
                match last {
                    Some(Err(error)) => RelayedAnswer::Failed(error.into()),
                    _ => RelayedAnswer::Ended,
                }
            }
        }
    }

    async fn input(&self, server: u64, number: u64, input: WireInput) -> RelayedAnswer {
        let Some(stream) = self.find(server, number) else { return gone() };
        let StreamSource::Exec { input: inputs, .. } = &stream.what else { return gone() };
        let permit = tokio::select! {
            permit = timeout(WAIT_MAX, inputs.reserve()) => permit,
            () = stream.ended.cancelled() => return gone(),
        };
        match permit {
            Ok(Ok(permit)) => {
                permit.send(input.into());
                RelayedAnswer::Done
            }
            Ok(Err(_)) => gone(),
            Err(_) => RelayedAnswer::NotYet,
        }
    }

    /// The stream of a server that has this number.
    fn find(&self, server: u64, number: u64) -> Option<Arc<OpenStream>> {
        let stream = self.open().get(&number).filter(|stream| stream.server == server).cloned()?;
        stream.touch();
        Some(stream)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<OpenStream>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamSource {
    async fn next(&self) -> Option<AgentReply> {
        match self {
            Self::Log(chunks) => {
                let next = chunks.lock().await.recv().await?;
                Some(next.map(|chunk| RelayedAnswer::Piece(chunk.into())))
            }
            Self::Exec { output, .. } => {
                let next = output.lock().await.recv().await?;
                Some(next.map(|output| RelayedAnswer::Output(output.into())))
            }
        }
    }
}

impl OpenStream {
    fn touch(&self) {
        *self.last_request.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn idle(&self) -> Duration {
        self.last_request.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

fn gone() -> RelayedAnswer {
    RelayedAnswer::Failed(WireError::Failed("it is not under way any more".to_owned()))
}

/// Closes idle streams: a lost server does not close its own.
async fn end_idle(open: Arc<Mutex<HashMap<u64, Arc<OpenStream>>>>, number: u64, stream: Arc<OpenStream>) {
    let weak = Arc::downgrade(&stream);
    drop(stream);
    loop {
        sleep(WAIT_MAX).await;
        let Some(stream) = weak.upgrade() else { return };
        if stream.idle() > IDLE_MAX {
            open.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            return stream.ended.cancel();
        }
    }
}
