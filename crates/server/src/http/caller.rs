//! The connection of a request, for the few handlers that need the peer or switch to another protocol.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;

use crate::{
    net::{NetStream, StallExemption, host},
    workload::TaskAt,
};

type Takeover = Box<dyn FnOnce(NetStream, Bytes) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The connection by which a request came.
#[derive(Clone)]
pub(crate) struct Caller {
    /// Where it comes from.
    pub peer: SocketAddr,
    /// The identity that the client certificate names.
    pub certificate: Option<Arc<str>>,
    /// Its connection has a slot that is reserved for health checks, as no other was free.
    pub is_reserved: bool,
    /// The task by whose socket it comes: such a request always needs a token.
    pub of_task: Option<Arc<TaskAt>>,
    /// Exempts the present response from the timeout of stalled writes.
    pub stall_exemption: StallExemption,
    takeover: Arc<Mutex<Option<Takeover>>>,
}

impl Caller {
    pub fn new(peer: SocketAddr, certificate: Option<Arc<str>>, is_reserved: bool) -> Self {
        Self {
            peer,
            certificate,
            is_reserved,
            of_task: None,
            stall_exemption: StallExemption::default(),
            takeover: Arc::default(),
        }
    }

    /// The same, by the socket of a task if there is one.
    pub fn of_task(self, of_task: Option<Arc<TaskAt>>) -> Self {
        Self { of_task, ..self }
    }

    /// The address whose limit of waiting requests applies; none for a request by a task's socket, since these are few, and must not
    /// count against programs on the agent's machine.
    pub fn waits_for(&self) -> Option<IpAddr> {
        self.of_task.is_none().then(|| self.peer.ip())
    }

    /// Whether the caller is a program on this machine; tasks of an agent on it do not count as such.
    pub fn is_of_this_machine(&self) -> bool {
        self.of_task.is_none() && self.host() == Ipv4Addr::LOCALHOST
    }

    /// The address whose limit of recorded refusals applies; none for a request by a task's socket, so that no task can use up the
    /// records of others on its node.
    pub fn is_refused_with(&self) -> Option<IpAddr> {
        self.of_task.is_none().then(|| self.host())
    }

    /// The address whose rate limit applies.
    pub fn host(&self) -> IpAddr {
        host(self.peer.ip())
    }

    /// Hands the connection to `work` once the response, which must have status 101, is sent; with the bytes already read.
    pub fn take_over<F>(&self, work: impl FnOnce(NetStream, Bytes) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let takeover: Takeover = Box::new(move |stream, read| Box::pin(work(stream, read)));
        *self.takeover.lock().unwrap_or_else(PoisonError::into_inner) = Some(takeover);
    }

    /// Takes the work that goes on with the connection after HTTP.
    pub fn takeover(&self) -> Option<Takeover> {
        self.takeover.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
