//! The log as it is watched through the HTTP API: the same events as text and as JSON. It costs nothing while nobody watches.

use std::io;

use berth_api::{LogFeed, LogFormat};
use tracing::{Level, Metadata, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    fmt::{MakeWriter, writer::BoxMakeWriter},
    reload,
};

use super::{BoxedLayer, lines};

/// The feed, and the layers that write to it.
pub(super) fn watched() -> (LogFeed, [BoxedLayer; 2]) {
    let (text_filter, text) = reload::Layer::<_, Registry>::new(offered(LevelFilter::OFF));
    let (json_filter, json) = reload::Layer::<_, Registry>::new(offered(LevelFilter::OFF));
    let feed = LogFeed::new(move |format, level| {
        let filter = match format {
            LogFormat::Text => &text,
            LogFormat::Json => &json,
        };
        // It fails only once the log is gone, and with it the process.
        let _ = filter.reload(offered(level));
    });
    let layer = |format, filter: reload::Layer<Targets, Registry>| {
        let writer = BoxMakeWriter::new(FeedWriters { feed: feed.clone(), format });
        lines(format, writer, false).with_filter(filter).boxed()
    };
    let layers = [layer(LogFormat::Text, text_filter), layer(LogFormat::Json, json_filter)];
    (feed, layers)
}

/// What watchers are offered at a level: details of Berth itself, of libraries only what is wrong. They log what they do to send
/// these very lines, and the consensus engine may log what the entries hold, which is not for everybody who may read the log.
fn offered(level: LevelFilter) -> Targets {
    Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("berth", level)
        .with_target("openraft", level.min(LevelFilter::ERROR))
}

/// Makes a writer for each event, which knows its level.
struct FeedWriters {
    feed: LogFeed,
    format: LogFormat,
}

struct FeedWriter<'l> {
    lines: &'l FeedWriters,
    level: Level,
}

impl<'l> MakeWriter<'l> for FeedWriters {
    type Writer = FeedWriter<'l>;

    fn make_writer(&'l self) -> FeedWriter<'l> {
        FeedWriter { lines: self, level: Level::ERROR }
    }

    fn make_writer_for(&'l self, meta: &Metadata<'_>) -> FeedWriter<'l> {
        FeedWriter { lines: self, level: *meta.level() }
    }
}

impl io::Write for FeedWriter<'_> {
    /// A line is written at once, whole.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.lines.feed.send(self.lines.format, self.level, line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchers_are_offered_details_of_berth_and_of_libraries_what_is_wrong() {
        let offers = |level, target, of: Level| offered(level).would_enable(target, &of);
        assert!(offers(LevelFilter::TRACE, "berth_server::http", Level::TRACE));
        assert!(!offers(LevelFilter::INFO, "berth_server::http", Level::DEBUG));
        assert!(offers(LevelFilter::TRACE, "h2::proto", Level::WARN));
        assert!(!offers(LevelFilter::TRACE, "h2::proto", Level::INFO));
        assert!(!offers(LevelFilter::ERROR, "h2::proto", Level::WARN));
        assert!(!offers(LevelFilter::TRACE, "openraft::core", Level::WARN));
        for target in ["berth_server", "openraft", "h2"] {
            assert!(!offers(LevelFilter::OFF, target, Level::ERROR), "{target}");
        }
    }
}
