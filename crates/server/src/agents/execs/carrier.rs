//! Carries the messages of one command between its agent and its client.

use std::sync::Arc;

use berth_api::agent::{
    Down, EXEC_PIECE_BYTES_MAX, ExecCancel, ExecControl, ExecCredit, ExecDown, ExecInput as Input,
    ExecStream, TerminalSize,
};
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::exec::RunningExec;
use crate::{
    agents::ConnectionClosed,
    engine::SessionLink,
    shared::{AgentError, ExecInput, ExecOutput},
};

/// Carries one command's messages between its agent and whoever waits for it.
pub(super) struct ExecCarrier {
    pub(super) link: SessionLink,
    pub(super) number: u64,
    pub(super) exec: Arc<RunningExec>,
}

impl ExecCarrier {
    pub(super) async fn send(&self, control: ExecControl) -> Result<(), ConnectionClosed> {
        let exec = ExecDown { request: self.number, control: Some(control) };
        self.link.send(Down::Exec(exec)).await
    }

    /// Until the command has ended, or nobody waits for it any more; then it is cancelled.
    pub(super) async fn carry(
        self,
        started: oneshot::Sender<Result<(), AgentError>>,
        inputs: mpsc::Receiver<ExecInput>,
        outputs: mpsc::Sender<Result<ExecOutput, AgentError>>,
    ) {
        tokio::select! {
            begins = self.begins() => {
                let never = begins.is_err();
                // Whoever has given up meanwhile has closed the other channels, too.
                let _ = started.send(begins);
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
            let _ = self.send(ExecControl::Cancel(ExecCancel {})).await;
        }
    }

    /// Until the command has begun, or never will.
    async fn begins(&self) -> Result<(), AgentError> {
        loop {
            if let Some(begins) = self.exec.has_begun() {
                return begins;
            }
            self.exec.output_ready.notified().await;
        }
    }

    /// Until the command has ended, which is true, or nobody listens.
    async fn carry_output(&self, outputs: &mpsc::Sender<Result<ExecOutput, AgentError>>) -> bool {
        loop {
            let Some(next) = self.exec.next() else {
                tokio::select! {
                    () = self.exec.output_ready.notified() => continue,
                    () = outputs.closed() => return false,
                }
            };
            let output_bytes = match &next {
                Ok(ExecOutput::Stdout(bytes)) => Some((ExecStream::Stdout, bytes.len())),
                Ok(ExecOutput::Stderr(bytes)) => Some((ExecStream::Stderr, bytes.len())),
                Ok(ExecOutput::Exited(_)) | Err(_) => None,
            };
            // A command that sent more than its window is over for this side; its agent still runs it, and is told to cancel it.
            let ended = !matches!(next, Err(AgentError::Failed(_)));
            if outputs.send(next).await.is_err() {
                return false;
            }
            let Some((stream, bytes)) = output_bytes else { return ended };
            self.exec.allow(stream, bytes);
            let credit = ExecCredit { stream: stream as i32, bytes: bytes as u64 };
            // Should the agent be gone, its end says so.
            let _ = self.send(ExecControl::Credit(credit)).await;
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

    async fn carry_one(&self, input: ExecInput) -> Result<(), ConnectionClosed> {
        match input {
            ExecInput::Data(bytes) => self.carry_bytes(bytes).await,
            ExecInput::Close => {
                self.send(ExecControl::Input(Input { data: Bytes::new(), close: true })).await
            }
            ExecInput::Resize { rows, columns } => {
                let size = TerminalSize { rows: rows.into(), columns: columns.into() };
                self.send(ExecControl::Resize(size)).await
            }
        }
    }

    async fn carry_bytes(&self, mut bytes: Bytes) -> Result<(), ConnectionClosed> {
        while !bytes.is_empty() {
            let window = self.exec.take_input_window(bytes.len().min(EXEC_PIECE_BYTES_MAX));
            if window == 0 {
                self.exec.input_ready.notified().await;
                continue;
            }
            self.send(ExecControl::Input(Input { data: bytes.split_to(window), close: false })).await?;
        }
        Ok(())
    }
}
