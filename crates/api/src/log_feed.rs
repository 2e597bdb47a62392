//! A feed of this process's log lines, for those who follow it over the HTTP API. It costs nothing without followers.

use std::{
    fmt,
    str::FromStr,
    sync::{Arc, Mutex},
};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use serde_json::json;
use tokio::sync::broadcast::{
    self,
    error::{RecvError, TryRecvError},
};
use tokio_util::sync::CancellationToken;
use tracing::{Level, level_filters::LevelFilter};

/// Lines that wait for a slow watcher.
const LOG_LINES_MAX: usize = 1_024;
/// Of one line; what is longer is cut.
const LOG_LINE_BYTES_MAX: usize = 8 << 10;

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For users, coloured on a terminal.
    #[default]
    Text,
    /// An object, for programs.
    Json,
}

impl LogFormat {
    /// The format for programs, or the one for users.
    pub fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

impl FromStr for LogFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(()),
        }
    }
}

/// Which lines of a log are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogDetail {
    /// Lines of this level, and more severe ones.
    pub level: Level,
    /// How they are written.
    pub format: LogFormat,
}

impl LogDetail {
    /// From what crosses a wire; none when no level has that name.
    pub fn read(level: &str, json: bool) -> Option<Self> {
        Some(Self { level: level.parse().ok()?, format: LogFormat::of(json) })
    }

    /// Whether lines are objects.
    pub fn is_json(self) -> bool {
        self.format == LogFormat::Json
    }
}

/// Takes lines of the log, and gives them to whoever watches. The default has no log behind it, and nothing to give.
#[derive(Clone)]
pub struct LogFeed(Arc<FeedShared>);

struct FeedShared {
    text: FormatFeed,
    json: FormatFeed,
    ended: CancellationToken,
    set_level: Box<dyn Fn(LogFormat, LevelFilter) + Send + Sync>,
}

/// One format, and who watches it.
struct FormatFeed {
    lines: broadcast::Sender<LogLine>,
    /// What each of them asked for.
    levels: Mutex<Vec<Level>>,
}

#[derive(Debug, Clone)]
struct LogLine {
    level: Level,
    text: Bytes,
}

impl LogFeed {
    /// A feed that says through `set_level` down to which level it wants lines of a format: off while nobody watches that.
    /// What is called must not log: it holds a lock.
    pub fn new(set_level: impl Fn(LogFormat, LevelFilter) + Send + Sync + 'static) -> Self {
        Self(Arc::new(FeedShared {
            text: FormatFeed::new(),
            json: FormatFeed::new(),
            ended: CancellationToken::new(),
            set_level: Box::new(set_level),
        }))
    }

    /// Takes a whole line, with its end.
    pub fn send(&self, format: LogFormat, level: Level, line: &[u8]) {
        let lines = &self.form(format).lines;
        if lines.receiver_count() > 0 {
            // The last one may have gone meanwhile.
            let _ = lines.send(LogLine { level, text: bounded(format, line) });
        }
    }

    /// Says that the server stops: each watcher gets the lines that are there, and then the end.
    pub fn end(&self) {
        self.0.ended.cancel();
    }

    /// Watches lines of a level, and of those more severe, from now on.
    pub fn watch(&self, format: LogFormat, level: Level) -> LogWatch {
        let lines = self.form(format).lines.subscribe();
        self.change(format, |levels| levels.push(level));
        LogWatch { feed: self.clone(), format, level, lines }
    }

    fn form(&self, format: LogFormat) -> &FormatFeed {
        match format {
            LogFormat::Text => &self.0.text,
            LogFormat::Json => &self.0.json,
        }
    }

    /// Changes what is watched. The level is set while the lock is held: of two who change it, the later one has the last word.
    fn change(&self, format: LogFormat, change: impl FnOnce(&mut Vec<Level>)) {
        let mut levels = self.form(format).levels.lock().expect("nothing panics while it holds this lock");
        let before = most_detailed(&levels);
        change(&mut levels);
        let after = most_detailed(&levels);
        if before != after {
            (self.0.set_level)(format, after);
        }
    }
}

fn most_detailed(levels: &[Level]) -> LevelFilter {
    levels.iter().max().map_or(LevelFilter::OFF, |level| LevelFilter::from_level(*level))
}

impl Default for LogFeed {
    fn default() -> Self {
        Self::new(|_, _| {})
    }
}

impl fmt::Debug for LogFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFeed").finish_non_exhaustive()
    }
}

impl FormatFeed {
    fn new() -> Self {
        Self { lines: broadcast::Sender::new(LOG_LINES_MAX), levels: Mutex::default() }
    }
}

/// One who watches, until it is dropped.
#[derive(Debug)]
pub struct LogWatch {
    feed: LogFeed,
    format: LogFormat,
    level: Level,
    lines: broadcast::Receiver<LogLine>,
}

impl LogWatch {
    /// The next line, with its end; of one that was too slow, how many it may have missed. None after the last one.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.receive().await {
                Ok(line) if line.level <= self.level => return Some(line.text),
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => {
                    // Lines for other watchers, of levels that this one does not see, are counted, too.
                    let what =
                        format!("up to {missed} lines are missing here: they were not read fast enough");
                    return Some(notice(self.format, &what));
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// The next line and those that are there already, until they are `bytes_max` or more. None after the last one.
    pub async fn next_lines(&mut self, bytes_max: usize) -> Option<Bytes> {
        let first = self.next().await?;
        let mut lines = BytesMut::from(first);
        while lines.len() < bytes_max {
            match self.next().now_or_never() {
                Some(Some(line)) => lines.extend_from_slice(&line),
                // What has ended says so again.
                Some(None) | None => break,
            }
        }
        Some(lines.freeze())
    }

    /// What comes next. A feed that has ended is closed once nothing waits: this holds the other end of the channel, which
    /// thus never closes.
    async fn receive(&mut self) -> Result<LogLine, RecvError> {
        tokio::select! {
            biased;
            received = self.lines.recv() => received,
            () = self.feed.0.ended.cancelled() => self.lines.try_recv().map_err(|error| match error {
                TryRecvError::Lagged(missed) => RecvError::Lagged(missed),
                TryRecvError::Empty | TryRecvError::Closed => RecvError::Closed,
            }),
        }
    }
}

impl Drop for LogWatch {
    fn drop(&mut self) {
        self.feed.change(self.format, |levels| {
            if let Some(own) = levels.iter().position(|level| *level == self.level) {
                levels.swap_remove(own);
            }
        });
    }
}

/// A line that is not too long. One of JSON is replaced as a whole: half an object is none.
fn bounded(format: LogFormat, line: &[u8]) -> Bytes {
    if line.len() <= LOG_LINE_BYTES_MAX {
        return Bytes::copy_from_slice(line);
    }
    if format == LogFormat::Json {
        let what =
            format!("a line of {} bytes is left out; the longest has {LOG_LINE_BYTES_MAX}", line.len());
        return notice(format, &what);
    }
    let head = String::from_utf8_lossy(&line[..LOG_LINE_BYTES_MAX]);
    format!("{} ... (cut: {} bytes)\n", head.trim_end_matches('\u{fffd}'), line.len()).into()
}

/// A line about the lines.
fn notice(format: LogFormat, what: &str) -> Bytes {
    match format {
        LogFormat::Text => format!(" WARN berth monitor: {what}\n").into(),
        LogFormat::Json => {
            format!("{}\n", json!({ "level": "WARN", "message": what, "target": "berth_monitor" })).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &Bytes) -> String {
        String::from_utf8(line.to_vec()).expect("it is text")
    }

    #[test]
    fn the_log_is_as_detailed_as_the_most_curious_watcher_wants_and_off_without_one() {
        let (sender, set) = std::sync::mpsc::channel();
        let feed = LogFeed::new(move |format, level| sender.send((format, level)).expect("it is read"));
        let set = || set.try_iter().map(|(format, level)| format!("{format:?} {level}")).collect::<Vec<_>>();
        let first = feed.watch(LogFormat::Text, Level::INFO);
        assert_eq!(set(), ["Text info"]);
        let other = feed.watch(LogFormat::Text, Level::WARN);
        assert_eq!(set(), [""; 0]);
        let curious = feed.watch(LogFormat::Text, Level::TRACE);
        let json = feed.watch(LogFormat::Json, Level::ERROR);
        assert_eq!(set(), ["Text trace", "Json error"]);
        drop((curious, first));
        assert_eq!(set(), ["Text info", "Text warn"]);
        drop((other, json));
        assert_eq!(set(), ["Text off", "Json off"]);
    }

    #[tokio::test]
    async fn a_watcher_sees_its_level_and_hears_how_many_lines_it_missed() {
        let feed = LogFeed::default();
        let mut watch = feed.watch(LogFormat::Text, Level::WARN);
        feed.send(LogFormat::Text, Level::INFO, b"info\n");
        feed.send(LogFormat::Json, Level::WARN, b"json\n");
        feed.send(LogFormat::Text, Level::ERROR, b"error\n");
        assert_eq!(watch.next().await.expect("a line"), "error\n");
        for number in 0..LOG_LINES_MAX + 7 {
            feed.send(LogFormat::Text, Level::WARN, format!("{number}\n").as_bytes());
        }
        let missed = " WARN berth monitor: up to 7 lines are missing here: they were not read fast enough\n";
        assert_eq!(watch.next().await.expect("a line"), missed);
        assert_eq!(watch.next().await.expect("a line"), "7\n");
    }

    #[tokio::test]
    async fn lines_that_are_there_come_together_up_to_a_size() {
        let feed = LogFeed::default();
        let mut watch = feed.watch(LogFormat::Text, Level::INFO);
        for line in [b"one\n", b"two\n", b"six\n"] {
            feed.send(LogFormat::Text, Level::INFO, line);
        }
        assert_eq!(watch.next_lines(5).await.expect("lines"), "one\ntwo\n");
        assert_eq!(watch.next_lines(5).await.expect("lines"), "six\n");
        feed.end();
        assert_eq!(watch.next_lines(5).await, None);
    }

    #[tokio::test]
    async fn long_lines_are_cut_between_letters_and_objects_left_out() {
        let feed = LogFeed::default();
        let (mut of_text, mut of_json) =
            (feed.watch(LogFormat::Text, Level::INFO), feed.watch(LogFormat::Json, Level::INFO));
        let long = format!("x{}\n", "ä".repeat(LOG_LINE_BYTES_MAX));
        feed.send(LogFormat::Text, Level::INFO, long.as_bytes());
        feed.send(LogFormat::Json, Level::INFO, long.as_bytes());
        let cut = text(&of_text.next().await.expect("a line"));
        assert!(cut.starts_with("xä") && cut.ends_with("ä ... (cut: 16386 bytes)\n"), "{}", &cut[8_000..]);
        assert!(cut.len() < LOG_LINE_BYTES_MAX + 40);
        let left_out: serde_json::Value =
            serde_json::from_str(&text(&of_json.next().await.expect("a line"))).expect("an object");
        assert_eq!(left_out["message"], "a line of 16386 bytes is left out; the longest has 8192");
    }

    #[tokio::test]
    async fn a_feed_that_ends_gives_what_is_there_and_then_the_end() {
        let feed = LogFeed::default();
        let mut watch = feed.watch(LogFormat::Text, Level::INFO);
        feed.send(LogFormat::Text, Level::INFO, b"one\n");
        feed.send(LogFormat::Text, Level::DEBUG, b"details\n");
        feed.send(LogFormat::Text, Level::INFO, b"the last\n");
        feed.end();
        assert_eq!(watch.next().await.expect("a line"), "one\n");
        assert_eq!(watch.next().await.expect("a line"), "the last\n");
        assert_eq!(watch.next().await, None);
        let mut late = feed.watch(LogFormat::Text, Level::INFO);
        assert_eq!(late.next().await, None);
    }
}
