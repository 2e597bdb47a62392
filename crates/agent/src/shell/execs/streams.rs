//! What a command reads and writes: each stream moves as fast as its reader takes it.

use std::convert::Infallible;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::agent::{
    EXEC_PIECE_BYTES_MAX, EXEC_STDIN_BYTES_MAX, ExecCredit, ExecEvent, ExecInput, ExecOutput, ExecStream,
    ExecUp, Inbox, Overrun, Up,
};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::sleep;

use super::terminal::END_OF_INPUT;

/// How long output is waited for once nothing of the command is left; only something outside can hold it open.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// Sends the events of one command to the server that relays it.
#[derive(Clone)]
pub(super) struct ExecReply {
    pub(super) request: u64,
    pub(super) up: mpsc::Sender<Up>,
}

impl ExecReply {
    pub(super) async fn tell(&self, event: ExecEvent) {
        // Fails when the connection is gone, and the command with it.
        let _ = self.up.send(Up::Exec(ExecUp { request: self.request, event: Some(event) })).await;
    }

    pub(super) async fn allow_input(&self, bytes: usize) {
        let credit = ExecCredit { stream: ExecStream::Stdin as i32, bytes: bytes as u64 };
        self.tell(ExecEvent::Credit(credit)).await;
    }
}

/// Input that the command has not read.
pub(super) struct Input {
    waiting: Mutex<QueuedInput>,
    changed: Notify,
}

struct QueuedInput {
    inbox: Inbox,
    closed: bool,
}

impl Default for Input {
    fn default() -> Self {
        let waiting = QueuedInput { inbox: Inbox::new(EXEC_STDIN_BYTES_MAX), closed: false };
        Self { waiting: Mutex::new(waiting), changed: Notify::new() }
    }
}

impl Input {
    /// Takes in what somebody typed; what comes after the end of input is dropped.
    pub(super) fn push(&self, input: &ExecInput) -> Result<(), Overrun> {
        let mut waiting = self.lock();
        if !waiting.closed {
            waiting.inbox.push(&input.data)?;
            waiting.closed = input.close;
        }
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    /// The next piece; none at the end.
    async fn next(&self) -> Option<Bytes> {
        loop {
            {
                let mut waiting = self.lock();
                if let Some(piece) = waiting.inbox.take(EXEC_PIECE_BYTES_MAX) {
                    waiting.inbox.allow(piece.len());
                    return Some(piece);
                }
                if waiting.closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueuedInput> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a command's input goes.
pub(super) enum InputSink {
    Pipe(ChildStdin),
    Terminal(pipe::Sender),
}

impl InputSink {
    /// Passes input on for as long as the command lives. What it does not want to read any more is dropped, so that
    /// nobody waits for it in vain.
    pub(super) async fn feed(mut self, input: &Input, reply: &ExecReply) -> Infallible {
        let mut is_read = true;
        while let Some(piece) = input.next().await {
            is_read = is_read && self.write(&piece).await.is_ok();
            reply.allow_input(piece.len()).await;
        }
        if let Self::Terminal(terminal) = &mut self {
            let _ = terminal.write_all(END_OF_INPUT).await;
        }
        // A pipe that is closed is the end of input.
        drop(self);
        std::future::pending().await
    }

    async fn write(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.write_all(data).await,
            Self::Terminal(terminal) => terminal.write_all(data).await,
        }
    }
}

/// Where a command's output comes from.
pub(super) enum OutputSource {
    Stdout(ChildStdout),
    Stderr(ChildStderr),
    Terminal(pipe::Receiver),
}

impl OutputSource {
    fn stream(&self) -> ExecStream {
        if matches!(self, Self::Stderr(_)) { ExecStream::Stderr } else { ExecStream::Stdout }
    }

    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(pipe) => pipe.read(buffer).await,
            Self::Stderr(pipe) => pipe.read(buffer).await,
            Self::Terminal(terminal) => terminal.read(buffer).await,
        }
    }

    /// Passes output on, as much as `credit` allows, until there is no more. `ended` says that the command is gone.
    pub(super) async fn drain(mut self, credit: &Semaphore, ended: watch::Receiver<bool>, reply: &ExecReply) {
        let mut buffer = vec![0; EXEC_PIECE_BYTES_MAX];
        loop {
            let Ok(first) = credit.acquire().await else { return };
            first.forget();
            let allowed = 1 + credit.forget_permits(EXEC_PIECE_BYTES_MAX - 1);
            let read = tokio::select! {
                biased;
                read = self.read(&mut buffer[..allowed]) => read.unwrap_or(0),
                () = long_after(ended.clone()) => 0,
            };
            credit.add_permits(allowed - read);
            if read == 0 {
                return;
            }
            let data = Bytes::copy_from_slice(&buffer[..read]);
            reply.tell(ExecEvent::Output(ExecOutput { stream: self.stream() as i32, data })).await;
        }
    }
}

async fn long_after(mut ended: watch::Receiver<bool>) {
    if ended.wait_for(|ended| *ended).await.is_ok() {
        sleep(DRAIN_MAX).await;
    }
}
