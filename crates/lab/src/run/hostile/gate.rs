//! A connection that is not read until its gate is opened: what arrives meanwhile stays in the sender's buffers.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// What the system may take of a connection ahead of its reader once the gate is open.
const AHEAD_BYTES: usize = 1 << 20;

/// A connection, and what it waits for before it reads.
pub(super) struct GatedStream {
    stream: TcpStream,
    /// None once the gate is open.
    gate: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl GatedStream {
    /// It reads nothing until `gate` completes. It writes at any time.
    pub fn new(stream: TcpStream, gate: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { stream, gate: Some(Box::pin(gate)) }
    }
}

impl AsyncRead for GatedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(gate) = &mut self.gate {
            ready!(gate.as_mut().poll(context));
            self.gate = None;
            // Through a window of a few KiB even a reader in a hurry is slow.
            set_socket_recv_buffer_size(&self.stream, AHEAD_BYTES)?;
        }
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for GatedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        sync::oneshot,
    };

    use super::*;

    #[tokio::test]
    async fn nothing_is_read_before_the_gate_is_open_and_all_after() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let (open, opened) = oneshot::channel();
        let mut gated = GatedStream::new(stream, async { opened.await.unwrap() });
        gated.write_all(b"asked").await.unwrap();
        let (mut asked, mut answer) = ([0; 5], [0; 8]);
        server.read_exact(&mut asked).await.unwrap();
        server.write_all(b"answered").await.unwrap();
        tokio::select! {
            biased;
            read = gated.read(&mut answer) => panic!("{read:?} bytes were read through a gate that is shut"),
            () = tokio::task::yield_now() => {}
        }
        open.send(()).unwrap();
        gated.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"answered");
    }
}
