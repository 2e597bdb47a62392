//! One command on its WebSocket: neither side is ahead of the other by more than what a few buffers hold.

use std::{sync::Arc, time::Duration};

use berth_api::http::{ExecInputFrame, ExecOutputFrame, ExecPiece, ExecResult};
use bytes::Bytes;
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::sync::mpsc;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        error::CapacityError,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};
use tokio_util::sync::CancellationToken;

use crate::{
    http::{
        failure::Failure,
        leader_contact::{ContactWatch, NO_CONTACT},
        lease::{self, Lease},
    },
    net::NetStream,
    shared::{AgentError, ExecInput, ExecLink, ExecOutput},
};

/// The largest message that a client may send.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Read and written at once.
const BUFFER_BYTES: usize = 16 << 10;
/// Messages on their way out together; one of output takes a third more than its bytes.
const UNSENT_BYTES_MAX: usize = 256 << 10;
/// How often a client is informed that the server still lives.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long the other side may take to agree to the end.
const CLOSE_MAX: Duration = Duration::from_secs(1);
/// Longest reason in a close frame, in bytes.
const REASON_BYTES_MAX: usize = 123;
/// Close codes that are not the protocol's own: this, and a status of HTTP.
const CLOSE_CODE_BASE: u16 = 4_000;

type Socket = WebSocketStream<NetStream>;
type OutputReceiver = mpsc::Receiver<Result<ExecOutput, AgentError>>;

/// What ends a session besides its command and its client.
pub struct SessionEnd {
    pub stopping: CancellationToken,
    /// None without ACLs.
    pub lease: Option<Arc<Lease>>,
}

impl SessionEnd {
    async fn ended(&self, contact: Option<&ContactWatch>) -> CloseFrame {
        let lease = async {
            match &self.lease {
                Some(lease) => lease.ended().await,
                None => std::future::pending().await,
            }
        };
        let lost_contact = async {
            match contact {
                Some(contact) => contact.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.stopping.cancelled() => close(CloseCode::Away, "the server stops"),
            () = lease => close(CloseCode::Policy, lease::ENDED),
            () = lost_contact => close(CloseCode::Again, NO_CONTACT),
        }
    }
}

/// The result of a session.
pub struct SessionResult {
    /// The exit code of the command; none where it did not exit by itself, or its client was gone by then.
    pub exit_code: Option<i32>,
    /// Bytes of output that were sent.
    pub bytes: u64,
}

/// Carries messages both ways until the command has ended or the client is gone.
pub async fn serve(stream: NetStream, read: Bytes, link: ExecLink, watch: SessionEnd) -> SessionResult {
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(UNSENT_BYTES_MAX)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let socket = Socket::from_partially_read(stream, read.to_vec(), Role::Server, Some(config)).await;
    let (mut sink, mut messages) = socket.split();
    let ExecLink { input, mut output } = link;
    let mut result = SessionResult { exit_code: None, bytes: 0 };
    let contact = watch.lease.as_ref().map(|lease| lease.contact());
    let contact = contact.as_ref();
    let end = tokio::select! {
        end = write(&mut sink, &mut output, &mut result, contact) => end,
        end = read_all(&mut messages, &input, contact) => end,
        end = watch.ended(contact) => end,
    };
    // What is left of the command ends with its channels, whether or not the client hears of it.
    drop((input, output));
    let _ = tokio::time::timeout(CLOSE_MAX, finish(sink, messages, end)).await;
    result
}

/// Waits while this server has no contact to a leader, and so does not know whether the session may go on.
async fn until_contact(contact: Option<&ContactWatch>) {
    if let Some(contact) = contact {
        contact.until_contact_again().await;
    }
}

/// Sends the reason of the end, and reads until the client closes: the kernel resets a connection that is closed with unread bytes, and
/// its last messages may be lost.
async fn finish(
    mut sink: SplitSink<Socket, Message>,
    mut messages: SplitStream<Socket>,
    end: CloseFrame,
) -> Result<(), Error> {
    sink.send(Message::Close(Some(end))).await?;
    while let Some(message) = messages.next().await {
        message?;
    }
    Ok(())
}

fn close(code: CloseCode, reason: &str) -> CloseFrame {
    let end = (0..=REASON_BYTES_MAX.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end));
    CloseFrame { code, reason: reason[..end.unwrap_or(0)].into() }
}

/// Until the command has ended, or nobody takes what it writes.
async fn write(
    sink: &mut SplitSink<Socket, Message>,
    output: &mut OutputReceiver,
    result: &mut SessionResult,
    contact: Option<&ContactWatch>,
) -> CloseFrame {
    loop {
        let received = tokio::select! {
            received = output.recv() => received,
            () = tokio::time::sleep(HEARTBEAT) => Some(Ok(ExecOutput::Stdout(Bytes::new()))),
        };
        let received = received.unwrap_or_else(|| Err(AgentError::Failed("the command is lost".into())));
        let frame = match received {
            Ok(output) => output,
            Err(error) => {
                let Failure { status, text, .. } = error.into();
                return close(CloseCode::from(CLOSE_CODE_BASE + status.as_u16()), &text);
            }
        };
        let (bytes, exit_code) = match &frame {
            ExecOutput::Stdout(data) | ExecOutput::Stderr(data) => (data.len(), None),
            ExecOutput::Exited(exit_code) => (0, Some(*exit_code)),
        };
        until_contact(contact).await;
        if sink.send(message(frame)).await.is_err() {
            return close(CloseCode::Normal, "");
        }
        result.bytes += bytes as u64;
        result.exit_code = exit_code;
        if exit_code.is_some() {
            return close(CloseCode::Normal, "");
        }
    }
}

fn message(output: ExecOutput) -> Message {
    let piece = |data: Bytes| Some(ExecPiece { data: data.into(), close: false });
    let frame = match output {
        // Nothing at all is what a heartbeat looks like.
        ExecOutput::Stdout(data) if data.is_empty() => ExecOutputFrame::default(),
        ExecOutput::Stdout(data) => ExecOutputFrame { stdout: piece(data), ..ExecOutputFrame::default() },
        ExecOutput::Stderr(data) => ExecOutputFrame { stderr: piece(data), ..ExecOutputFrame::default() },
        ExecOutput::Exited(exit_code) => {
            let result = Some(ExecResult { exit_code });
            ExecOutputFrame { exited: true, result, ..ExecOutputFrame::default() }
        }
    };
    Message::text(serde_json::to_string(&frame).unwrap_or_else(|_| "{}".to_owned()))
}

/// Until the client is gone, or breaks the protocol.
async fn read_all(
    messages: &mut SplitStream<Socket>,
    input: &mpsc::Sender<ExecInput>,
    contact: Option<&ContactWatch>,
) -> CloseFrame {
    while let Some(message) = messages.next().await {
        let text = match message {
            Ok(Message::Text(text)) => text,
            Ok(Message::Close(_)) => break,
            Ok(Message::Ping(_) | Message::Pong(_)) => continue,
            Ok(Message::Binary(_) | Message::Frame(_)) => {
                return close(CloseCode::Unsupported, "messages are JSON in text");
            }
            Err(Error::Capacity(CapacityError::MessageTooLong { .. })) => {
                let text = format!("a message has more than {MESSAGE_BYTES_MAX} bytes: send less at a time");
                return close(CloseCode::Size, &text);
            }
            Err(error) => return close(CloseCode::Protocol, &error.to_string()),
        };
        let frame: ExecInputFrame = match serde_json::from_str(&text) {
            Ok(frame) => frame,
            Err(error) => return close(CloseCode::Invalid, &format!("decode a message: {error}")),
        };
        for item in inputs(frame) {
            // Waits for buffer space: a client that sends more than the command reads is not read any further.
            let Ok(permit) = input.reserve().await else {
                // Its end is known from what it writes.
                return std::future::pending().await;
            };
            // That may have taken long.
            until_contact(contact).await;
            permit.send(item);
        }
    }
    close(CloseCode::Normal, "")
}

fn inputs(frame: ExecInputFrame) -> Vec<ExecInput> {
    let mut inputs = Vec::new();
    if let Some(size) = frame.tty_size {
        inputs.push(ExecInput::Resize { rows: size.height, columns: size.width });
    }
    if let Some(stdin) = frame.stdin {
        if !stdin.data.is_empty() {
            inputs.push(ExecInput::Data(stdin.data.into()));
        }
        if stdin.close {
            inputs.push(ExecInput::Close);
        }
    }
    inputs
}
