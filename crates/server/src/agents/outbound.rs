//! The send queue of one connection. Queued bytes are counted by connection and in total, so that slow readers cost a bounded
//! amount.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// Messages to one connection that may wait.
const MESSAGES_MAX: usize = 1 << 16;
/// Bytes queued for one connection, beyond which messages that can wait do.
const CONNECTION_BYTES_MAX: usize = 8 << 20;
/// Bytes queued for all connections, beyond which only connections with few queued bytes get more.
const ALL_BYTES_MAX: usize = 256 << 20;
/// Bytes that one connection may have queued while all together have too many.
const SMALL_BYTES: usize = 64 << 10;

/// Large messages that are made for one connection at a time.
const LARGE_MAX: usize = 4;

/// Bytes on their way to all connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllInFlight(Arc<AtomicUsize>);

/// Puts messages on their way. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Outbound {
    messages: mpsc::Sender<Bytes>,
    in_flight: Arc<InFlight>,
    ended: CancellationToken,
}

/// Takes messages off, to write them.
pub(crate) struct OutboundReader {
    messages: mpsc::Receiver<Bytes>,
    in_flight: Arc<InFlight>,
}

struct InFlight {
    bytes: AtomicUsize,
    all: AllInFlight,
    written: Notify,
    large: Arc<Semaphore>,
}

/// The connection has ended, or is about to.
#[derive(Debug)]
pub(crate) struct ConnectionClosed;

impl Outbound {
    /// The way out of a new connection, and its other end. `ended` ends the connection.
    pub fn new(all: &AllInFlight, ended: CancellationToken) -> (Self, OutboundReader) {
        let (sender, messages) = mpsc::channel(MESSAGES_MAX);
        let in_flight = Arc::new(InFlight {
            bytes: AtomicUsize::new(0),
            all: all.clone(),
            written: Notify::new(),
            large: Arc::new(Semaphore::new(LARGE_MAX)),
        });
        let outbound = Self { messages: sender, in_flight: in_flight.clone(), ended };
        (outbound, OutboundReader { messages, in_flight })
    }

    /// Whether a message would soon be written, instead of waiting behind many others.
    pub fn has_room(&self) -> bool {
        let own = self.in_flight.bytes.load(Ordering::Relaxed);
        let all = self.in_flight.all.0.load(Ordering::Relaxed);
        let is_short = self.messages.capacity() > MESSAGES_MAX / 2;
        is_short && own < CONNECTION_BYTES_MAX && (all < ALL_BYTES_MAX || own < SMALL_BYTES)
    }

    /// Waits until fewer bytes are queued than may be.
    pub async fn room(&self) {
        loop {
            // Registered before the check, so that no write in between is missed.
            let written = self.in_flight.written.notified();
            if self.in_flight.bytes.load(Ordering::Relaxed) < CONNECTION_BYTES_MAX {
                return;
            }
            written.await;
        }
    }

    /// Waits until a large message that is not urgent may be made, so that a connection that does not read has few of them queued. The
    /// permit is to be kept until the message was sent.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let turn = self.in_flight.large.clone().acquire_owned().await.ok();
        loop {
            let written = self.in_flight.written.notified();
            if self.has_room() {
                return turn;
            }
            written.await;
        }
    }

    /// Sends a message without waiting. A peer that is so far behind that there is no place for it loses the connection:
    /// it comes back and is sent everything.
    pub fn send_now(&self, message: Bytes) {
        self.in_flight.add(message.len());
        if let Err(error) = self.messages.try_send(message) {
            self.in_flight.remove(error.into_inner().len());
            self.end();
        }
    }

    /// Sends a message once there is a place for it.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn send(&self, message: Bytes) -> Result<(), ConnectionClosed> {
        let permit = self.messages.reserve().await.map_err(|_| ConnectionClosed)?;
        self.in_flight.add(message.len());
        permit.send(message);
        Ok(())
    }

    /// Ends the connection, with all its sessions.
    pub fn end(&self) {
        self.ended.cancel();
    }
}

impl OutboundReader {
    /// The next message; none when nobody can send any more.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.messages.recv().await
    }

    /// The next message if it is there.
    pub fn try_next(&mut self) -> Option<Bytes> {
        self.messages.try_recv().ok()
    }

    /// So many bytes have been written.
    pub fn written(&self, bytes: usize) {
        self.in_flight.remove(bytes);
        // Several may wait: what reads the connection, and answers that are made beside it.
        self.in_flight.written.notify_waiters();
    }
}

impl InFlight {
    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.all.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.all.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for InFlight {
    /// Bytes that were still queued when the connection ended count no more.
    fn drop(&mut self) {
        self.all.0.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_on_its_way_is_counted_until_it_is_written_or_the_connection_ends() {
        let all = AllInFlight::default();
        let (outbound, mut reader) = Outbound::new(&all, CancellationToken::new());
        let (other, _reader) = Outbound::new(&all, CancellationToken::new());
        outbound.send_now(Bytes::from(vec![0; CONNECTION_BYTES_MAX]));
        assert!(!outbound.has_room() && other.has_room());
        let message = reader.next().await.unwrap();
        reader.written(message.len());
        assert!(outbound.has_room());
        other.send_now(Bytes::from(vec![0; SMALL_BYTES]));
        assert!(other.has_room(), "far from what one may owe");
        outbound.send_now(Bytes::from(vec![0; ALL_BYTES_MAX]));
        assert!(!other.has_room(), "all together owe too much");
        drop((outbound, reader));
        assert!(other.has_room());
    }

    #[tokio::test]
    async fn all_that_wait_for_room_have_it_once_something_is_written() {
        let (outbound, mut reader) = Outbound::new(&AllInFlight::default(), CancellationToken::new());
        outbound.send_now(Bytes::from(vec![0; CONNECTION_BYTES_MAX]));
        let waiting = async { tokio::join!(outbound.room(), outbound.room(), outbound.room()) };
        let writing = async {
            tokio::task::yield_now().await;
            let message = reader.next().await.expect("it was sent");
            reader.written(message.len());
        };
        let both = async { tokio::join!(waiting, writing) };
        let outcome = tokio::time::timeout(std::time::Duration::from_secs(10), both).await;
        outcome.expect("none of them waits on");
    }

    #[tokio::test]
    async fn few_large_messages_are_made_at_a_time_and_none_while_much_is_owed() {
        let soon = std::time::Duration::from_millis(100);
        let late = std::time::Duration::from_secs(10);
        let (outbound, mut reader) = Outbound::new(&AllInFlight::default(), CancellationToken::new());
        let mut turns = Vec::new();
        for _ in 0..LARGE_MAX {
            turns.push(outbound.turn().await);
        }
        assert!(tokio::time::timeout(soon, outbound.turn()).await.is_err(), "the others are not sent yet");
        turns.clear();
        outbound.send_now(Bytes::from(vec![0; CONNECTION_BYTES_MAX]));
        let turn = outbound.turn();
        tokio::pin!(turn);
        assert!(tokio::time::timeout(soon, &mut turn).await.is_err(), "it is owed much");
        let message = reader.next().await.expect("it was sent");
        reader.written(message.len());
        assert!(tokio::time::timeout(late, turn).await.expect("it is owed nothing").is_some());
    }

    #[tokio::test]
    async fn a_peer_that_never_reads_loses_its_connection() {
        let ended = CancellationToken::new();
        let (outbound, _reader) = Outbound::new(&AllInFlight::default(), ended.clone());
        for _ in 0..MESSAGES_MAX {
            outbound.send_now(Bytes::from_static(b"x"));
        }
        assert!(!ended.is_cancelled());
        outbound.send_now(Bytes::from_static(b"x"));
        assert!(ended.is_cancelled());
    }
}
