//! The agents of this server and its own log, for other servers: each asks for one piece after the other, so that what is under way holds no
//! more than the agents' own windows. What nobody asks for any more ends.

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
    wire::{self, AgentAnswer, AgentRequest, Exec, Failure, Input, Read},
};
use crate::{
    agents::Registry,
    shared::{AgentError, Agents, ExecInput, ExecLink, ExecOutput, ReadPieces},
};

/// What one server has under way here at a time.
const STREAMS_MAX: usize = 256;
/// How long a server waits for what comes next before it asks again.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// What no server has asked for in this time, nobody waits for.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// What other servers have under way with the agents of this one.
pub(in crate::cluster) struct Lent {
    agents: Arc<Registry>,
    log_feed: LogFeed,
    open: Arc<Mutex<HashMap<u64, Arc<Stream>>>>,
}

/// Something under way.
struct Stream {
    /// Whose.
    server: u64,
    used: Mutex<Instant>,
    /// Nobody waits for it any more.
    ended: CancellationToken,
    what: What,
}

enum What {
    Log(AsyncMutex<ReadPieces>),
    Exec {
        input: mpsc::Sender<ExecInput>,
        output: AsyncMutex<mpsc::Receiver<Result<ExecOutput, AgentError>>>,
    },
}

type Outcome = Result<AgentAnswer, AgentError>;

impl Lent {
    /// Nothing is under way.
    pub fn new(agents: Arc<Registry>, log_feed: LogFeed) -> Self {
        Self { agents, log_feed, open: Arc::default() }
    }

    /// Does what a server asks.
    pub async fn answer(&self, server: u64, request: AgentRequest) -> AgentAnswer {
        let outcome = match request {
            AgentRequest::Find(node) if self.agents.has(node) => Ok(AgentAnswer::Done),
            AgentRequest::Find(_) => Ok(AgentAnswer::NotYet),
            AgentRequest::Ask(node, question) => self.ask(node, &question).await,
            AgentRequest::Read(node, read) => self.read(server, node, read).await,
            AgentRequest::Exec(node, exec) => self.exec(server, node, exec).await,
            AgentRequest::ServerLog(lines) => self.server_log(server, lines.into()),
            AgentRequest::Next(number) => Ok(self.next(server, number).await),
            AgentRequest::Input(number, input) => Ok(self.input(server, number, input).await),
            AgentRequest::Keep(number) => {
                Ok(self.find(server, number).map_or_else(gone, |_| AgentAnswer::Done))
            }
            AgentRequest::End(number) => {
                if let Some(stream) = self.find(server, number) {
                    self.open().remove(&number);
                    stream.ended.cancel();
                }
                Ok(AgentAnswer::Done)
            }
        };
        outcome.unwrap_or_else(|error| AgentAnswer::Failed(error.into()))
    }

    async fn ask(&self, node: NodeId, question: &[u8]) -> Outcome {
        let unknown = || AgentError::Failed("a newer server asks what this one does not know".to_owned());
        let question = wire::read_question(question).ok_or_else(unknown)?;
        Ok(AgentAnswer::Outcome(wire::outcome(self.agents.ask(node, question).await?)))
    }

    async fn read(&self, server: u64, node: NodeId, read: Read) -> Outcome {
        self.check_room(server)?;
        let chunks = self.agents.read_file(node, read.into()).await?;
        Ok(self.begin(server, What::Log(AsyncMutex::new(chunks))))
    }

    async fn exec(&self, server: u64, node: NodeId, exec: Exec) -> Outcome {
        self.check_room(server)?;
        let ExecLink { input, output } = self.agents.exec(node, exec.into()).await?;
        Ok(self.begin(server, What::Exec { input, output: AsyncMutex::new(output) }))
    }

    fn server_log(&self, server: u64, detail: LogDetail) -> Outcome {
        self.check_room(server)?;
        let pieces = own_log::follow(&self.log_feed, detail);
        Ok(self.begin(server, What::Log(AsyncMutex::new(pieces))))
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

    fn begin(&self, server: u64, what: What) -> AgentAnswer {
        // Drawn, so that a server that was started again is not taken for the one that it was.
        let number = crate::engine::random_u64();
        let stream = Arc::new(Stream {
            server,
            used: Mutex::new(Instant::now()),
            ended: CancellationToken::new(),
            what,
        });
        self.open().insert(number, stream.clone());
        tokio::spawn(end_idle(self.open.clone(), number, stream));
        AgentAnswer::Begun(number)
    }

    async fn next(&self, server: u64, number: u64) -> AgentAnswer {
        let Some(stream) = self.find(server, number) else { return gone() };
        let next = tokio::select! {
            next = timeout(WAIT_MAX, stream.what.next()) => next,
            () = stream.ended.cancelled() => return gone(),
        };
        match next {
            Err(_) => AgentAnswer::NotYet,
            Ok(Some(Ok(next))) => next,
            Ok(last) => {
                self.open().remove(&number);
                match last {
                    Some(Err(error)) => AgentAnswer::Failed(error.into()),
                    _ => AgentAnswer::Ended,
                }
            }
        }
    }

    async fn input(&self, server: u64, number: u64, input: Input) -> AgentAnswer {
        let Some(stream) = self.find(server, number) else { return gone() };
        let What::Exec { input: inputs, .. } = &stream.what else { return gone() };
        let room = tokio::select! {
            room = timeout(WAIT_MAX, inputs.reserve()) => room,
            () = stream.ended.cancelled() => return gone(),
        };
        match room {
            Ok(Ok(room)) => {
                room.send(input.into());
                AgentAnswer::Done
            }
            Ok(Err(_)) => gone(),
            Err(_) => AgentAnswer::NotYet,
        }
    }

    /// What a server has under way by that number.
    fn find(&self, server: u64, number: u64) -> Option<Arc<Stream>> {
        let stream = self.open().get(&number).filter(|stream| stream.server == server).cloned()?;
        stream.touch();
        Some(stream)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Stream>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl What {
    async fn next(&self) -> Option<Outcome> {
        match self {
            Self::Log(chunks) => {
                let next = chunks.lock().await.recv().await?;
                Some(next.map(|chunk| AgentAnswer::Piece(chunk.into())))
            }
            Self::Exec { output, .. } => {
                let next = output.lock().await.recv().await?;
                Some(next.map(|output| AgentAnswer::Output(output.into())))
            }
        }
    }
}

impl Stream {
    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

fn gone() -> AgentAnswer {
    AgentAnswer::Failed(Failure::Failed("it is not under way any more".to_owned()))
}

/// Ends what nobody asks for any more: a server that was lost does not say so.
async fn end_idle(open: Arc<Mutex<HashMap<u64, Arc<Stream>>>>, number: u64, stream: Arc<Stream>) {
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
