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
    /// Who the certificate that was shown is for.
    pub certificate: Option<Arc<str>>,
    /// It has one of the slots reserved for health checks: no other was free.
    pub is_reserved: bool,
    /// The task by whose own socket it comes: it has to show who it is, whatever else is allowed.
    pub of_task: Option<Arc<TaskAt>>,
    /// Whether it may take as long as it likes to read the present answer.
    pub leisure: StallExemption,
    takeover: Arc<Mutex<Option<Takeover>>>,
}

impl Caller {
    pub fn new(peer: SocketAddr, certificate: Option<Arc<str>>, is_reserved: bool) -> Self {
        Self {
            peer,
            certificate,
            is_reserved,
            of_task: None,
            leisure: StallExemption::default(),
            takeover: Arc::default(),
        }
    }

    /// The same, by the socket of a task if there is one.
    pub fn of_task(self, of_task: Option<Arc<TaskAt>>) -> Self {
        Self { of_task, ..self }
    }

    /// The address among whose requests that wait it counts; none for what comes by a task's socket, of which a node has few
    /// connections, and must not have them at the expense of its own programs.
    pub fn waits_for(&self) -> Option<IpAddr> {
        self.of_task.is_none().then(|| self.peer.ip())
    }

    /// Whether it is a program of this machine: tasks of an agent on it are not those.
    pub fn is_of_this_machine(&self) -> bool {
        self.of_task.is_none() && self.host() == Ipv4Addr::LOCALHOST
    }

    /// The address among whose refusals it counts in the audit log; none for what comes by tasks' sockets: no task hides what is
    /// refused to others of its node.
    pub fn is_refused_with(&self) -> Option<IpAddr> {
        self.of_task.is_none().then(|| self.host())
    }

    /// Whose requests it counts among.
    pub fn host(&self) -> IpAddr {
        host(self.peer.ip())
    }

    /// Once the answer is sent, which must be of status 101, `work` gets the connection, and what was read of it already.
    pub fn take_over<F>(&self, work: impl FnOnce(NetStream, Bytes) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let takeover: Takeover = Box::new(move |stream, read| Box::pin(work(stream, read)));
        *self.takeover.lock().unwrap_or_else(PoisonError::into_inner) = Some(takeover);
    }

    /// Who goes on with the connection after HTTP.
    pub fn takeover(&self) -> Option<Takeover> {
        self.takeover.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
