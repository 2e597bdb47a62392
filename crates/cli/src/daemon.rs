//! What `berth dev`, `berth server` and `berth agent` share: an async runtime, a log on standard error, and a shutdown on signals.

mod log_feed;

use std::{io, path::Path};

use berth_api::LogFeed;
pub use berth_api::LogFormat;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use tokio::{
    runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt::writer::BoxMakeWriter, layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::{
    failure::{Exit, Failure},
    output::Palette,
    panics,
    settings::{Role, Settings},
};

/// After so many turns of tasks a thread of the runtime looks for what has come in, however much is still to be done: where
/// all are busy
/// with long answers, a short request waits for this many turns before anybody knows of it. A look takes about a microsecond.
const TURNS_PER_LOOK: u32 = 16;

/// Runs a long-running command, which may have its log watched.
pub fn run<W>(settings: &Settings, work: impl FnOnce(LogFeed) -> W) -> Result<(), Failure>
where
    W: Future<Output = Result<(), Failure>>,
{
    panics::withhold_messages();
    let (feed, watched) = log_feed::watched();
    log_to(watched, loudness(settings.log_level, settings.role), settings.log_format);
    leave_no_core();
    berth_server::bound_heaps();
    let mut threads = runtime::Builder::new_multi_thread();
    threads.enable_all().event_interval(TURNS_PER_LOOK).build()?.block_on(work(feed))
}

/// Lets the kernel write no core of this process, whose memory holds keys, tokens and secrets of tasks, and lets nobody of
/// its user look
/// into it. Programs that it starts do not inherit that.
fn leave_no_core() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "could not disable core dumps of this process");
    }
}

/// The data directory of a command that never goes without.
pub fn data_dir(settings: &Settings) -> Result<&Path, Failure> {
    let dir = settings.data_dir.as_deref();
    let dir = dir.ok_or_else(|| Failure::new(Exit::Usage, "no data directory is set"))?;
    is_directory(dir)?;
    Ok(dir)
}

/// Refuses a data directory that is something else.
pub fn is_directory(dir: &Path) -> Result<(), Failure> {
    if dir.exists() && !dir.is_dir() {
        let text = format!("--data-dir: {} is not a directory", dir.display());
        return Err(Failure::new(Exit::Usage, text));
    }
    Ok(())
}

/// Lets the process open as many files as it may ask for: each connection is one, and each keeper of an agent. Tasks do not
/// inherit it.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, ?limit, "could not raise the limit of open files");
    }
}

/// The host's name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Logs to standard error from now on.
pub fn log_to_stderr(level: LevelFilter, format: LogFormat) {
    log_to([], loudness(level, Role::Agent), format);
}

/// Logs to standard error and to these from now on.
fn log_to<const MORE: usize>(more: [BoxedLayer; MORE], loudness: Targets, format: LogFormat) {
    let colors = Palette::of(&io::stderr()) == Palette::Ansi;
    let lines = lines(format, BoxMakeWriter::new(io::stderr), colors);
    let layers: Vec<_> = [lines.with_filter(loudness).boxed()].into_iter().chain(more).collect();
    tracing_subscriber::registry().with(layers).init();
}

fn lines(format: LogFormat, writer: BoxMakeWriter, colors: bool) -> BoxedLayer {
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colors);
    match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
        }
    }
}

/// The log level of each target. The consensus engine reports each of its steps as information, and warns at each try to reach a server
/// that is gone, which the server itself says once: only who looks for mistakes in it wants to read that. What this host lacks is in
/// the one line that `berth dev` prints of it: a new user who is not root meets no page of warnings before that.
fn loudness(level: LevelFilter, role: Role) -> Targets {
    let engine = if level > LevelFilter::INFO { level } else { level.min(LevelFilter::ERROR) };
    let host = if role == Role::Dev { engine } else { level };
    let targets = Targets::new().with_default(level).with_target("openraft", engine);
    targets.with_target(berth_agent::HOST_LOG_TARGET, host)
}

/// The signals that ask a process to end: an interrupt from the keyboard, a request, a closed terminal.
pub struct StopSignal {
    interrupt: Signal,
    terminate: Signal,
    /// None where it asks for something else.
    hangup: Option<Signal>,
    stdin_closed: Option<oneshot::Receiver<()>>,
}

impl StopSignal {
    /// From now on the signals end nothing by themselves.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: Some(signal(SignalKind::hangup())?),
            stdin_closed: None,
        })
    }

    /// Gives the hangup away: from now on it ends nothing, and asks whoever has it to read its files again.
    pub fn take_hangup(&mut self) -> Option<Signal> {
        self.hangup.take()
    }

    /// If asked to, takes the end of standard input for a signal, too: the process that holds its other end is gone.
    pub fn or_end_of_stdin(mut self, watches_stdin: bool) -> Self {
        self.stdin_closed = watches_stdin.then(stdin_closed);
        self
    }

    /// Waits for the next one.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = received(&mut self.hangup) => {}
            () = stdin_end(&mut self.stdin_closed) => {}
        }
    }

    /// Waits until a person insists, at the keyboard. Other requests to end may well come twice, from a process group
    /// and its leader.
    pub async fn wait_for_insistence(&mut self) {
        self.interrupt.recv().await;
    }
}

/// Completes when a signal comes; never where there is none to wait for.
pub async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Reads on a thread of its own: a read of standard input cannot be called off.
fn stdin_closed() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = sender.send(());
    });
    receiver
}

async fn stdin_end(stdin_closed: &mut Option<oneshot::Receiver<()>>) {
    match stdin_closed {
        Some(closed) => drop(closed.await),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use std::sync::{Arc, Mutex};

    use berth_agent::HOST_LOG_TARGET;

    use super::*;

    /// What a subscriber of a format writes.
    fn written(format: LogFormat, events: impl FnOnce()) -> String {
        #[derive(Clone, Default)]
        struct Written(Arc<Mutex<Vec<u8>>>);
        impl io::Write for Written {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().expect("no one panics").write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::registry().with(lines(
            format,
            BoxMakeWriter::new(move || writer.clone()),
            false,
        ));
        tracing::subscriber::with_default(subscriber, events);
        let bytes = written.0.lock().expect("no one panics").clone();
        String::from_utf8(bytes).expect("it is text")
    }

    #[test]
    fn each_line_of_a_json_log_is_an_object_with_the_fields_of_its_event() {
        let text = "two\nlines, \"quoted\"";
        let log = written(LogFormat::Json, || {
            tracing::info!(job = "web", allocations = 3, "a job was registered");
            tracing::warn!(error = text, "a disk is slow");
        });
        let lines: Vec<serde_json::Value> =
            log.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        let [first, second] = &lines[..] else { panic!("two lines: {log}") };
        assert_eq!(first["level"], "INFO");
        assert_eq!(first["message"], "a job was registered");
        assert_eq!((&first["job"], &first["allocations"]), (&"web".into(), &3.into()));
        assert!(first["timestamp"].is_string() && first["target"].is_string(), "{first}");
        assert_eq!((&second["level"], &second["error"]), (&"WARN".into(), &text.into()));
    }

    #[test]
    fn a_text_log_has_a_line_for_each_event() {
        let log = written(LogFormat::Text, || tracing::info!(job = "web", "a job was registered"));
        assert!(log.ends_with("a job was registered job=\"web\"\n"), "{log}");
        assert!(!log.contains('\x1b') && log.contains(" INFO "), "{log}");
    }

    #[test]
    fn the_consensus_engine_logs_only_at_a_higher_level() {
        let enabled = |level, target| loudness(level, Role::Server).would_enable(target, &Level::INFO);
        assert!(enabled(LevelFilter::INFO, "berth_server"));
        assert!(!enabled(LevelFilter::INFO, "openraft::core"));
        assert!(enabled(LevelFilter::DEBUG, "openraft::core"));
        assert!(!enabled(LevelFilter::WARN, "berth_server"));
    }

    #[test]
    fn what_a_host_lacks_is_logged_by_agents_and_only_on_request_beside_the_summary_of_dev() {
        let is_logged = |level, role| loudness(level, role).would_enable(HOST_LOG_TARGET, &Level::WARN);
        assert!(is_logged(LevelFilter::WARN, Role::Agent));
        assert!(!is_logged(LevelFilter::WARN, Role::Dev));
        assert!(is_logged(LevelFilter::DEBUG, Role::Dev));
    }
}
