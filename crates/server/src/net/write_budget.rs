//! How much a connection writes before its task yields. A write to a socket whose reader is fast never waits, so the task that sends a long
//! list would hold a thread of the runtime until all of the list is copied, for milliseconds times the number of such readers, and the
//! tasks behind it would wait.

use std::{
    io::{self, IoSlice},
    task::{Context, Poll},
};

/// Bytes that are written before others have a turn: some tens of microseconds.
pub(super) const TURN_BYTES_MAX: usize = 64 << 10;

/// What has been written since the task last yielded.
#[derive(Debug, Default)]
pub(super) struct WriteBudget {
    written: usize,
}

impl WriteBudget {
    /// Ready while more may be written. Otherwise the task yields: it is woken at once, and polled again after the others.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.written < TURN_BYTES_MAX {
            return Poll::Ready(());
        }
        self.written = 0;
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Counts a write. One that is pending yields anyway.
    pub fn wrote(&mut self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(bytes)) => self.written += bytes,
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.written = 0,
        }
    }
}

/// As much of what is to be written as one turn takes.
pub(super) fn first_of(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(TURN_BYTES_MAX)]
}

/// The same of several pieces: those that fit as a whole; none where the first does not.
pub(super) fn fitting<'p, 'b>(pieces: &'p [IoSlice<'b>]) -> &'p [IoSlice<'b>] {
    let mut bytes = 0;
    let fits = |piece: &&IoSlice<'_>| {
        bytes += piece.len();
        bytes <= TURN_BYTES_MAX
    };
    &pieces[..pieces.iter().take_while(fits).count()]
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        net::SocketAddr,
        pin::Pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
    };

    use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

    use super::{
        super::{NetStream, Transport},
        *,
    };

    const BYTES: usize = 16 * TURN_BYTES_MAX;

    /// A connection whose other end reads all that is written.
    fn roomy() -> (NetStream, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(BYTES);
        (NetStream::new(Transport::Carried(ours), SocketAddr::from(([127, 0, 0, 1], 1))), theirs)
    }

    fn numbered(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at % 251) as u8).collect()
    }

    async fn read_all(mut from: DuplexStream) -> Vec<u8> {
        let mut read = Vec::new();
        from.read_to_end(&mut read).await.expect("it was written");
        read
    }

    #[tokio::test]
    async fn a_long_write_yields_to_other_tasks() {
        let (mut stream, other_end) = roomy();
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = turns.clone();
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let bytes = numbered(BYTES);
        stream.write_all(&bytes).await.expect("there is room");
        let turns = turns.load(Relaxed);
        assert!(turns >= BYTES / TURN_BYTES_MAX - 1, "others had {turns} turns");
        other.abort();
        drop(stream);
        assert!(read_all(other_end).await == bytes);
    }

    #[tokio::test]
    async fn pieces_are_written_in_order_and_at_most_a_turn_of_them_at_once() {
        for of_piece in [1, 1000, TURN_BYTES_MAX / 2, TURN_BYTES_MAX, TURN_BYTES_MAX + 1, 3 * TURN_BYTES_MAX]
        {
            let (mut stream, other_end) = roomy();
            let bytes = numbered(5 * of_piece);
            let mut written = 0;
            while written < bytes.len() {
                let pieces: Vec<IoSlice<'_>> = bytes[written..].chunks(of_piece).map(IoSlice::new).collect();
                let write = poll_fn(|context| Pin::new(&mut stream).poll_write_vectored(context, &pieces));
                let more = write.await.expect("there is room");
                assert!(more > 0 && more <= TURN_BYTES_MAX, "{more} at once");
                written += more;
            }
            drop(stream);
            assert!(read_all(other_end).await == bytes, "pieces of {of_piece} bytes");
        }
    }
}
