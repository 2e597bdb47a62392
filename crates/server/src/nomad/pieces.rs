//! Sends pieces of logs and files to a client, as frames or as plain bytes.

use std::time::Duration;

use berth_api::http::StreamFrame;

use crate::{
    http::stream::{Closed, StreamWriter},
    shared::{AgentError, ReadPiece, ReadPieces},
};

/// How often a stream of frames says that it still lives.
const HEARTBEAT_MS: u64 = 1_000;

/// Each piece as a line; an error is the last one.
pub(super) async fn write_frames(writer: StreamWriter, mut pieces: ReadPieces) -> Result<(), Closed> {
    let beat = Some(Duration::from_millis(HEARTBEAT_MS));
    while let Some(piece) = writer.wait(beat, pieces.recv()).await? {
        match piece {
            Ok(piece) => writer.line(&frame(piece)).await?,
            Err(error) => {
                let frame = StreamFrame { file_event: format!("error: {error}"), ..StreamFrame::default() };
                return writer.line(&frame).await;
            }
        }
    }
    Ok(())
}

fn frame(piece: ReadPiece) -> StreamFrame {
    // An empty piece says that the reader still lives, as an empty frame does.
    if piece.data.is_empty() && piece.event.is_empty() {
        return StreamFrame::default();
    }
    let ReadPiece { offset, data, file, event } = piece;
    StreamFrame { offset, data: data.into(), file, file_event: event }
}

/// The bytes alone, of which `first` has come already. An error cuts the connection.
pub(super) async fn write_plain(
    writer: StreamWriter,
    first: Option<ReadPiece>,
    mut pieces: ReadPieces,
) -> Result<(), Closed> {
    let mut next: Option<Result<ReadPiece, AgentError>> = first.map(Ok);
    loop {
        let piece = match next.take() {
            Some(piece) => Some(piece),
            None => writer.wait(None, pieces.recv()).await?,
        };
        match piece {
            Some(Ok(piece)) if piece.data.is_empty() => {}
            Some(Ok(piece)) => writer.send(piece.data).await?,
            Some(Err(error)) => return writer.break_off(error).await,
            None => return Ok(()),
        }
    }
}
