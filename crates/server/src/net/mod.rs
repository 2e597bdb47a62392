//! Connections of clients, agents and servers over any transport, and limits by address.

mod expiry;
mod per_address;
mod port_acceptor;
mod rates;
mod refusals;
mod secure;
mod stall;
#[cfg(test)]
pub(crate) mod test_certificates;
mod write_budget;
mod wrong_port;

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use berth_tls::{Accepted, Peer, PortKind, TlsStream};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    net::TcpStream,
};

pub(crate) use expiry::until_expired;
pub use per_address::AddressLimit;
pub(crate) use per_address::{AddressGuard, PerAddress, host};
pub(crate) use port_acceptor::AGENT_HANDSHAKES_OF_ADDRESS;
pub use port_acceptor::PortAcceptor;
pub(crate) use rates::{RateExceeded, Rates};
pub(crate) use refusals::RefusalLog;
pub(crate) use secure::Secure;
pub use secure::TlsConfig;
pub(crate) use stall::StallExemption;
use stall::StallTimeout;
use write_budget::WriteBudget;
pub(crate) use wrong_port::{Foreign, OwnPort};

use crate::workload::TaskAt;

/// A connection and its peer. Whoever serves it does not know what carries it.
#[derive(Debug)]
pub(crate) struct NetStream {
    carrier: Transport,
    peer: SocketAddr,
    /// What the peer has shown of itself.
    certificate: Option<Peer>,
    /// Whether the connection is only for a request for a certificate.
    enrolls: bool,
    /// None where writes may stall without limit.
    stall_timeout: Option<StallTimeout>,
    write_budget: WriteBudget,
    /// The task from whose own socket it was carried here.
    of_task: Option<Arc<TaskAt>>,
}

/// What carries a connection.
#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    /// In a box: its buffers and keys take a kilobyte, which a plain connection does without.
    Encrypted(Box<TlsStream<TcpStream>>),
    Dialed(Box<berth_tls::Stream>),
    /// A pipe within this process, whose other end an agent's connection carries.
    Carried(DuplexStream),
}

/// After which silence a peer is taken for gone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeepAlive {
    /// A peer that is silent for this long is probed by keep-alives.
    pub idle: Duration,
    /// The interval of the probes.
    pub interval: Duration,
    /// After so many unanswered probes it is gone.
    pub retries: u32,
}

impl NetStream {
    /// A connection without encryption.
    pub fn plain(stream: TcpStream, peer: SocketAddr) -> Self {
        Self::new(Transport::Plain(stream), peer)
    }

    /// A connection that came in encrypted.
    pub fn encrypted(accepted: Accepted, peer: SocketAddr) -> Self {
        let carrier = Transport::Encrypted(Box::new(accepted.stream));
        let enrolls = accepted.kind == PortKind::Enrollment;
        Self { certificate: accepted.peer, enrolls, ..Self::new(carrier, peer) }
    }

    /// A connection that this side has opened.
    pub fn dialed(stream: berth_tls::Stream, peer: SocketAddr) -> Self {
        let certificate = stream.peer();
        Self { certificate, ..Self::new(Transport::Dialed(Box::new(stream)), peer) }
    }

    /// A connection of a task, which the agent at that address carries.
    pub fn carried(stream: DuplexStream, peer: SocketAddr, of_task: TaskAt) -> Self {
        Self { of_task: Some(Arc::new(of_task)), ..Self::new(Transport::Carried(stream), peer) }
    }

    fn new(carrier: Transport, peer: SocketAddr) -> Self {
        Self {
            carrier,
            peer,
            certificate: None,
            enrolls: false,
            stall_timeout: None,
            write_budget: WriteBudget::default(),
            of_task: None,
        }
    }

    /// What the peer has shown of itself; none without encryption, or where it had nothing to show.
    pub fn certificate(&self) -> Option<&Peer> {
        self.certificate.as_ref()
    }

    /// Whether the connection is only for a request for a certificate.
    pub fn enrolls(&self) -> bool {
        self.enrolls
    }

    /// The task at its other end, where one is, which has to show who it is whatever else is allowed.
    pub fn of_task(&self) -> Option<&Arc<TaskAt>> {
        self.of_task.as_ref()
    }

    /// Who is at its other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Sends small messages at once.
    pub fn set_nodelay(&self) -> io::Result<()> {
        self.tcp().map_or(Ok(()), |tcp| tcp.set_nodelay(true))
    }

    /// Lets the kernel find out that a silent peer is gone.
    pub fn set_keepalive(&self, keep_alive: KeepAlive) -> io::Result<()> {
        let keepalive = TcpKeepalive::new()
            .with_time(keep_alive.idle)
            .with_interval(keep_alive.interval)
            .with_retries(keep_alive.retries);
        self.tcp().map_or(Ok(()), |tcp| SockRef::from(tcp).set_tcp_keepalive(&keepalive))
    }

    /// Ends the connection when the peer's kernel has not acknowledged what was sent for this long.
    pub fn set_unacknowledged_max(&self, max: Duration) -> io::Result<()> {
        self.tcp().map_or(Ok(()), |tcp| SockRef::from(tcp).set_tcp_user_timeout(Some(max)))
    }

    /// Fails a write once it has made no progress for this long, except while it is exempt.
    pub fn set_write_stall_max(&mut self, max: Duration, exemption: StallExemption) {
        self.stall_timeout = Some(StallTimeout::new(max, exemption));
    }

    /// Fails a write that has waited for too long.
    fn judge(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &mut self.stall_timeout {
            Some(stall_timeout) => stall_timeout.judge(context, written),
            None => written,
        }
    }

    fn tcp(&self) -> Option<&TcpStream> {
        match &self.carrier {
            Transport::Plain(stream) => Some(stream),
            Transport::Encrypted(stream) => Some(stream.get_ref().0),
            Transport::Dialed(stream) => Some(stream.tcp()),
            Transport::Carried(_) => None,
        }
    }
}

/// Does the same with whatever carries a connection.
macro_rules! carried {
    ($stream:expr, $carrier:ident => $done:expr) => {
        match &mut $stream.get_mut().carrier {
            Transport::Plain(stream) => {
                let $carrier = Pin::new(stream);
                $done
            }
            Transport::Encrypted(stream) => {
                let $carrier = Pin::new(stream.as_mut());
                $done
            }
            Transport::Dialed(stream) => {
                let $carrier = Pin::new(stream.as_mut());
                $done
            }
            Transport::Carried(stream) => {
                let $carrier = Pin::new(stream);
                $done
            }
        }
    };
}

impl AsyncRead for NetStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        carried!(self, carrier => carrier.poll_read(context, buffer))
    }
}

impl AsyncWrite for NetStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.write_budget.poll(context));
        let bytes = write_budget::first_of(bytes);
        let written = carried!(self.as_mut(), carrier => carrier.poll_write(context, bytes));
        self.write_budget.wrote(&written);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let of_turn = write_budget::fitting(pieces);
        if let ([], Some(first)) = (of_turn, pieces.first()) {
            return self.poll_write(context, first);
        }
        ready!(self.write_budget.poll(context));
        let written = carried!(self.as_mut(), carrier => carrier.poll_write_vectored(context, of_turn));
        self.write_budget.wrote(&written);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.carrier {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Encrypted(stream) => stream.is_write_vectored(),
            Transport::Dialed(stream) => stream.is_write_vectored(),
            Transport::Carried(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        carried!(self, carrier => carrier.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        carried!(self, carrier => carrier.poll_shutdown(context))
    }
}
