//! Commands within tasks, as far as the agents' connections carry them: each stream moves as fast as its reader takes it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use berth_api::agent::{
    Down, EXEC_PIECE_BYTES_MAX, ExecCancel, ExecCredit, ExecDown, ExecInput as Input, ExecNews, ExecOrder,
    ExecStart, ExecStream, ExecUp, Inbox, Refusal, RefusalKind, TerminalSize,
};
use berth_model::NodeId;
use bytes::Bytes;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::timeout,
};

use super::outgoing::Outgoing;
use crate::{
    engine::Link,
    state::{AgentError, ExecInput, ExecLink, ExecOutput, ExecRequest},
};

/// Bytes of each output of a command on their way from an agent.
const WINDOW_BYTES: usize = 128 << 10;
/// Messages handed over, in either direction, that the other side has not taken.
const HANDED_MAX: usize = 4;
/// How long a command may take to begin: agents give an OCI runtime a minute.
const BEGIN_MAX: Duration = Duration::from_secs(70);
/// Commands of one agent at a time.
const EXECS_MAX: usize = 256;

/// The commands of one session.
#[derive(Clone, Default)]
pub(crate) struct Execs(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    last: u64,
    ended: bool,
    execs: HashMap<u64, Arc<Exec>>,
}

/// A command under way.
struct Exec {
    streams: Mutex<Streams>,
    /// There is output, or it has ended.
    told: Notify,
    /// There is room for input.
    room: Notify,
}

struct Streams {
    stdout: Inbox,
    stderr: Inbox,
    /// Bytes of input that the agent has room for.
    stdin_credit: usize,
    /// It runs, or has run.
    begun: bool,
    end: Option<Result<i32, AgentError>>,
}

impl Execs {
    /// Runs a command on the agent at the other end of `link`.
    pub async fn start(&self, link: Link, request: ExecRequest) -> Result<ExecLink, AgentError> {
        let (number, exec) = self.open(link.node)?;
        let start = ExecStart {
            alloc_id: request.alloc.to_bytes().to_vec(),
            task: request.task,
            command: request.command,
            tty: request.tty,
            credit_bytes: WINDOW_BYTES as u64,
        };
        let carrier = Carrier { link, number, exec };
        if carrier.tell(ExecOrder::Start(start)).await.is_err() {
            self.close(number);
            return Err(AgentError::NotConnected(carrier.link.node));
        }
        let node = carrier.link.node;
        let (input, inputs) = mpsc::channel(HANDED_MAX);
        let (outputs, output) = mpsc::channel(HANDED_MAX);
        let (begun, has_begun) = oneshot::channel();
        let execs = self.clone();
        tokio::spawn(async move {
            carrier.carry(begun, inputs, outputs).await;
            execs.close(number);
        });
        // Whoever gives up here drops both channels, and the command with them.
        let has_begun = timeout(BEGIN_MAX, has_begun).await.map_err(|_| AgentError::Silent(node))?;
        has_begun.map_err(|_| AgentError::NotConnected(node))??;
        Ok(ExecLink { input, output })
    }

    fn open(&self, node: NodeId) -> Result<(u64, Arc<Exec>), AgentError> {
        let mut open = self.lock();
        if open.ended {
            return Err(AgentError::NotConnected(node));
        }
        if open.execs.len() >= EXECS_MAX {
            let text = format!("{EXECS_MAX} commands run on node {node}: try again once one has ended");
            return Err(AgentError::Busy(text));
        }
        open.last += 1;
        let (number, exec) = (open.last, Arc::new(Exec::new()));
        open.execs.insert(number, exec.clone());
        Ok((number, exec))
    }

    fn close(&self, number: u64) {
        self.lock().execs.remove(&number);
    }

    /// The agent tells something.
    pub fn on_news(&self, up: ExecUp) {
        let exec = self.lock().execs.get(&up.request).cloned();
        if let (Some(exec), Some(news)) = (exec, up.news) {
            exec.on_news(news);
        }
    }

    /// The session of this node is over, and the agent ends its commands by itself.
    pub fn end(&self, node: NodeId) {
        let mut open = self.lock();
        open.ended = true;
        open.execs.drain().for_each(|(_, exec)| exec.on_end(Err(AgentError::NotConnected(node))));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exec {
    fn new() -> Self {
        let inbox = || Inbox::new(WINDOW_BYTES);
        let streams = Streams { stdout: inbox(), stderr: inbox(), stdin_credit: 0, begun: false, end: None };
        Self { streams: Mutex::new(streams), told: Notify::new(), room: Notify::new() }
    }

    fn on_news(&self, news: ExecNews) {
        if !matches!(news, ExecNews::Refused(_)) {
            self.lock().begun = true;
        }
        match news {
            ExecNews::Output(output) => {
                let mut streams = self.lock();
                let inbox = match output.stream() {
                    ExecStream::Stderr => &mut streams.stderr,
                    ExecStream::Stdin | ExecStream::Stdout => &mut streams.stdout,
                };
                let taken = inbox.push(&output.data);
                drop(streams);
                match taken {
                    Ok(()) => self.told.notify_one(),
                    Err(error) => self.on_end(Err(AgentError::Failed(format!("read its output: {error}")))),
                }
            }
            ExecNews::Credit(credit) => {
                let bytes = usize::try_from(credit.bytes).unwrap_or(usize::MAX);
                let mut streams = self.lock();
                streams.stdin_credit = streams.stdin_credit.saturating_add(bytes);
                drop(streams);
                self.room.notify_one();
                self.told.notify_one();
            }
            ExecNews::Exited(exited) => self.on_end(Ok(exited.exit_code)),
            ExecNews::Refused(refusal) => self.on_end(Err(refusal.into())),
        }
    }

    /// The first end counts.
    fn on_end(&self, end: Result<i32, AgentError>) {
        self.lock().end.get_or_insert(end);
        self.told.notify_one();
    }

    fn next(&self) -> Option<Result<ExecOutput, AgentError>> {
        let mut streams = self.lock();
        if let Some(bytes) = streams.stdout.take(EXEC_PIECE_BYTES_MAX) {
            return Some(Ok(ExecOutput::Stdout(bytes)));
        }
        if let Some(bytes) = streams.stderr.take(EXEC_PIECE_BYTES_MAX) {
            return Some(Ok(ExecOutput::Stderr(bytes)));
        }
        streams.end.clone().map(|end| end.map(ExecOutput::Exited))
    }

    /// Whether it has begun, or why it never will; nothing while it is not known.
    fn has_begun(&self) -> Option<Result<(), AgentError>> {
        let streams = self.lock();
        match &streams.end {
            Some(Err(error)) if !streams.begun => Some(Err(error.clone())),
            _ => streams.begun.then_some(Ok(())),
        }
    }

    /// How much of a piece of input may be sent now.
    fn take_room(&self, bytes_max: usize) -> usize {
        let mut streams = self.lock();
        let bytes = streams.stdin_credit.min(bytes_max);
        streams.stdin_credit -= bytes;
        bytes
    }

    fn allow(&self, stream: ExecStream, bytes: usize) {
        let mut streams = self.lock();
        match stream {
            ExecStream::Stderr => streams.stderr.allow(bytes),
            ExecStream::Stdin | ExecStream::Stdout => streams.stdout.allow(bytes),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries one command's messages between its agent and whoever waits for it.
struct Carrier {
    link: Link,
    number: u64,
    exec: Arc<Exec>,
}

/// The agent's connection is gone.
struct Gone;

impl Carrier {
    async fn tell(&self, order: ExecOrder) -> Result<(), Gone> {
        let exec = ExecDown { request: self.number, order: Some(order) };
        let message = (self.link.number, Outgoing::Wire(Down::Exec(exec)));
        self.link.outgoing.send(message).await.map_err(|_| Gone)
    }

    async fn carry(
        self,
        begun: oneshot::Sender<Result<(), AgentError>>,
        inputs: mpsc::Receiver<ExecInput>,
        outputs: mpsc::Sender<Result<ExecOutput, AgentError>>,
    ) {
        tokio::select! {
            begins = self.begins() => {
                let never = begins.is_err();
                // Whoever has given up meanwhile has closed the other channels, too.
                let _ = begun.send(begins);
                if never {
                    return;
                }
            }
            () = outputs.closed() => {}
        }
        let ended = tokio::select! {
            ended = self.carry_output(&outputs) => ended,
            () = self.carry_input(inputs) => false,
        };
        if !ended {
            let _ = self.tell(ExecOrder::Cancel(ExecCancel {})).await;
        }
    }

    /// Until the command has begun, or never will.
    async fn begins(&self) -> Result<(), AgentError> {
        loop {
            if let Some(begins) = self.exec.has_begun() {
                return begins;
            }
            self.exec.told.notified().await;
        }
    }

    /// Until the command has ended, which is true, or nobody listens.
    async fn carry_output(&self, outputs: &mpsc::Sender<Result<ExecOutput, AgentError>>) -> bool {
        loop {
            let Some(next) = self.exec.next() else {
                tokio::select! {
                    () = self.exec.told.notified() => continue,
                    () = outputs.closed() => return false,
                }
            };
            let taken = match &next {
                Ok(ExecOutput::Stdout(bytes)) => Some((ExecStream::Stdout, bytes.len())),
                Ok(ExecOutput::Stderr(bytes)) => Some((ExecStream::Stderr, bytes.len())),
                Ok(ExecOutput::Exited(_)) | Err(_) => None,
            };
            // A command that sent too much has been given up, and its agent has not: it is told to end it.
            let ended = !matches!(next, Err(AgentError::Failed(_)));
            if outputs.send(next).await.is_err() {
                return false;
            }
            let Some((stream, bytes)) = taken else { return ended };
            self.exec.allow(stream, bytes);
            let credit = ExecCredit { stream: stream as i32, bytes: bytes as u64 };
            // Should the agent be gone, its end says so.
            let _ = self.tell(ExecOrder::Credit(credit)).await;
        }
    }

    /// Until nobody writes any more. Should the agent be gone, the command's end says so.
    async fn carry_input(&self, mut inputs: mpsc::Receiver<ExecInput>) {
        while let Some(input) = inputs.recv().await {
            if self.carry_one(input).await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn carry_one(&self, input: ExecInput) -> Result<(), Gone> {
        match input {
            ExecInput::Data(bytes) => self.carry_bytes(bytes).await,
            ExecInput::Close => self.tell(ExecOrder::Input(Input { data: Bytes::new(), close: true })).await,
            ExecInput::Resize { rows, columns } => {
                let size = TerminalSize { rows: rows.into(), columns: columns.into() };
                self.tell(ExecOrder::Resize(size)).await
            }
        }
    }

    async fn carry_bytes(&self, mut bytes: Bytes) -> Result<(), Gone> {
        while !bytes.is_empty() {
            let room = self.exec.take_room(bytes.len().min(EXEC_PIECE_BYTES_MAX));
            if room == 0 {
                self.exec.room.notified().await;
                continue;
            }
            self.tell(ExecOrder::Input(Input { data: bytes.split_to(room), close: false })).await?;
        }
        Ok(())
    }
}

impl From<Refusal> for AgentError {
    fn from(refusal: Refusal) -> Self {
        match refusal.kind() {
            RefusalKind::Failed => Self::Failed(refusal.text),
            RefusalKind::NotFound => Self::NotFound(refusal.text),
            RefusalKind::Invalid => Self::Invalid(refusal.text),
            RefusalKind::Busy => Self::Busy(refusal.text),
        }
    }
}
