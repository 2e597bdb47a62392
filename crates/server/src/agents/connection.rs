//! One agent connection: frames in become events, what sessions are told becomes frames out.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use berth_api::agent::{
    AllocStatus, FRAME_BYTES_MAX, HELLO_BYTES_MAX, PROTOCOL_VERSION, Up, UpFrame, Update, decode_frame,
};
use berth_controller::{Event, SessionId};
use berth_model::NodeId;
use bytes::BytesMut;
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
};

use super::{
    listen::Context,
    outgoing::{DesiredSeqs, Outgoing, encode},
    pending::Pending,
};
use crate::{
    convert::agent as convert,
    engine::{Input, Link},
};

/// Messages to one connection that may wait.
const OUTGOING_MAX: usize = 1 << 16;
/// Sessions that one connection may carry.
const SESSIONS_MAX: usize = 1 << 16;
/// A connection that says nothing for this long is half open.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// A write that takes longer means that the agent does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 256 << 10;

/// Serves a connection until it ends.
pub(super) async fn serve(stream: TcpStream, context: &Arc<Context>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    let (outgoing, messages) = mpsc::channel(OUTGOING_MAX);
    let mut writing = tokio::spawn(write(writer, messages, context.clone()));
    let mut incoming = Incoming { context, outgoing, sessions: HashMap::new() };
    let ended = tokio::select! {
        ended = incoming.read(reader) => ended,
        _ = &mut writing => Ok(()),
    };
    for session in incoming.sessions.into_values() {
        session.pending.end(session.node);
        context.tell(Input::Event(Event::SessionClosed(session.id))).await;
    }
    writing.abort();
    ended
}

struct Session {
    id: SessionId,
    node: NodeId,
    pending: Pending,
}

struct Incoming<'a> {
    context: &'a Arc<Context>,
    outgoing: mpsc::Sender<(u32, Outgoing)>,
    sessions: HashMap<u32, Session>,
}

impl Incoming<'_> {
    async fn read(&mut self, mut reader: OwnedReadHalf) -> io::Result<()> {
        let mut buffer = BytesMut::with_capacity(64 << 10);
        loop {
            let read = tokio::time::timeout(SILENCE_MAX, reader.read_buf(&mut buffer)).await;
            if read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? == 0 {
                return Ok(());
            }
            while let Some(frame) =
                decode_frame::<UpFrame>(&mut buffer, self.frame_bytes_max()).map_err(io::Error::other)?
            {
                self.frame(frame).await?;
            }
        }
    }

    async fn frame(&mut self, frame: UpFrame) -> io::Result<()> {
        let number = frame.session;
        match frame.message {
            Some(Up::Hello(hello)) => self.open(number, hello).await,
            Some(Up::Update(update)) => self.update(number, update).await,
            Some(Up::Heartbeat(_)) => {
                if let Some(session) = self.sessions.get(&number) {
                    self.context.tell(Input::Event(Event::Heartbeat(session.id))).await;
                }
                Ok(())
            }
            Some(Up::FileChunk(chunk)) => {
                self.with(number, |pending| pending.files.on_chunk(&chunk));
                Ok(())
            }
            Some(Up::Answer(answer)) => {
                self.with(number, |pending| pending.asks.on_answer(answer));
                Ok(())
            }
            Some(Up::Exec(news)) => {
                self.with(number, |pending| pending.execs.on_news(news));
                Ok(())
            }
            // Of a newer protocol: an agent says nothing that must be understood before it was welcomed to say it.
            None => Ok(()),
        }
    }

    /// Before a session is open, nobody has said who is there.
    fn frame_bytes_max(&self) -> usize {
        if self.sessions.is_empty() { HELLO_BYTES_MAX } else { FRAME_BYTES_MAX }
    }

    fn with(&self, number: u32, take_in: impl FnOnce(&Pending)) {
        if let Some(session) = self.sessions.get(&number) {
            take_in(&session.pending);
        }
    }

    async fn open(&mut self, number: u32, hello: berth_api::agent::Hello) -> io::Result<()> {
        if hello.protocol_version != PROTOCOL_VERSION {
            let reason = format!(
                "agent speaks protocol {}, this server speaks {PROTOCOL_VERSION}: use the same version of berth",
                hello.protocol_version
            );
            return self.refuse(number, reason).await;
        }
        if self.sessions.len() >= SESSIONS_MAX {
            return self.refuse(number, format!("{SESSIONS_MAX} sessions are open on this connection")).await;
        }
        let hello = match convert::hello(hello) {
            Ok(hello) => hello,
            Err(reason) => return self.refuse(number, reason).await,
        };
        let id = self.context.next_session();
        let (node, pending) = (hello.node_id(), Pending::default());
        let link = Link { node, number, outgoing: self.outgoing.clone(), pending: pending.clone() };
        if let Some(old) = self.sessions.insert(number, Session { id, node, pending }) {
            old.pending.end(old.node);
            self.context.tell(Input::Event(Event::SessionClosed(old.id))).await;
        }
        self.context.tell(Input::Open { session: id, hello: Box::new(hello), link }).await;
        Ok(())
    }

    async fn refuse(&self, number: u32, reason: String) -> io::Result<()> {
        let message = berth_controller::ToNode::Refused { reason, retry: false };
        self.outgoing.send((number, Outgoing::ToNode(message))).await.map_err(io::Error::other)
    }

    async fn update(&self, number: u32, update: Update) -> io::Result<()> {
        let Some(session) = self.sessions.get(&number) else { return Ok(()) };
        let mut allocs = Vec::with_capacity(update.allocs.len());
        for encoded in &update.allocs {
            let status = AllocStatus::decode(encoded.clone()).map_err(io::Error::other)?;
            allocs.push(Arc::new(convert::observed(status, encoded).map_err(io::Error::other)?));
        }
        let event =
            Event::Observed { session: session.id, seq: update.seq, allocs, resync_done: update.resync_done };
        self.context.tell(Input::Event(event)).await;
        Ok(())
    }
}

/// Writes what sessions are told; what has gathered meanwhile goes in one write.
async fn write(
    mut writer: OwnedWriteHalf,
    mut messages: mpsc::Receiver<(u32, Outgoing)>,
    context: Arc<Context>,
) -> io::Result<()> {
    let (mut buffer, mut seqs) = (BytesMut::new(), DesiredSeqs::default());
    while let Some((number, message)) = messages.recv().await {
        let mut open = encode(number, message, &context, &mut seqs, &mut buffer);
        while open && buffer.len() < WRITE_BYTES {
            let Ok((number, message)) = messages.try_recv() else { break };
            open = encode(number, message, &context, &mut seqs, &mut buffer);
        }
        tokio::time::timeout(WRITE_TIMEOUT, writer.write_all(&buffer))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        buffer.clear();
    }
    Ok(())
}
