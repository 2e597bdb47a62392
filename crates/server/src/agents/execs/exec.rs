//! One command under way: what has come from its agent, and what the agent has room for.

use std::sync::{Mutex, PoisonError};

use berth_api::agent::{EXEC_PIECE_BYTES_MAX, ExecNews, ExecStream, Inbox};
use tokio::sync::Notify;

use crate::shared::{AgentError, ExecOutput};

/// Bytes of each output of a command on their way from an agent.
pub(super) const WINDOW_BYTES: usize = 128 << 10;

/// A command under way.
pub(super) struct Exec {
    streams: Mutex<Streams>,
    /// There is output, or it has ended.
    pub(super) told: Notify,
    /// There is room for input.
    pub(super) room: Notify,
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

impl Exec {
    pub(super) fn new() -> Self {
        let inbox = || Inbox::new(WINDOW_BYTES);
        let streams = Streams { stdout: inbox(), stderr: inbox(), stdin_credit: 0, begun: false, end: None };
        Self { streams: Mutex::new(streams), told: Notify::new(), room: Notify::new() }
    }

    pub(super) fn on_news(&self, news: ExecNews) {
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
    pub(super) fn on_end(&self, end: Result<i32, AgentError>) {
        self.lock().end.get_or_insert(end);
        self.told.notify_one();
    }

    pub(super) fn next(&self) -> Option<Result<ExecOutput, AgentError>> {
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
    pub(super) fn has_begun(&self) -> Option<Result<(), AgentError>> {
        let streams = self.lock();
        match &streams.end {
            Some(Err(error)) if !streams.begun => Some(Err(error.clone())),
            _ => streams.begun.then_some(Ok(())),
        }
    }

    /// How much of a piece of input may be sent now.
    pub(super) fn take_room(&self, bytes_max: usize) -> usize {
        let mut streams = self.lock();
        let bytes = streams.stdin_credit.min(bytes_max);
        streams.stdin_credit -= bytes;
        bytes
    }

    pub(super) fn allow(&self, stream: ExecStream, bytes: usize) {
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
