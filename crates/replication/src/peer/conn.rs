//! One open connection: frames out of its lanes, answers to whoever waits for them, and what the other side asks to a
//! handler. Both sides are the same once they have greeted each other.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::sync::{oneshot, watch};

use super::{
    frame::{self, Frame, FrameKind, Method},
    greeting::Greeting,
    lanes::Lanes,
    port::{FrameSink, FrameStream, PeerChannel},
};
use crate::runtime::{Runtime, engine::AsyncRuntime};

/// Calls that wait for an answer on one connection.
const CALLS_MAX: usize = 8192;

/// A call has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The other side has never seen it.
    #[error("{0}")]
    NotSent(String),
    /// The other side may have seen it, and may yet do what was asked.
    #[error("{0}")]
    Unknown(String),
    /// The other side says that it did nothing, and why.
    #[error("{0}")]
    Refused(String),
}

/// What the other side asks.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Deals with a call or a message, without waiting: what takes time goes on by itself, and answers on `conn`.
    ///
    /// # Errors
    /// When the other side does not keep to the protocol, or to its limits: the connection ends with this reason.
    fn on_frame(&self, conn: &Arc<Conn>, frame: Frame) -> Result<(), String>;
}

/// An open connection to another server.
#[derive(Debug)]
pub(crate) struct Conn {
    /// Who is at the other end.
    pub remote: Greeting,
    lanes: Lanes,
    calls: Mutex<Calls>,
    /// When something was heard last, in milliseconds of the runtime's clock.
    heard_ms: AtomicU64,
    closed: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
struct Calls {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<Result<Bytes, CallError>>>,
}

impl Conn {
    /// A connection on which both sides have greeted each other.
    pub fn new<R: Runtime>(remote: Greeting) -> Arc<Self> {
        let conn = Self {
            remote,
            lanes: Lanes::default(),
            calls: Mutex::default(),
            heard_ms: AtomicU64::default(),
            closed: watch::Sender::new(None),
        };
        conn.on_heard::<R>();
        Arc::new(conn)
    }

    /// Sends and receives until either side has ended, and says why.
    pub async fn run<R: Runtime>(
        self: &Arc<Self>,
        channel: PeerChannel,
        handler: Option<Arc<dyn Handler>>,
    ) -> String {
        let PeerChannel { outgoing, incoming, .. } = channel;
        let writer = self.write(outgoing);
        let reader = self.read::<R>(incoming, handler);
        let mut closed = self.closed.subscribe();
        let ended = closed.wait_for(Option::is_some);
        let why = match R::Async::select3(writer, reader, ended).await {
            openraft::async_runtime::Select3::First(why) | openraft::async_runtime::Select3::Second(why) => {
                why
            }
            openraft::async_runtime::Select3::Third(why) => {
                why.ok().and_then(|why| why.clone()).unwrap_or_default()
            }
        };
        self.close(&why);
        why
    }

    async fn write(&self, mut outgoing: FrameSink) -> String {
        while let Some(frame) = self.lanes.next().await {
            let sent = async {
                outgoing.feed(frame).await?;
                while let Some(frame) = self.lanes.try_next() {
                    outgoing.feed(frame).await?;
                }
                outgoing.flush().await
            };
            if let Err(error) = sent.await {
                return error.to_string();
            }
        }
        "it was closed".to_owned()
    }

    async fn read<R: Runtime>(
        self: &Arc<Self>,
        mut incoming: FrameStream,
        handler: Option<Arc<dyn Handler>>,
    ) -> String {
        while let Some(frame) = incoming.next().await {
            let result = frame.map_err(|error| error.to_string()).and_then(|bytes| {
                let frame = frame::decode(&bytes).inspect_err(|why| self.warn_of_damage(why))?;
                self.on_heard::<R>();
                self.take(frame, handler.as_deref())
            });
            if let Err(why) = result {
                return why;
            }
        }
        "the other side has closed it".to_owned()
    }

    /// Networks that do this do it again, and no transport without TLS prevents it.
    fn warn_of_damage(&self, why: &str) {
        let server = self.remote.server;
        tracing::warn!(
            server,
            why,
            "what another server said was damaged on its way: the connection begins again"
        );
    }

    fn take(self: &Arc<Self>, frame: Frame, handler: Option<&dyn Handler>) -> Result<(), String> {
        let answer = match frame.kind {
            FrameKind::Answer => Ok(frame.body),
            FrameKind::Refusal => Err(CallError::Refused(String::from_utf8_lossy(&frame.body).into_owned())),
            FrameKind::Call | FrameKind::Message => {
                let handler = handler.ok_or("the other side asks on a connection that is for its answers")?;
                return handler.on_frame(self, frame);
            }
        };
        // Whoever asked may have stopped waiting.
        if let Some(waiting) = self.calls().waiting.remove(&frame.call) {
            waiting.send(answer).ok();
        }
        Ok(())
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the other side. What is asked with the same method arrives in the order of these calls.
    ///
    /// # Errors
    /// When the connection has ended, or too much is on its way already: nothing was sent.
    pub fn call(
        self: &Arc<Self>,
        method: Method,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<PendingCall, CallError> {
        let (answer, answered) = oneshot::channel();
        let call = {
            let mut calls = self.calls();
            if calls.waiting.len() >= CALLS_MAX {
                return Err(CallError::NotSent(format!("{CALLS_MAX} calls wait for answers already")));
            }
            calls.last += 1;
            let call = calls.last;
            calls.waiting.insert(call, answer);
            call
        };
        let pending = PendingCall { conn: Arc::clone(self), call, answered };
        self.send(FrameKind::Call, method, call, body)?;
        Ok(pending)
    }

    /// Waits until less than `bytes` wait to be sent with a method, or the connection has ended.
    pub async fn wait_for_capacity(&self, method: Method, bytes: usize) {
        self.lanes.wait_for_capacity(method, bytes).await;
    }

    /// Tells the other side something.
    ///
    /// # Errors
    /// When the connection has ended, or too much is on its way already: nothing was sent.
    pub fn send_message(&self, method: Method, body: &[u8]) -> Result<(), CallError> {
        self.send(FrameKind::Message, method, 0, |out| out.extend_from_slice(body))
    }

    /// Answers a call.
    pub fn answer(&self, method: Method, call: u64, body: impl FnOnce(&mut Vec<u8>)) {
        // A connection that takes no answer has ended, or is ended by whoever waits for it.
        if let Err(error) = self.send(FrameKind::Answer, method, call, body) {
            self.close(&error.to_string());
        }
    }

    /// Refuses a call: nothing was done.
    pub fn refuse(&self, method: Method, call: u64, why: &str) {
        let body = |out: &mut Vec<u8>| out.extend_from_slice(why.as_bytes());
        if let Err(error) = self.send(FrameKind::Refusal, method, call, body) {
            self.close(&error.to_string());
        }
    }

    fn send(
        &self,
        kind: FrameKind,
        method: Method,
        call: u64,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CallError> {
        let mut out = frame::begin(kind, method, call);
        body(&mut out);
        let frame = frame::finish(out)
            .map_err(|bytes| CallError::NotSent(format!("{bytes} bytes are more than a frame holds")))?;
        if self.lanes.push(method, frame) {
            return Ok(());
        }
        let why = self.ended().unwrap_or_else(|| "too much waits to be sent".to_owned());
        Err(CallError::NotSent(why))
    }

    /// Why it has ended; none while it has not.
    pub fn ended(&self) -> Option<String> {
        self.closed.borrow().clone()
    }

    /// Ends it. Those who wait for an answer get "unknown".
    pub fn close(&self, why: &str) {
        self.closed.send_if_modified(|closed| {
            let first = closed.is_none();
            closed.get_or_insert_with(|| why.to_owned());
            first
        });
        self.lanes.close();
        let waiting = std::mem::take(&mut self.calls().waiting);
        for (_, answer) in waiting {
            answer.send(Err(CallError::Unknown(format!("the connection has ended: {why}")))).ok();
        }
    }

    fn on_heard<R: Runtime>(&self) {
        let now = u64::try_from(R::now().as_millis()).unwrap_or(u64::MAX);
        self.heard_ms.store(now, Ordering::Relaxed);
    }

    /// How long nothing was heard.
    pub fn silence<R: Runtime>(&self) -> Duration {
        R::now().saturating_sub(Duration::from_millis(self.heard_ms.load(Ordering::Relaxed)))
    }
}

/// A call that waits for its answer.
#[derive(Debug)]
pub(crate) struct PendingCall {
    conn: Arc<Conn>,
    call: u64,
    answered: oneshot::Receiver<Result<Bytes, CallError>>,
}

impl Future for PendingCall {
    type Output = Result<Bytes, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answered).poll(context).map(|answer| {
            answer.unwrap_or_else(|_| Err(CallError::Unknown("the connection has ended".to_owned())))
        })
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.conn.calls().waiting.remove(&self.call);
    }
}
