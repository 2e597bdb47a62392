//! Connections of clients and agents, whatever carries them, and how many of them one address may have.

mod per_address;
mod stall;

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

pub use per_address::Share;
pub(crate) use per_address::{Counted, PerAddress};
pub(crate) use stall::Leisure;
use stall::Patience;

/// A connection and who is at its other end. Whoever serves it does not know what carries it.
#[derive(Debug)]
pub(crate) struct Stream {
    carrier: Carrier,
    peer: SocketAddr,
    /// None where the peer may take as long as it likes.
    patience: Option<Patience>,
}

/// What carries a connection.
#[derive(Debug)]
enum Carrier {
    Plain(TcpStream),
}

/// When a silent peer is taken for gone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeepAlive {
    /// A peer that is silent for this long is asked whether it is still there.
    pub idle: Duration,
    /// How often it is asked.
    pub interval: Duration,
    /// After so many questions without an answer it is gone.
    pub retries: u32,
}

impl Stream {
    /// A connection without encryption.
    pub fn plain(stream: TcpStream, peer: SocketAddr) -> Self {
        Self { carrier: Carrier::Plain(stream), peer, patience: None }
    }

    /// Who is at its other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Sends small messages at once.
    pub fn set_nodelay(&self) -> io::Result<()> {
        self.tcp().set_nodelay(true)
    }

    /// Lets the kernel find out that a silent peer is gone.
    pub fn set_keepalive(&self, keep_alive: KeepAlive) -> io::Result<()> {
        let keepalive = TcpKeepalive::new()
            .with_time(keep_alive.idle)
            .with_interval(keep_alive.interval)
            .with_retries(keep_alive.retries);
        SockRef::from(self.tcp()).set_tcp_keepalive(&keepalive)
    }

    /// Ends the connection when the peer's kernel has not acknowledged what was sent for this long.
    pub fn set_unacknowledged_max(&self, max: Duration) -> io::Result<()> {
        SockRef::from(self.tcp()).set_tcp_user_timeout(Some(max))
    }

    /// Fails a write once it has made no progress for this long, unless there is leisure.
    pub fn set_write_stall_max(&mut self, max: Duration, leisure: Leisure) {
        self.patience = Some(Patience::new(max, leisure));
    }

    /// Fails a write that has waited for too long.
    fn judge(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &mut self.patience {
            Some(patience) => patience.judge(context, written),
            None => written,
        }
    }

    /// Sends what the kernel takes at once, before anything else was sent.
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        SockRef::from(self.tcp()).send(bytes)
    }

    fn tcp(&self) -> &TcpStream {
        match &self.carrier {
            Carrier::Plain(stream) => stream,
        }
    }

    fn carrier(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        match &mut self.get_mut().carrier {
            Carrier::Plain(stream) => Pin::new(stream),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.carrier().poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().carrier().poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().carrier().poll_write_vectored(context, pieces);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.carrier().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.carrier().poll_shutdown(context)
    }
}
