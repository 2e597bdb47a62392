//! Timeouts of stalled writes: a client that never reads must not hold a response in memory forever.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Sleep, sleep};

/// Exempts a connection from the timeout for as long as it is set: a person may look at a stream without reading on, and a stream holds
/// little memory meanwhile.
#[derive(Debug, Clone, Default)]
pub(crate) struct StallExemption(Arc<AtomicBool>);

impl StallExemption {
    /// Sets or clears the exemption.
    pub fn set(&self, exempt: bool) {
        self.0.store(exempt, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long writes may make no progress.
#[derive(Debug)]
pub(super) struct StallTimeout {
    max: Duration,
    exemption: StallExemption,
    /// When the timeout is over; none while writes make progress.
    ends: Option<Pin<Box<Sleep>>>,
}

impl StallTimeout {
    pub fn new(max: Duration, exemption: StallExemption) -> Self {
        Self { max, exemption, ends: None }
    }

    /// What came of a write: one that has waited for too long fails.
    pub fn judge(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() || self.exemption.is_set() {
            self.ends = None;
            return written;
        }
        let ends = self.ends.get_or_insert_with(|| Box::pin(sleep(self.max)));
        std::task::ready!(ends.as_mut().poll(context));
        let text = format!("the peer has read nothing for {:?}", self.max);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::super::NetStream;
    use super::*;

    /// More than kernels keep for a peer that does not read.
    const BYTES: usize = 64 << 20;

    async fn pair(stall_max: Duration) -> (NetStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let client =
            TcpStream::connect(listener.local_addr().expect("it listens")).await.expect("it listens");
        let (accepted, peer) = listener.accept().await.expect("it was connected");
        let mut stream = NetStream::plain(accepted, peer);
        stream.set_write_stall_max(stall_max, StallExemption::default());
        (stream, client)
    }

    #[tokio::test]
    async fn a_write_that_is_exempt_may_stall_for_any_time() {
        let (mut stream, mut client) = pair(Duration::from_millis(1)).await;
        let exemption = StallExemption::default();
        stream.set_write_stall_max(Duration::from_millis(1), exemption.clone());
        exemption.set(true);
        let bytes = vec![0; BYTES];
        let mut writing = tokio::spawn(async move {
            let written = stream.write_all(&bytes).await;
            (stream, written)
        });
        let outcome = tokio::time::timeout(Duration::from_millis(200), &mut writing).await;
        assert!(outcome.is_err(), "nobody reads, and it waits");
        let mut read = vec![0; BYTES];
        client.read_exact(&mut read).await.expect("it goes on");
        writing.await.expect("it ends well").1.expect("it is read");
    }

    #[tokio::test]
    async fn a_write_that_nobody_reads_ends() {
        let (mut stream, _client) = pair(Duration::from_millis(20)).await;
        let error = stream.write_all(&vec![0; BYTES]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_write_that_is_read_goes_on() {
        let (mut stream, mut client) = pair(Duration::from_secs(3600)).await;
        let read = tokio::spawn(async move {
            let mut bytes = Vec::new();
            client.read_to_end(&mut bytes).await.map(|_| bytes.len())
        });
        stream.write_all(&vec![0; BYTES]).await.expect("it is read");
        drop(stream);
        assert_eq!(read.await.expect("it ends well").expect("it is read"), BYTES);
    }
}
