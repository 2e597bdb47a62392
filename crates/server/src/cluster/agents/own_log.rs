//! The log of this server in pieces, for another server.

use berth_api::{LogDetail, LogFeed, LogWatch};
use tokio::sync::mpsc;

use crate::shared::{AgentError, ReadPiece, ReadPieces};

/// Bytes of waiting lines that go into one piece.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// Pieces that wait; lines beyond that wait in the feed, which counts those that it drops.
const PIECES_MAX: usize = 1;

/// The lines of this server's log from now on, until nobody takes them or the feed ends.
pub(super) fn follow(feed: &LogFeed, detail: LogDetail) -> ReadPieces {
    let watch = feed.watch(detail.format, detail.level);
    let (pieces, receiver) = mpsc::channel(PIECES_MAX);
    tokio::spawn(carry(watch, pieces));
    receiver
}

async fn carry(mut watch: LogWatch, pieces: mpsc::Sender<Result<ReadPiece, AgentError>>) {
    loop {
        let lines = tokio::select! {
            lines = watch.next_lines(PIECE_BYTES_MAX) => lines,
            () = pieces.closed() => return,
        };
        let Some(data) = lines else { return };
        let piece = ReadPiece { offset: 0, data, file: String::new(), event: String::new() };
        if pieces.send(Ok(piece)).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as std_mpsc;

    use berth_api::LogFormat;
    use tracing::Level;

    use super::*;

    #[tokio::test]
    async fn lines_come_in_pieces_and_the_log_is_quiet_again_once_nobody_takes_them() {
        let (sender, set) = std_mpsc::channel();
        let feed = LogFeed::new(move |_, level| sender.send(level.to_string()).expect("it is read"));
        let mut pieces = follow(&feed, LogDetail { level: Level::INFO, format: LogFormat::Text });
        feed.send(LogFormat::Text, Level::INFO, b"one\n");
        feed.send(LogFormat::Text, Level::DEBUG, b"details\n");
        feed.send(LogFormat::Text, Level::WARN, b"two\n");
        let mut seen = Vec::new();
        while !seen.ends_with(b"two\n") {
            let piece = pieces.recv().await.expect("it goes on").expect("it does not fail");
            seen.extend_from_slice(&piece.data);
        }
        assert_eq!(seen, b"one\ntwo\n");
        drop(pieces);
        let set = tokio::task::spawn_blocking(move || [set.recv(), set.recv()]).await.expect("no panic");
        assert_eq!(set, [Ok("info".to_owned()), Ok("off".to_owned())]);
    }
}
