//! Reads frames from a connection. Each is bounded, and all connections share one memory budget, so that peers that begin large
//! frames and never finish them cost no more than that.

use std::{io, sync::Arc, time::Duration};

use berth_api::agent::{FRAME_BYTES_MAX, FrameDecoder, HELLO_BYTES_MAX, UpFrame};
use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// A connection that is silent for this long is taken for half open.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Until the first hello is complete.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// Until a frame that has begun is complete.
const FRAME_WITHIN: Duration = Duration::from_secs(30);
/// Bytes of a frame that need no share of the budget: what a connection may always hold.
const SMALL_BYTES: usize = 16 << 10;
/// Bytes of larger frames that are being read or are not dealt with yet, of all connections.
const LARGE_BYTES_MAX: usize = 128 << 20;
/// Bytes that reports take once they are decoded and not dealt with yet, of all connections: what is tiny on the wire may
/// be large in memory.
const DECODED_BYTES_MAX: usize = 128 << 20;
/// Of these, one frame's.
const DECODED_FRAME_BYTES_MAX: usize = 64 << 20;
/// The budget is counted in KiB: a semaphore's permits are few.
const KIB: usize = 1 << 10;

/// What all connections share.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    read: Arc<Semaphore>,
    /// Lock order: a frame that waits for this budget already holds its share of `read`, and none that holds a share of this one
    /// waits for `read`. So neither can block the other for good.
    decoded: Arc<Semaphore>,
}

impl Default for Budget {
    fn default() -> Self {
        let semaphore = |bytes: usize| Arc::new(Semaphore::new(bytes / KIB));
        Self { read: semaphore(LARGE_BYTES_MAX), decoded: semaphore(DECODED_BYTES_MAX) }
    }
}

/// A frame's share of the budget; given back when it is dropped, once what the frame says has been dealt with.
#[derive(Debug, Default)]
pub(crate) struct BudgetShare {
    _read: Option<OwnedSemaphorePermit>,
    _decoded: Option<OwnedSemaphorePermit>,
}

impl From<OwnedSemaphorePermit> for BudgetShare {
    fn from(permit: OwnedSemaphorePermit) -> Self {
        Self { _read: Some(permit), _decoded: None }
    }
}

impl Budget {
    /// Waits until what a frame says may be decoded, which takes so many bytes.
    ///
    /// # Errors
    /// When that is more than any frame may take, or others hold the budget for too long.
    pub async fn decode(&self, share: &mut BudgetShare, bytes: usize) -> io::Result<()> {
        if bytes > DECODED_FRAME_BYTES_MAX {
            let text = format!(
                "a report takes {bytes} bytes in memory, at most {DECODED_FRAME_BYTES_MAX} are taken in"
            );
            return Err(io::Error::other(text));
        }
        if bytes > SMALL_BYTES {
            share._decoded = Some(permit(&self.decoded, bytes).await?);
        }
        Ok(())
    }
}

async fn permit(budget: &Arc<Semaphore>, bytes: usize) -> io::Result<OwnedSemaphorePermit> {
    let permits = u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX);
    let permit = timeout(FRAME_WITHIN, budget.clone().acquire_many_owned(permits)).await;
    let busy =
        || io::Error::other(format!("no room for a frame of {bytes} bytes: other connections hold it"));
    permit.map_err(|_| busy())?.map_err(|_| busy())
}

/// Reads the frames of one connection.
pub(super) struct FrameReader<R> {
    reader: R,
    buffer: BytesMut,
    decoder: FrameDecoder,
    budget: Budget,
    welcomed: bool,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub fn new(reader: R, budget: Budget) -> Self {
        Self { reader, buffer: BytesMut::new(), decoder: FrameDecoder::default(), budget, welcomed: false }
    }

    /// A session has been opened: frames may be as large as the protocol allows.
    pub fn welcomed(&mut self) {
        self.welcomed = true;
    }

    /// The next frame; none at the end of the connection.
    ///
    /// # Errors
    /// When the peer is silent for too long, trickles, breaks the protocol, or the connection fails.
    pub async fn next(&mut self) -> io::Result<Option<(UpFrame, BudgetShare)>> {
        let begins_within = if self.welcomed { SILENCE_MAX } else { HELLO_WITHIN };
        if !timeout(begins_within, self.fill(4)).await.map_err(|_| silent("it said nothing"))?? {
            return Ok(None);
        }
        let length = *self.buffer.first_chunk::<4>().expect("four bytes have been read");
        let len = u32::from_be_bytes(length) as usize;
        let max = if self.welcomed { FRAME_BYTES_MAX } else { HELLO_BYTES_MAX };
        let is_large = (SMALL_BYTES..=max).contains(&len);
        let read = if is_large { Some(permit(&self.budget.read, len).await?) } else { None };
        let share = BudgetShare { _read: read, _decoded: None };
        if len <= max {
            let within = if self.welcomed { FRAME_WITHIN } else { HELLO_WITHIN };
            let whole = timeout(within, self.fill(4 + len)).await;
            if !whole.map_err(|_| silent("a frame was not complete in time"))?? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let frame = self.decoder.decode(&mut self.buffer, max).map_err(io::Error::other)?;
        if self.buffer.is_empty() {
            // What a large frame needed is given back.
            self.buffer = BytesMut::new();
        }
        Ok(frame.map(|frame| (frame, share)))
    }

    /// Reads until so many bytes are there; false when the connection ends before the first of them.
    async fn fill(&mut self, bytes: usize) -> io::Result<bool> {
        while self.buffer.len() < bytes {
            // What comes behind a frame is read along with it, within what a connection may always hold.
            self.buffer.reserve((bytes - self.buffer.len()).max(SMALL_BYTES));
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() {
                    Ok(false)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        }
        Ok(true)
    }
}

fn silent(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what.to_owned())
}

#[cfg(test)]
mod tests {
    use berth_api::agent::{Heartbeat, Up, encode_frame};
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn heartbeat() -> BytesMut {
        let mut out = BytesMut::new();
        let message = Some(Up::Heartbeat(Heartbeat::default()));
        encode_frame(&UpFrame { session: 7, message }, &mut out);
        out
    }

    #[tokio::test]
    async fn frames_come_whole_however_they_are_cut() {
        let (mut peer, reader) = tokio::io::duplex(3);
        let bytes = [heartbeat(), heartbeat()].concat();
        tokio::spawn(async move { peer.write_all(&bytes).await });
        let mut frames = FrameReader::new(reader, Budget::default());
        for _ in 0..2 {
            assert_eq!(frames.next().await.unwrap().unwrap().0.session, 7);
        }
        assert!(frames.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn before_a_hello_only_a_hello_is_large() {
        let (mut peer, reader) = tokio::io::duplex(64);
        peer.write_all(&u32::try_from(HELLO_BYTES_MAX + 1).unwrap().to_be_bytes()).await.unwrap();
        let mut frames = FrameReader::new(reader, Budget::default());
        let error = frames.next().await.unwrap_err().to_string();
        assert!(error.contains("over the limit of 262144 bytes"), "{error}");
    }

    #[tokio::test]
    async fn unfinished_frames_share_one_budget() {
        let budget = Budget::default();
        let length = u32::try_from(HELLO_BYTES_MAX).unwrap().to_be_bytes();
        let mut peers = Vec::new();
        let mut reading = tokio::task::JoinSet::new();
        for _ in 0..2 * LARGE_BYTES_MAX / HELLO_BYTES_MAX {
            let (mut peer, reader) = tokio::io::duplex(64);
            peer.write_all(&length).await.unwrap();
            peers.push(peer);
            let mut frames = FrameReader::new(reader, budget.clone());
            reading.spawn(async move { frames.next().await.map(|_| ()) });
        }
        let all_taken = async {
            while budget.read.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(FRAME_WITHIN / 2, all_taken).await.expect("they take all of it");
        assert_eq!(reading.len(), peers.len(), "half of them hold a share, half of them wait for one");
        reading.shutdown().await;
        assert_eq!(budget.read.available_permits(), LARGE_BYTES_MAX / KIB, "all is given back");
    }

    #[tokio::test]
    async fn what_is_decoded_has_a_budget_of_its_own() {
        let budget = Budget::default();
        let mut shares = [BudgetShare::default(), BudgetShare::default(), BudgetShare::default()];
        assert!(budget.decode(&mut shares[0], DECODED_FRAME_BYTES_MAX + 1).await.is_err());
        for share in &mut shares[..2] {
            budget.decode(share, DECODED_FRAME_BYTES_MAX).await.unwrap();
        }
        assert!(budget.decode(&mut shares[2], SMALL_BYTES).await.is_ok(), "what is small always fits");
        tokio::select! {
            biased;
            outcome = budget.decode(&mut shares[2], SMALL_BYTES + 1) => panic!("{outcome:?} while others hold it"),
            () = tokio::task::yield_now() => {}
        }
        drop(shares);
        assert_eq!(budget.decoded.available_permits(), DECODED_BYTES_MAX / KIB, "all is given back");
    }
}
