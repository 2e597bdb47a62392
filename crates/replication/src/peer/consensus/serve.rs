//! What other servers ask this one's consensus engine.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bytes::Bytes;
use futures_util::StreamExt;
use openraft::raft::AppendEntriesRequest;
use tokio::sync::mpsc;

use super::{
    network::APPENDS_MAX,
    receive::SnapshotReceiver,
    senders::{self, Senders},
    wire::{
        self, AppendReply, SnapshotEnd, SnapshotReply, TransferReply, VoteReply, WireTransferRequest,
        WireVoteRequest,
    },
};
use crate::{
    departed::Departed,
    peer::{
        conn::{Conn, Handler},
        frame::{Frame, Method},
    },
    runtime::{Runtime, engine::AsyncRuntime},
    snapshot::Snapshots,
    types::{Raft, Snapshot, SnapshotMeta, Types},
};

/// Streams of appends that are not at their end; a leader has one, and leaders change.
const STREAMS_MAX: usize = 16;
/// Requests that are being dealt with, apart from appends and pieces of snapshots.
const OTHERS_MAX: usize = 256;
/// Pieces of snapshots that wait for the disk; a sender has fewer on their way, and senders change.
const PIECES_MAX: usize = 16;

/// Hands what others ask to the consensus engine.
pub(crate) struct Serve<R: Runtime> {
    raft: Raft<R>,
    senders: Senders,
    receiver: Arc<SnapshotReceiver>,
    streams: Mutex<VecDeque<AppendStream<R>>>,
    pieces: mpsc::Sender<(Arc<Conn>, u64, Bytes)>,
    others: Arc<()>,
}

/// A stream of appends.
struct AppendStream<R: Runtime> {
    conn: Weak<Conn>,
    number: u64,
    appends: mpsc::Sender<Numbered<R>>,
}

/// An append and the number of its call.
type Numbered<R> = (u64, AppendEntriesRequest<Types<R>>);

impl<R: Runtime> Serve<R> {
    pub fn new(raft: Raft<R>, snapshots: Arc<Snapshots>, departed: Departed) -> Self {
        let receiver = Arc::new(SnapshotReceiver::new(snapshots));
        let (pieces, received) = mpsc::channel(PIECES_MAX);
        drop(R::Async::spawn(write_pieces::<R>(Arc::clone(&receiver), received)));
        let senders = Senders::new(departed);
        Self { raft, senders, receiver, streams: Mutex::default(), pieces, others: Arc::default() }
    }

    /// Puts an append at the end of its stream; begins one if there is none.
    fn append(&self, conn: &Arc<Conn>, frame: &Frame) -> Result<(), String> {
        let (number, append) = wire::decode_append::<R>(&frame.body)?;
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|open| !open.appends.is_closed() && open.conn.strong_count() > 0);
        let is_this =
            |open: &&AppendStream<R>| open.number == number && open.conn.as_ptr() == Arc::as_ptr(conn);
        if let Some(open) = streams.iter().find(is_this) {
            return open.appends.try_send((frame.call, append)).or_else(|error| match error {
                mpsc::error::TrySendError::Full(_) => {
                    Err(format!("more than {APPENDS_MAX} appends were sent ahead"))
                }
                // It ended with an error that the other side learns from an earlier answer.
                mpsc::error::TrySendError::Closed(_) => Ok(()),
            });
        }
        if append_follows_nothing_here(&streams, conn, number) {
            conn.refuse(frame.method, frame.call, "the stream that it belongs to has ended");
            return Ok(());
        }
        if streams.len() >= STREAMS_MAX {
            streams.pop_front();
        }
        let (appends, received) = mpsc::channel(APPENDS_MAX);
        appends.try_send((frame.call, append)).map_err(|error| error.to_string())?;
        drop(R::Async::spawn(run_stream::<R>(self.raft.clone(), Arc::clone(conn), received)));
        streams.push_back(AppendStream { conn: Arc::downgrade(conn), number, appends });
        Ok(())
    }

    /// Deals with a call by itself.
    fn spawn(
        &self,
        conn: &Arc<Conn>,
        method: Method,
        call: u64,
        answer: impl Future<Output = Result<Vec<u8>, String>> + Send + 'static,
    ) {
        if Arc::strong_count(&self.others) > OTHERS_MAX {
            conn.refuse(method, call, "too much is asked at once");
            return;
        }
        let (conn, counted) = (Arc::clone(conn), Arc::clone(&self.others));
        drop(R::Async::spawn(async move {
            match answer.await {
                Ok(answer) => conn.answer(method, call, |out| out.extend_from_slice(&answer)),
                Err(why) => conn.refuse(method, call, &why),
            }
            drop(counted);
        }));
    }
}

/// Whether an append belongs to a stream of this connection that came before one that is open: it is over.
fn append_follows_nothing_here<R: Runtime>(
    streams: &VecDeque<AppendStream<R>>,
    conn: &Arc<Conn>,
    number: u64,
) -> bool {
    streams.iter().any(|open| open.conn.as_ptr() == Arc::as_ptr(conn) && open.number > number)
}

fn encoded(message: &impl minicbor::Encode<()>) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put(message, &mut out);
    out
}

fn stopped(error: impl std::fmt::Display) -> String {
    format!("the log has stopped: {error}")
}

/// Feeds a stream of appends to the engine, and answers each.
async fn run_stream<R: Runtime>(raft: Raft<R>, conn: Arc<Conn>, received: mpsc::Receiver<Numbered<R>>) {
    let calls = Arc::new(Mutex::new(VecDeque::new()));
    let fed = Arc::clone(&calls);
    let appends = futures_util::stream::unfold((received, fed), |(mut received, fed)| async {
        let (call, append) = received.recv().await?;
        fed.lock().unwrap_or_else(PoisonError::into_inner).push_back(call);
        Some((append, (received, fed)))
    });
    let mut results = std::pin::pin!(raft.stream_append(appends));
    while let Some(result) = results.next().await {
        let call = calls.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let call = call.expect("the engine answers what it was fed, in order");
        match result {
            Ok(result) => {
                conn.answer(Method::Append, call, |out| wire::put(&AppendReply::of::<R>(result), out))
            }
            Err(error) => conn.refuse(Method::Append, call, &stopped(error)),
        }
    }
}

/// Writes pieces of snapshots, in the order in which they come.
async fn write_pieces<R: Runtime>(
    receiver: Arc<SnapshotReceiver>,
    mut received: mpsc::Receiver<(Arc<Conn>, u64, Bytes)>,
) {
    while let Some((conn, call, body)) = received.recv().await {
        let receiver = Arc::clone(&receiver);
        let written = R::blocking(move || receiver.piece(&wire::get(&body)?)).await;
        match written.map_err(|error| error.to_string()).flatten() {
            Ok(bytes) => {
                conn.answer(Method::SnapshotPiece, call, |out| wire::put(&SnapshotReply { bytes }, out))
            }
            Err(why) => conn.refuse(Method::SnapshotPiece, call, &why),
        }
    }
}

async fn heartbeat<R: Runtime>(raft: Raft<R>, body: Bytes) -> Result<Vec<u8>, String> {
    let (_, append) = wire::decode_append::<R>(&body)?;
    let one = futures_util::stream::iter([append]);
    let mut results = std::pin::pin!(raft.stream_append(one));
    let result = results.next().await.ok_or("the log has stopped")?.map_err(stopped)?;
    Ok(encoded(&AppendReply::of::<R>(result)))
}

async fn vote<R: Runtime>(raft: Raft<R>, body: Bytes, pre: bool) -> Result<Vec<u8>, String> {
    let request = wire::get::<WireVoteRequest>(&body)?.into_request::<R>();
    let response = if pre { raft.pre_vote(request).await } else { raft.vote(request).await };
    Ok(encoded(&VoteReply::of(&response.map_err(stopped)?)))
}

async fn transfer<R: Runtime>(raft: Raft<R>, body: Bytes) -> Result<Vec<u8>, String> {
    let request = wire::get::<WireTransferRequest>(&body)?.into_request::<R>();
    let response = raft.handle_transfer_leader(request).await;
    Ok(encoded(&TransferReply::of::<R>(response.map_err(stopped)?)))
}

async fn install<R: Runtime>(
    raft: Raft<R>,
    receiver: Arc<SnapshotReceiver>,
    body: Bytes,
) -> Result<Vec<u8>, String> {
    let SnapshotEnd { vote } = wire::get(&body)?;
    let arriving = Arc::clone(&receiver);
    let image = R::blocking(move || arriving.end()).await.map_err(|error| error.to_string())??;
    let path = image.path.clone();
    let meta =
        SnapshotMeta { last_log_id: Some(image.meta.last), last_membership: image.meta.membership.clone() };
    let response = raft.install_full_snapshot(vote.into(), Snapshot { meta, snapshot: image }).await;
    // The engine may have had no use for it.
    R::blocking(move || receiver.discard(&path)).await.map_err(|error| error.to_string())?;
    let vote = response.map_err(stopped)?.vote.into();
    Ok(encoded(&SnapshotEnd { vote }))
}

impl<R: Runtime> Handler for Serve<R> {
    fn on_frame(&self, conn: &Arc<Conn>, frame: Frame) -> Result<(), String> {
        let raft = self.raft.clone();
        let receiver = Arc::clone(&self.receiver);
        let Frame { method, call, ref body, .. } = frame;
        let server = conn.remote.server;
        senders::speaks_for_itself(server, &frame)?;
        if let Err(why) = self.senders.check(&raft, server, method) {
            tracing::debug!(server, ?method, why, "what a server asks of the log is refused");
            conn.refuse(method, call, &why);
            return Ok(());
        }
        let body = body.clone();
        match method {
            Method::Append => return self.append(conn, &frame),
            Method::Heartbeat => self.spawn(conn, method, call, heartbeat(raft, body)),
            Method::Vote => self.spawn(conn, method, call, vote(raft, body, false)),
            Method::PreVote => self.spawn(conn, method, call, vote(raft, body, true)),
            Method::Transfer => self.spawn(conn, method, call, transfer(raft, body)),
            Method::SnapshotBegin => {
                let begin = async move {
                    let begin = wire::get(&body)?;
                    let bytes = R::blocking(move || receiver.begin(begin)).await;
                    let bytes = bytes.map_err(|error| error.to_string())??;
                    Ok(encoded(&SnapshotReply { bytes }))
                };
                self.spawn(conn, method, call, begin);
            }
            Method::SnapshotPiece => {
                if self.pieces.try_send((Arc::clone(conn), call, body)).is_err() {
                    conn.refuse(method, call, "too many pieces of snapshots wait for the disk");
                }
            }
            Method::SnapshotEnd => self.spawn(conn, method, call, install(raft, receiver, body)),
            Method::Request | Method::Relay => return Err(format!("{method:?} is not for the log")),
        }
        Ok(())
    }
}
