//! Sends a snapshot's file to another server, in pieces of which a few are on their way at a time. What has arrived there
//! before a connection ended is not sent again.

use std::{collections::VecDeque, io::Read, sync::Arc, time::Duration};

use super::wire::{self, SnapshotBegin, SnapshotChunk, SnapshotEnd, SnapshotReply};
use crate::{
    disk::Disk,
    peer::{
        conn::{CallError, Conn, PendingCall},
        frame::Method,
        link::PeerLink,
    },
    runtime::{Runtime, engine::AsyncRuntime},
    snapshot::{self, PREAMBLE_BYTES, SnapshotImage},
    types::Vote,
};

/// Of a file, in one frame; less in tests, so that small states have many.
const PIECE_BYTES: usize = if cfg!(test) { 4 << 10 } else { 256 << 10 };
/// Pieces on their way and not yet on the other server's disk.
const PIECES_MAX: usize = 4;
/// How long the other server may take to write one.
const PIECE_ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long it may take to check and to load the whole.
const INSTALL_MAX: Duration = Duration::from_secs(600);

type File = Box<dyn Read + Send>;

/// Sends a snapshot, and waits until it has taken the place of the other server's state.
///
/// # Errors
/// When the connection ends, or the other server refuses; a later attempt goes on where this one ended.
pub(super) async fn send<R: Runtime>(
    link: &PeerLink,
    disk: &Arc<dyn Disk>,
    vote: Vote,
    image: SnapshotImage,
) -> Result<SnapshotEnd, CallError> {
    let meta = image.meta.clone();
    // The file stays readable when newer snapshots have taken its place.
    let opened = on_disk::<R, _>(disk, move |disk| {
        let bytes = disk.len(&image.path)?;
        let preamble = disk.read_at(&image.path, 0, PREAMBLE_BYTES)?;
        Ok((disk.stream(&image.path)?, bytes, preamble))
    });
    let (file, bytes, preamble) = opened.await?;
    let conn = link.conn::<R>().await?;
    let begin = SnapshotBegin::new(&meta, bytes, preamble);
    let pending = conn.call(Method::SnapshotBegin, |out| wire::put(&begin, out))?;
    let offset = received::<R>(pending).await?;
    pieces::<R>(&conn, disk, file, offset, bytes).await?;
    let end = conn.call(Method::SnapshotEnd, |out| wire::put(&SnapshotEnd { vote: vote.into() }, out))?;
    let answer = answered::<R>(end, INSTALL_MAX).await?;
    wire::get(&answer).map_err(CallError::Unknown)
}

/// Whether a snapshot is as it was written. Reads all of it.
///
/// # Errors
/// What is wrong with it.
pub(super) async fn verify<R: Runtime>(disk: &Arc<dyn Disk>, image: SnapshotImage) -> Result<(), String> {
    let disk = Arc::clone(disk);
    let verified = R::blocking(move || snapshot::verify(&*disk, &image.path)).await;
    verified.map_err(|error| error.to_string())?.map(drop).map_err(|error| error.to_string())
}

async fn pieces<R: Runtime>(
    conn: &Arc<Conn>,
    disk: &Arc<dyn Disk>,
    mut file: File,
    mut offset: u64,
    end: u64,
) -> Result<(), CallError> {
    let skipped = offset;
    file = on_disk::<R, _>(disk, move |_| {
        std::io::copy(&mut (&mut file).take(skipped), &mut std::io::sink())?;
        Ok(file)
    })
    .await?;
    let mut on_their_way: VecDeque<PendingCall> = VecDeque::new();
    while offset < end {
        if on_their_way.len() == PIECES_MAX
            && let Some(first) = on_their_way.pop_front()
        {
            received::<R>(first).await?;
        }
        let bytes;
        (file, bytes) = on_disk::<R, _>(disk, move |_| {
            let mut bytes = vec![0; usize::try_from(end - offset).unwrap_or(PIECE_BYTES).min(PIECE_BYTES)];
            file.read_exact(&mut bytes)?;
            Ok((file, bytes))
        })
        .await?;
        let sent = bytes.len() as u64;
        let piece = SnapshotChunk { offset, bytes };
        on_their_way.push_back(conn.call(Method::SnapshotPiece, |out| wire::put(&piece, out))?);
        offset += sent;
    }
    for last in on_their_way {
        received::<R>(last).await?;
    }
    Ok(())
}

/// How much the other server has, in bytes.
async fn received<R: Runtime>(pending: PendingCall) -> Result<u64, CallError> {
    let answer = answered::<R>(pending, PIECE_ANSWER_MAX).await?;
    let SnapshotReply { bytes } = wire::get(&answer).map_err(CallError::Unknown)?;
    Ok(bytes)
}

async fn answered<R: Runtime>(pending: PendingCall, patience: Duration) -> Result<bytes::Bytes, CallError> {
    let late = || CallError::Unknown(format!("a snapshot: no answer within {} s", patience.as_secs()));
    R::Async::timeout(patience, pending).await.unwrap_or_else(|_| Err(late()))
}

async fn on_disk<R: Runtime, T: Send + 'static>(
    disk: &Arc<dyn Disk>,
    work: impl FnOnce(&dyn Disk) -> std::io::Result<T> + Send + 'static,
) -> Result<T, CallError> {
    let disk = Arc::clone(disk);
    let done = R::blocking(move || work(&*disk)).await.flatten();
    done.map_err(|error| CallError::NotSent(format!("read a snapshot: {error}")))
}
