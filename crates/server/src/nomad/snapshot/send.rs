//! Sends a snapshot of the state.

use std::io::{self, Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use berth_model::store::{Store, snapshot};
use hyper::header::{HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use super::BYTES;
use crate::http::{
    call::{Call, Reply},
    failure::Failure,
    reply,
    stream::{self, Closed, StreamWriter},
};

/// What clients check a snapshot against.
const DIGEST: HeaderName = HeaderName::from_static("digest");
/// Bytes sent in one piece.
const PIECE_BYTES: usize = 256 << 10;

/// `GET /v1/operator/snapshot`: as the state is now, while it goes on changing.
pub(in crate::nomad) async fn save(call: Call) -> Reply {
    let view = call.view();
    let store = view.to_copy()?.clone();
    // Written twice, so that its digest can stand before it and nothing of it has to be kept.
    let summed = store.clone();
    let digest = call.api.heavy.run(move || digest(&summed)).await;
    let mut response = stream::stream(&call, BYTES, |writer| async {
        let write = move || {
            let mut pieces = PieceSender { writer, piece: Vec::new() };
            snapshot::write(&store, &mut pieces).and_then(|()| pieces.flush())
        };
        // Whoever stops reading has stopped wanting it.
        tokio::task::spawn_blocking(write).await.map_err(|_| Closed)?.map_err(|_| Closed)
    })?;
    let headers = response.headers_mut();
    reply::stamp(headers, view.index(), &view);
    headers.insert(DIGEST, digest.map_err(|error| Failure::unwritten(&error))?);
    Ok(response)
}

fn digest(store: &Store) -> io::Result<HeaderValue> {
    let mut sum = HashWriter(Sha256::new());
    snapshot::write(store, &mut sum)?;
    let text = format!("sha-256={}", STANDARD.encode(sum.0.finalize()));
    HeaderValue::from_str(&text).map_err(io::Error::other)
}

/// Sums up what is written, and keeps nothing.
struct HashWriter(Sha256);

impl Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends what is written, in large pieces, as fast as the client takes them.
struct PieceSender {
    writer: StreamWriter,
    piece: Vec<u8>,
}

impl Write for PieceSender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        self.writer.send_blocking(piece).map_err(|Closed| io::ErrorKind::BrokenPipe.into())
    }
}
