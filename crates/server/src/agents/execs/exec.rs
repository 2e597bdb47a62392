//! One running command: its output that is not read yet, and the agent's receive window for its input.

use std::sync::{Mutex, PoisonError};

use berth_api::agent::{EXEC_PIECE_BYTES_MAX, ExecEvent, ExecStream, Inbox};
use tokio::sync::Notify;

use crate::shared::{AgentError, ExecOutput};

/// Bytes of each output of a command on their way from an agent.
pub(super) const WINDOW_BYTES: usize = 128 << 10;

/// A command under way.
pub(super) struct RunningExec {
    streams: Mutex<ExecStreams>,
    /// There is output, or it has ended.
    pub(super) output_ready: Notify,
    /// The agent's receive window has free bytes.
    pub(super) input_ready: Notify,
}

struct ExecStreams {
    stdout: Inbox,
    stderr: Inbox,
    /// Bytes of input that the agent's receive window still takes.
    stdin_credit: usize,
    /// It runs, or has run.
    has_begun: bool,
    end: Option<Result<i32, AgentError>>,
}

impl RunningExec {
    pub(super) fn new() -> Self {
        let inbox = || Inbox::new(WINDOW_BYTES);
        let streams =
            ExecStreams { stdout: inbox(), stderr: inbox(), stdin_credit: 0, has_begun: false, end: None };
        Self { streams: Mutex::new(streams), output_ready: Notify::new(), input_ready: Notify::new() }
    }

    pub(super) fn on_event(&self, event: ExecEvent) {
        if !matches!(event, ExecEvent::Refused(_)) {
            self.lock().has_begun = true;
        }
        match event {
            ExecEvent::Output(output) => {
                let mut streams = self.lock();
                let inbox = match output.stream() {
                    ExecStream::Stderr => &mut streams.stderr,
                    ExecStream::Stdin | ExecStream::Stdout => &mut streams.stdout,
                };
                let outcome = inbox.push(&output.data);
                drop(streams);
                match outcome {
                    Ok(()) => self.output_ready.notify_one(),
                    Err(error) => self.on_end(Err(AgentError::Failed(format!("read its output: {error}")))),
                }
            }
            ExecEvent::Credit(credit) => {
                let bytes = usize::try_from(credit.bytes).unwrap_or(usize::MAX);
                let mut streams = self.lock();
                streams.stdin_credit = streams.stdin_credit.saturating_add(bytes);
                drop(streams);
                self.input_ready.notify_one();
                self.output_ready.notify_one();
            }
            ExecEvent::Exited(exited) => self.on_end(Ok(exited.exit_code)),
            ExecEvent::Refused(refusal) => self.on_end(Err(refusal.into())),
        }
    }

    /// The first end counts.
    pub(super) fn on_end(&self, end: Result<i32, AgentError>) {
        self.lock().end.get_or_insert(end);
        self.output_ready.notify_one();
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
            Some(Err(error)) if !streams.has_begun => Some(Err(error.clone())),
            _ => streams.has_begun.then_some(Ok(())),
        }
    }

    /// How much of a piece of input may be sent now.
    pub(super) fn take_input_window(&self, bytes_max: usize) -> usize {
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

    fn lock(&self) -> std::sync::MutexGuard<'_, ExecStreams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
