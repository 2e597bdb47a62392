//! What the consensus engine asks other servers.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream, StreamExt, future::BoxFuture, stream::BoxStream};
use openraft::{
    RaftNetworkFactory, RaftNetworkV2,
    errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable},
    network::{Backoff, RPCOption},
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult,
        TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
    },
};

use super::{receive::DAMAGED, send, wire};
use crate::{
    disk::Disk,
    machine::SnapshotDemand,
    peer::{
        PeerAddress, Peers,
        conn::{CallError, Conn, PendingCall},
        frame::Method,
        link::{PeerLink, SILENCE_MAX},
    },
    runtime::{
        Runtime,
        engine::{AsyncRuntime, Select2},
    },
    snapshot::SnapshotImage,
    types::{Peer, Snapshot, Types, Vote},
};

/// Appends on their way to one server and not answered.
pub(super) const APPENDS_MAX: usize = 64;
/// Their bytes; one more than that may be on its way.
const APPEND_BYTES_MAX: usize = 8 << 20;
/// How long an append may go unanswered: the other side's disk may be slow.
const APPEND_ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long a request for a vote may: a server that cannot write its vote within this time does not help to elect.
const VOTE_ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long the other side may take to deal with a change of leaders.
const TRANSFER_ANSWER_MAX: Duration = Duration::from_secs(2);
/// Time between two attempts to reach a server that is not reached.
const RETRY: Duration = Duration::from_millis(100);

/// Makes the ways to other servers.
pub(crate) struct Network<R: Runtime> {
    peers: Peers<R>,
    disk: Arc<dyn Disk>,
    demand: SnapshotDemand,
}

impl<R: Runtime> Network<R> {
    /// Sends snapshots from `disk`, and asks for another one through `demand` when one is damaged there.
    pub fn new(peers: Peers<R>, disk: Arc<dyn Disk>, demand: SnapshotDemand) -> Self {
        Self { peers, disk, demand }
    }

    fn client(&self, target: u64, peer: &Peer, beats: bool) -> PeerClient<R> {
        let link = self.peers.link(target, &PeerAddress(peer.address.clone()));
        let (disk, demand) = (Arc::clone(&self.disk), self.demand.clone());
        PeerClient { target, link, disk, demand, beats, runs_on: PhantomData }
    }
}

impl<R: Runtime> RaftNetworkFactory<Types<R>> for Network<R> {
    type Network = PeerClient<R>;

    async fn new_client(&mut self, target: u64, peer: &Peer) -> PeerClient<R> {
        self.client(target, peer, false)
    }

    async fn new_heartbeat_client(&mut self, target: u64, peer: &Peer) -> PeerClient<R> {
        self.client(target, peer, true)
    }
}

/// The way to one server.
pub(crate) struct PeerClient<R> {
    target: u64,
    link: Arc<PeerLink>,
    disk: Arc<dyn Disk>,
    demand: SnapshotDemand,
    /// Only heartbeats go this way: they do not wait behind appends.
    beats: bool,
    runs_on: PhantomData<R>,
}

/// What came of an append.
type AppendResult<R> = Result<StreamAppendResult<Types<R>>, RPCError<Types<R>>>;

/// Numbers streams of appends, whoever they go to.
fn next_stream() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

fn failure<R: Runtime>(target: u64, error: CallError) -> RPCError<Types<R>> {
    let text = |why: String| format!("server {target}: {why}");
    match error {
        CallError::NotSent(why) => Unreachable::from_string(text(why)).into(),
        CallError::Unknown(why) | CallError::Refused(why) => NetworkError::from_string(text(why)).into(),
    }
}

impl<R: Runtime> PeerClient<R> {
    async fn ask<Answer: for<'b> minicbor::Decode<'b, ()>>(
        &self,
        method: Method,
        patience: Duration,
        message: &(impl minicbor::Encode<()> + Sync),
    ) -> Result<Answer, RPCError<Types<R>>> {
        let body = |out: &mut Vec<u8>| wire::put(message, out);
        let answer = self.link.call::<R>(method, patience, body).await;
        let answer = answer.and_then(|answer| wire::get(&answer).map_err(CallError::Unknown));
        answer.map_err(|error| failure(self.target, error))
    }

    /// Another server has not taken a snapshot: where that is because this server's own disk has damaged it, another one is
    /// written, and sent instead.
    async fn check(&self, image: SnapshotImage) {
        if let Err(what) = send::verify::<R>(&self.disk, image).await {
            tracing::error!(what, "a snapshot is damaged here, another one is written with the next changes");
            self.demand.raise();
        }
    }

    async fn beat(&self, append: AppendEntriesRequest<Types<R>>, patience: Duration) -> AppendResult<R> {
        let body = |out: &mut Vec<u8>| wire::encode_append::<R>(0, &append, out);
        let answer = self.link.call::<R>(Method::Heartbeat, patience, body).await;
        let answer =
            answer.and_then(|answer| wire::get::<wire::AppendReply>(&answer).map_err(CallError::Unknown));
        answer.map(wire::AppendReply::into_result::<R>).map_err(|error| failure(self.target, error))
    }
}

impl<R: Runtime> RaftNetworkV2<Types<R>> for PeerClient<R> {
    type SnapshotData = SnapshotImage;

    async fn append_entries(
        &mut self,
        append: AppendEntriesRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types<R>>, RPCError<Types<R>>> {
        Ok(self.beat(append, option.soft_ttl()).await?.into())
    }

    fn stream_append<'s, S>(
        &'s mut self,
        mut input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, AppendResult<R>>, RPCError<Types<R>>>>
    where
        S: Stream<Item = AppendEntriesRequest<Types<R>>> + Send + Unpin + 'static,
    {
        Box::pin(async move {
            if self.beats {
                let answers = async_once(async move {
                    let append = input.next().await?;
                    Some(self.beat(append, option.soft_ttl()).await)
                });
                return Ok(answers);
            }
            let conn = match self.link.conn::<R>().await {
                Ok(conn) => conn,
                Err(error) => {
                    // The engine waits before it asks for the next entries, which nobody asks for without a connection.
                    R::Async::sleep(RETRY).await;
                    return Err(failure(self.target, error));
                }
            };
            let appends = Appends::<R, S> {
                target: self.target,
                conn,
                stream: next_stream(),
                input: Some(input),
                unanswered: VecDeque::new(),
                bytes: 0,
                failed: None,
                runs_on: PhantomData,
            };
            let answers = futures_util::stream::unfold(Some(appends), |appends| async {
                let mut appends = appends?;
                let answer = appends.next().await?;
                let goes_on = matches!(answer, Ok(Ok(_)));
                Some((answer, goes_on.then_some(appends)))
            });
            Ok(answers.boxed())
        })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types<R>>,
        _: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        let answer: wire::VoteReply =
            self.ask(Method::Vote, VOTE_ANSWER_MAX, &wire::WireVoteRequest::of(&request)).await?;
        Ok(answer.into_response())
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types<R>>,
        _: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        let answer: wire::VoteReply =
            self.ask(Method::PreVote, VOTE_ANSWER_MAX, &wire::WireVoteRequest::of(&request)).await?;
        Ok(answer.into_response())
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Types<R>>, StreamingError<Types<R>>> {
        let image = snapshot.snapshot;
        let sending = send::send::<R>(&self.link, &self.disk, vote, image.clone());
        match R::Async::select2(cancel, sending).await {
            Select2::First(closed) => Err(closed.into()),
            Select2::Second(Ok(end)) => Ok(end.into_response()),
            Select2::Second(Err(error)) => {
                tracing::warn!(server = self.target, %error, "a snapshot was not taken in");
                // All of it is read for that: other refusals, as of a disk that is full, say nothing of what is here.
                if matches!(&error, CallError::Refused(why) if why.starts_with(DAMAGED)) {
                    self.check(image).await;
                }
                Err(failure::<R>(self.target, error).into())
            }
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types<R>>,
        _: RPCOption,
    ) -> Result<TransferLeaderResponse<Types<R>>, RPCError<Types<R>>> {
        let message = wire::WireTransferRequest::of(&request);
        let answer: wire::TransferReply = self.ask(Method::Transfer, TRANSFER_ANSWER_MAX, &message).await?;
        Ok(answer.into_response())
    }

    fn backoff(&self) -> Option<Backoff> {
        Some(Backoff::new(std::iter::repeat(RETRY)))
    }
}

/// A stream of at most one item.
fn async_once<'s, T: Send + 's>(item: impl Future<Output = Option<T>> + Send + 's) -> BoxStream<'s, T> {
    futures_util::stream::once(item).filter_map(std::future::ready).boxed()
}

/// Appends that are sent while the answers to earlier ones are on their way.
struct Appends<R: Runtime, S> {
    target: u64,
    conn: Arc<Conn>,
    stream: u64,
    /// None once there are no more.
    input: Option<S>,
    unanswered: VecDeque<PendingAppend>,
    /// Of what is unanswered.
    bytes: usize,
    failed: Option<CallError>,
    runs_on: PhantomData<R>,
}

struct PendingAppend {
    pending: PendingCall,
    bytes: usize,
    /// By the runtime's clock.
    until: Duration,
}

impl<R, S> Appends<R, S>
where
    R: Runtime,
    S: Stream<Item = AppendEntriesRequest<Types<R>>> + Send + Unpin,
{
    /// The next answer; none once all are there.
    async fn next(&mut self) -> Option<AppendResult<R>> {
        loop {
            let until = self.unanswered.front().map(|first| first.until);
            let next = poll_fn(|context| self.poll_next(context));
            let Some(until) = until else { return next.await };
            // Looked at from time to time, so that a connection which swallows what it is given does not last.
            let wait = until.saturating_sub(R::now()).min(SILENCE_MAX);
            if let Ok(next) = R::Async::timeout(wait, next).await {
                return next;
            }
            if R::now() >= until {
                self.conn.close("an append was not answered");
                let why = format!("an append was not answered within {} s", APPEND_ANSWER_MAX.as_secs());
                return Some(Err(NetworkError::from_string(why).into()));
            }
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<AppendResult<R>>> {
        self.send(context);
        let Some(first) = self.unanswered.front_mut() else {
            return match self.failed.take() {
                Some(error) => Poll::Ready(Some(Err(failure(self.target, error)))),
                None if self.input.is_none() => Poll::Ready(None),
                None => Poll::Pending,
            };
        };
        let Poll::Ready(answer) = Pin::new(&mut first.pending).poll(context) else { return Poll::Pending };
        self.bytes -= first.bytes;
        self.unanswered.pop_front();
        let answer =
            answer.and_then(|body| wire::get::<wire::AppendReply>(&body).map_err(CallError::Unknown));
        let answer = answer.map(wire::AppendReply::into_result::<R>);
        Poll::Ready(Some(answer.map_err(|error| failure(self.target, error))))
    }

    /// Sends what there is, as far as the window allows.
    fn send(&mut self, context: &mut Context<'_>) {
        while self.unanswered.len() < APPENDS_MAX && self.bytes < APPEND_BYTES_MAX {
            let Some(input) = &mut self.input else { return };
            match input.poll_next_unpin(context) {
                Poll::Pending => return,
                Poll::Ready(None) => self.input = None,
                Poll::Ready(Some(append)) => self.send_one(&append),
            }
        }
    }

    fn send_one(&mut self, append: &AppendEntriesRequest<Types<R>>) {
        let mut bytes = 0;
        let pending = self.conn.call(Method::Append, |out| {
            wire::encode_append::<R>(self.stream, append, out);
            bytes = out.len();
        });
        match pending {
            Ok(pending) => {
                self.bytes += bytes;
                let until = R::now() + APPEND_ANSWER_MAX;
                self.unanswered.push_back(PendingAppend { pending, bytes, until });
            }
            Err(error) => (self.failed, self.input) = (Some(error), None),
        }
    }
}
