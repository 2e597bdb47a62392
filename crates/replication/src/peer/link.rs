//! The way to one other server: a connection that is opened when it is needed, and again when it has ended.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};

use super::{
    conn::{CallError, Conn},
    frame::Method,
    greeting::{Greeting, OwnCluster},
    port::{Dial, PeerAddress, PeerChannel},
    versions::Versions,
};
use crate::runtime::{Runtime, engine::AsyncRuntime};

/// How long to wait for a connection and a greeting.
pub(crate) const DIAL_MAX: Duration = Duration::from_secs(1);
/// After a connection could not be opened, requests within this time fail with that at once.
const DIAL_PAUSE: Duration = Duration::from_millis(50);
/// A connection on which nothing is heard for this long, while an answer is waited for, has ended: after a partition a
/// new one works at once, when the old one would wait for its carrier to send again.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Why a connection could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DialError {
    /// The reason, in words.
    pub why: String,
    /// Somebody answered there, and one of the two sides does not accept the other: that does not end by itself.
    pub is_refusal: bool,
}

impl DialError {
    fn unreached(why: String) -> Self {
        Self { why, is_refusal: false }
    }

    fn refused(why: String) -> Self {
        Self { why, is_refusal: true }
    }

    /// A channel says with [`io::ErrorKind::PermissionDenied`] that one side does not accept what the other has shown.
    fn of(error: io::Error) -> Self {
        Self { why: error.to_string(), is_refusal: error.kind() == io::ErrorKind::PermissionDenied }
    }

    fn at(self, to: &PeerAddress) -> Self {
        Self { why: format!("reach {to}: {}", self.why), ..self }
    }
}

/// Who this server is, to others.
#[derive(Clone)]
pub(crate) struct OwnServer {
    pub server: u64,
    /// The newest entries of the log that it can apply.
    pub entries: u8,
    pub cluster: OwnCluster,
    pub dial: Arc<dyn Dial>,
    /// What the others can apply.
    pub others: Arc<Versions>,
}

impl OwnServer {
    /// Opens a connection to `to`, where `meant` is expected; 0 for anybody.
    ///
    /// # Errors
    /// When nobody answers, or who does refuses or is refused.
    pub async fn open<R: Runtime>(&self, to: &PeerAddress, meant: u64) -> Result<Arc<Conn>, DialError> {
        let opened = R::Async::timeout(DIAL_MAX, self.greet(to, meant)).await;
        let late = |_| Err(DialError::unreached(format!("no answer within {} ms", DIAL_MAX.as_millis())));
        let (channel, remote) = opened.unwrap_or_else(late).map_err(|failed| failed.at(to))?;
        let conn = Conn::new::<R>(remote);
        let running = Arc::clone(&conn);
        drop(R::Async::spawn(async move {
            let why = running.run::<R>(channel, None).await;
            tracing::debug!(server = running.remote.server, why, "a connection to another server has ended");
        }));
        Ok(conn)
    }

    /// What this server says of itself to `meant`, or to anybody when that is 0.
    pub fn greeting(&self, meant: u64) -> Greeting {
        let mut greeting = Greeting::ours(&self.cluster, self.server, meant);
        greeting.entries = self.entries;
        greeting
    }

    /// Whether the server there says that the cluster was recovered without this one. One that is not reached says
    /// nothing, nor does one that is not who it says.
    ///
    /// # Errors
    /// When it says so, with the text for users.
    pub async fn check_era(&self, to: &PeerAddress, meant: u64) -> Result<(), String> {
        let Ok((channel, ours, remote)) = self.introduce(to, meant).await else { return Ok(()) };
        if channel.vouch(remote.server).is_err() {
            return Ok(());
        }
        ours.left_behind(&remote).map_or(Ok(()), Err)
    }

    async fn greet(&self, to: &PeerAddress, meant: u64) -> Result<(PeerChannel, Greeting), DialError> {
        let (channel, ours, remote) = self.introduce(to, meant).await?;
        channel.vouch(remote.server).map_err(DialError::refused)?;
        let admitted = ours.admit(&remote, &self.cluster).inspect_err(|why| {
            if ours.is_outgrown_by(&remote) {
                self.others.set_outgrown(Some(why.clone()));
            }
        });
        admitted.map_err(DialError::refused)?;
        self.others.set_outgrown(None);
        self.others.remember(&remote);
        Ok((channel, remote))
    }

    /// Whether whoever listens there is of another cluster than this server: which two they are, for users.
    ///
    /// # Errors
    /// When nobody answers, or one of the two knows of no cluster yet.
    pub async fn other_cluster(&self, to: &PeerAddress) -> Result<Option<String>, String> {
        let (channel, ours, remote) = self.introduce(to, 0).await.map_err(|failed| failed.why)?;
        channel.vouch(remote.server)?;
        if ours.cluster() == 0 || remote.cluster() == 0 {
            return Err("it is of no cluster yet".to_owned());
        }
        Ok(ours.other_cluster(&remote))
    }

    /// Both sides have said who they are: the channel, this server's greeting and the other's.
    async fn introduce(
        &self,
        to: &PeerAddress,
        meant: u64,
    ) -> Result<(PeerChannel, Greeting, Greeting), DialError> {
        let mut channel = self.dial.dial(to).await.map_err(DialError::of)?;
        let ours = self.greeting(meant);
        channel.outgoing.send(ours.encode().into()).await.map_err(DialError::of)?;
        let closed = || DialError::unreached("it closed the connection before it said anything".to_owned());
        let first = channel.incoming.next().await.ok_or_else(closed)?.map_err(DialError::of)?;
        let remote = Greeting::decode(&first).map_err(DialError::refused)?;
        Ok((channel, ours, remote))
    }
}

/// The way to one server.
pub(crate) struct PeerLink {
    own: OwnServer,
    target: u64,
    to: PeerAddress,
    /// Held while a connection is opened: everybody else waits for the outcome.
    opening: tokio::sync::Mutex<Option<FailedDial>>,
    open: Mutex<Option<Arc<Conn>>>,
    /// Why there is no connection, if the last could not be opened.
    why: Mutex<Option<DialError>>,
}

/// A connection could not be opened.
struct FailedDial {
    at: Duration,
    why: String,
}

impl PeerLink {
    pub fn new(own: OwnServer, target: u64, to: PeerAddress) -> Self {
        Self {
            own,
            target,
            to,
            opening: tokio::sync::Mutex::default(),
            open: Mutex::default(),
            why: Mutex::default(),
        }
    }

    /// Address of the server.
    pub fn to(&self) -> &PeerAddress {
        &self.to
    }

    /// The connection, if one is open.
    pub fn is_open(&self) -> Option<Arc<Conn>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.clone().filter(|conn| conn.ended().is_none())
    }

    /// Why there is no connection, if the last could not be opened.
    pub fn why_not(&self) -> Option<DialError> {
        self.why().clone()
    }

    fn why(&self) -> MutexGuard<'_, Option<DialError>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection; opens it if need be.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn conn<R: Runtime>(&self) -> Result<Arc<Conn>, CallError> {
        if let Some(conn) = self.is_open() {
            return Ok(conn);
        }
        let mut failed = self.opening.lock().await;
        if let Some(conn) = self.is_open() {
            return Ok(conn);
        }
        if let Some(failed) = failed.as_ref().filter(|failed| R::now() < failed.at + DIAL_PAUSE) {
            return Err(CallError::NotSent(failed.why.clone()));
        }
        match self.own.open::<R>(&self.to, self.target).await {
            Ok(conn) => {
                *failed = None;
                *self.why() = None;
                *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&conn));
                Ok(conn)
            }
            Err(not_opened) => {
                let why = not_opened.why.clone();
                *failed = Some(FailedDial { at: R::now(), why: why.clone() });
                *self.why() = Some(not_opened);
                Err(CallError::NotSent(why))
            }
        }
    }

    /// Asks, and waits for the answer no longer than `patience`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call<R: Runtime>(
        &self,
        method: Method,
        patience: Duration,
        body: impl FnOnce(&mut Vec<u8>) + Send,
    ) -> Result<Bytes, CallError> {
        let started_at = R::now();
        let opened = R::Async::timeout(patience, self.conn::<R>()).await;
        let conn = opened
            .unwrap_or_else(|_| Err(CallError::NotSent(format!("reach {}: no answer yet", self.to))))?;
        let pending = conn.call(method, body)?;
        let rest = patience.saturating_sub(R::now().saturating_sub(started_at));
        match R::Async::timeout(rest, pending).await {
            Ok(answer) => answer,
            Err(_) => {
                if conn.silence::<R>() >= SILENCE_MAX {
                    conn.close("nothing is heard of the other side");
                }
                Err(CallError::Unknown(format!(
                    "{} has not answered within {} ms",
                    self.to,
                    patience.as_millis()
                )))
            }
        }
    }
}

impl Drop for PeerLink {
    fn drop(&mut self) {
        if let Some(conn) = self.is_open() {
            conn.close("the server has another address, or is no longer of the cluster");
        }
    }
}
