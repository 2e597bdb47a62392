//! Reads a snapshot from a request, and checks all of it before anything is changed.

use std::{
    io::{self, Read},
    time::Duration,
};

use axum::body::Body;
use berth_model::store::{Store, snapshot};
use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::StatusCode;
use tokio::sync::mpsc;

use crate::http::failure::Failure;

/// Pieces that wait to be read.
const PIECES_WAITING_MAX: usize = 4;

/// Reads the snapshot in a body, of which a piece must come at least every `patience`.
///
/// # Errors
/// When it does not come whole, or is not what was written.
pub(super) async fn receive(body: Body, patience: Duration) -> Result<Store, Failure> {
    let (pieces, received) = mpsc::channel(PIECES_WAITING_MAX);
    let mut received = io::BufReader::new(BodyReader { received, piece: Bytes::new() });
    let reading = tokio::task::spawn_blocking(move || snapshot::read(&mut received));
    let passed_on = pass_on(body, pieces, patience).await;
    let store = reading.await.map_err(|_| Failure::bad_request("the snapshot cannot be read"))?;
    // That the connection broke says more than that the snapshot ends too early.
    passed_on?;
    store.map_err(|reason| Failure::bad_request(format!("{reason}: nothing was changed")))
}

async fn pass_on(mut body: Body, pieces: mpsc::Sender<Bytes>, patience: Duration) -> Result<(), Failure> {
    let silent = || {
        let text = format!("no further part of the snapshot arrived within {patience:?}");
        Failure::new(StatusCode::REQUEST_TIMEOUT, text)
    };
    while let Some(frame) = tokio::time::timeout(patience, body.frame()).await.map_err(|_| silent())? {
        let frame = frame.map_err(|error| Failure::bad_request(format!("read the snapshot: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if pieces.send(data).await.is_err() {
            // It was refused before its end.
            return Ok(());
        }
    }
    Ok(())
}

/// The pieces of a body, one after the other.
struct BodyReader {
    received: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.received.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let bytes = self.piece.len().min(buffer.len());
        self.piece.copy_to_slice(&mut buffer[..bytes]);
        Ok(bytes)
    }
}
