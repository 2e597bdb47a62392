//! One read of the agent's own log: sends lines as they come, one piece at a time.

use std::sync::Arc;

use berth_api::agent::{AgentLogRead, FileChunk, Up};
use berth_api::{LogDetail, LogFeed, LogWatch};
use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};

/// Bytes of lines that are there already which one piece takes.
const PIECE_BYTES_MAX: usize = 64 << 10;

pub(super) struct OwnLogReader {
    pub(super) request: u64,
    pub(super) credit: Arc<Semaphore>,
    pub(super) up: mpsc::Sender<Up>,
}

impl OwnLogReader {
    /// Reads until the process ends its log; nothing where there are too many readers. Watches from when this is called.
    pub(super) fn run(
        self,
        options: Option<(&LogFeed, &AgentLogRead)>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let watch = watch(options);
        async move {
            let error = match watch {
                Ok(watch) => self.send_all(watch).await,
                Err(error) => error,
            };
            self.send(FileChunk { done: true, error, ..FileChunk::default() }).await;
        }
    }

    /// Sends the next piece once the last one was taken, so that a reader who is slow misses lines, which the feed counts, and holds
    /// no more than a piece. Answers why it ended.
    async fn send_all(&self, mut watch: LogWatch) -> String {
        let window = self.credit.available_permits().clamp(1, 2 * PIECE_BYTES_MAX);
        let all = u32::try_from(window).unwrap_or(u32::MAX);
        // The server learns from it that this agent sends its log.
        self.send(FileChunk::default()).await;
        while let Some(lines) = watch.next_lines(PIECE_BYTES_MAX).await {
            for piece in lines.chunks(window) {
                let Ok(permits) = self.credit.acquire_many(all).await else { return String::new() };
                permits.forget();
                self.credit.add_permits(window - piece.len());
                self.send(FileChunk { data: Bytes::copy_from_slice(piece), ..FileChunk::default() }).await;
            }
        }
        String::new()
    }

    async fn send(&self, chunk: FileChunk) {
        let chunk = FileChunk { request: self.request, ..chunk };
        // Fails when the connection is gone, and this future with it.
        let _ = self.up.send(Up::FileChunk(chunk)).await;
    }
}

fn watch(options: Option<(&LogFeed, &AgentLogRead)>) -> Result<LogWatch, String> {
    let (feed, options) = options.ok_or("too many readers")?;
    let detail = LogDetail::read(&options.level, options.json);
    let detail = detail.ok_or_else(|| format!("invalid: no level of the log is called {}", options.level))?;
    Ok(feed.watch(detail.format, detail.level))
}

#[cfg(test)]
mod tests {
    use berth_api::LogFormat;
    use tracing::Level;

    use super::*;

    struct Reader {
        feed: LogFeed,
        credit: Arc<Semaphore>,
        chunks: mpsc::Receiver<Up>,
    }

    impl Reader {
        fn of(options: &AgentLogRead, window: usize) -> Self {
            let feed = LogFeed::default();
            let (up, chunks) = mpsc::channel(64);
            let credit = Arc::new(Semaphore::new(window));
            let reading = OwnLogReader { request: 7, credit: credit.clone(), up };
            tokio::spawn(reading.run(Some((&feed, options))));
            Self { feed, credit, chunks }
        }

        async fn chunk(&mut self) -> FileChunk {
            match self.chunks.recv().await {
                Some(Up::FileChunk(chunk)) => chunk,
                other => panic!("no chunk: {other:?}"),
            }
        }
    }

    fn warnings() -> AgentLogRead {
        AgentLogRead { level: "WARN".to_owned(), json: false }
    }

    #[tokio::test]
    async fn a_reader_is_sent_lines_of_its_level_after_an_empty_chunk_until_the_log_ends() {
        let mut reader = Reader::of(&warnings(), 1 << 10);
        assert_eq!(reader.chunk().await, FileChunk { request: 7, ..FileChunk::default() });
        reader.feed.send(LogFormat::Text, Level::INFO, b"details\n");
        reader.feed.send(LogFormat::Text, Level::ERROR, b"a disk is gone\n");
        assert_eq!(reader.chunk().await.data, "a disk is gone\n");
        reader.feed.end();
        let last = reader.chunk().await;
        assert!(last.done && last.error.is_empty() && last.request == 7, "{last:?}");
    }

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_sent_no_second_piece() {
        let mut reader = Reader::of(&warnings(), 8);
        reader.chunk().await;
        reader.feed.send(LogFormat::Text, Level::WARN, b"0123456789\n");
        assert_eq!(reader.chunk().await.data, "01234567");
        for _ in 0..3 {
            tokio::task::yield_now().await;
            assert!(reader.chunks.try_recv().is_err(), "it was sent more than it may be");
        }
        reader.credit.add_permits(8);
        assert_eq!(reader.chunk().await.data, "89\n");
    }

    #[tokio::test]
    async fn an_unknown_level_is_refused_by_name() {
        let mut reader = Reader::of(&AgentLogRead { level: "loud".to_owned(), json: true }, 8);
        let refused = reader.chunk().await;
        assert!(refused.done);
        assert_eq!(refused.error, "invalid: no level of the log is called loud");
    }
}
