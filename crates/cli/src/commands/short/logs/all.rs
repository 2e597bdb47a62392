//! `berth logs JOB`: the output of all allocations of a job, each line with the name of its task. When they are followed, so are
//! allocations that start later, however soon they end.

use std::{collections::BTreeSet, io::IsTerminal, time::Duration};

use berth_api::http::{Allocation, AllocationStub, Time};
use futures_util::{
    future::{FutureExt, LocalBoxFuture},
    stream::{FuturesUnordered, StreamExt},
};
use tokio::{
    sync::mpsc,
    time::{interval, sleep},
};

use super::lines::LineSplitter;
use crate::{
    commands::alloc::LogOptions,
    failure::{Exit, Failure},
    output::{Palette, RawOutput, Tone, clean, eprint_line, short_id},
    remote::Remote,
};

/// Tasks that are followed at a time: each has a stream of its own.
const FOLLOWED_MAX: usize = 64;
/// Between two polls for new allocations.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Lines that wait to be printed.
const WAITING_MAX: usize = 256;
/// How often a stream that broke off is taken up again without any progress, and how long after.
const TRIES_MAX: u32 = 10;
const PAUSE: Duration = Duration::from_secs(1);
/// Ends whatever colour a task has begun.
const PLAIN: &[u8] = b"\x1b[0m";

/// The streams that are being read, each until its task has ended.
type Readers = FuturesUnordered<LocalBoxFuture<'static, Result<(), Failure>>>;

/// The allocations whose output is printed.
pub(super) enum LogScope {
    /// The id of a job: of all its allocations.
    Job(String),
    /// The id of an allocation.
    Alloc(String),
}

/// An allocation with output.
struct LogSource {
    id: String,
    /// Its name without its job's.
    name: String,
    has_ended: bool,
}

impl LogScope {
    /// Those that there are by now, the oldest first.
    async fn printers(&self, remote: &Remote) -> Result<Vec<LogSource>, Failure> {
        match self {
            Self::Job(job) => Ok(allocs(remote, job).await?.iter().map(LogSource::of).collect()),
            Self::Alloc(alloc) => {
                let Allocation { id, name, job_id, client_status, .. } = remote.allocation(alloc).await?;
                Ok(vec![LogSource::new(id, &name, &job_id, &client_status)])
            }
        }
    }
}

impl LogSource {
    fn of(alloc: &AllocationStub) -> Self {
        Self::new(alloc.id.clone(), &alloc.name, &alloc.job_id, &alloc.client_status)
    }

    fn new(id: String, name: &str, job: &str, status: &str) -> Self {
        let name = name.strip_prefix(&format!("{job}.")).unwrap_or(name).to_owned();
        Self { id, name, has_ended: !matches!(status, "pending" | "running") }
    }

    /// What distinguishes it from others of its job: `front[0] 1a2b3c4d`.
    fn short_name(&self) -> String {
        format!("{} {}", clean(&self.name), short_id(&self.id))
    }
}

/// A line, and who printed it: its number among all that are followed.
struct LogLine {
    source: usize,
    text: Vec<u8>,
}

/// Whether a job has more to follow than one task's output.
pub(super) async fn has_several(remote: &Remote, job: &str, options: &LogOptions) -> Result<bool, Failure> {
    let mut alive = LogScope::Job(job.to_owned()).printers(remote).await?;
    alive.retain(|printer| !printer.has_ended);
    match &alive[..] {
        [] => Ok(false),
        [only] => Ok(options.task().is_none() && tasks(remote, &only.id, options).await?.len() > 1),
        _ => Ok(true),
    }
}

/// Prints these streams of what has not ended, and where they are followed, of what comes until all have ended.
pub(super) async fn print(
    remote: &Remote,
    scope: &LogScope,
    options: &LogOptions,
    streams: &[&'static str],
) -> Result<(), Failure> {
    let (lines, mut printed) = mpsc::channel(WAITING_MAX);
    let mut followed =
        FollowedTasks { lines, streams, seen: BTreeSet::new(), names: Vec::new(), noted: false };
    // What ended before is not printed, unless it was named.
    let mut printers = scope.printers(remote).await?;
    if let LogScope::Job(_) = scope {
        followed.seen.extend(printers.iter().filter(|found| found.has_ended).map(|found| found.id.clone()));
    }
    let mut readers = Readers::new();
    let mut poll = interval(POLL_EVERY);
    let mut out = RawOutput::stdout();
    loop {
        tokio::select! {
            // What was printed before a reader ended is printed first.
            biased;
            Some(line) = printed.recv() => out.write(&followed.prefixed(&line))?,
            Some(ended) = readers.next() => {
                if let Err(failure) = ended {
                    eprint_line(&failure.to_string().trim_end().replace('\n', " "));
                }
            }
            _ = poll.tick() => {
                if options.follows() {
                    printers = scope.printers(remote).await?;
                }
                for printer in &printers {
                    followed.begin(remote, printer, options, &mut readers).await?;
                }
                let more = options.follows() && printers.iter().any(|printer| !printer.has_ended);
                if readers.is_empty() && !more && printers.iter().all(|printer| followed.seen.contains(&printer.id)) {
                    return Ok(());
                }
            }
        }
    }
}

/// The tasks whose output is followed.
struct FollowedTasks<'a> {
    lines: mpsc::Sender<LogLine>,
    streams: &'a [&'static str],
    /// Ids of allocations whose tasks are read, or are not to be.
    seen: BTreeSet<String>,
    /// The prefixes of lines.
    names: Vec<String>,
    /// Whether it was reported that there are too many.
    noted: bool,
}

impl FollowedTasks<'_> {
    async fn begin(
        &mut self,
        remote: &Remote,
        printer: &LogSource,
        options: &LogOptions,
        readers: &mut Readers,
    ) -> Result<(), Failure> {
        if self.seen.contains(&printer.id) {
            return Ok(());
        }
        let tasks = match tasks(remote, &printer.id, options).await {
            // It was garbage-collected meanwhile.
            Err(failure) if failure.exit() == Exit::NotFound => Vec::new(),
            tasks => tasks?,
        };
        // One that has more by itself is read once it is alone.
        if !readers.is_empty() && readers.len() + tasks.len() * self.streams.len() > FOLLOWED_MAX {
            if !std::mem::replace(&mut self.noted, true) {
                eprint_line(&format!(
                    "more than {FOLLOWED_MAX} streams: the others are read as these end; `berth logs ALLOC` reads one \
                     allocation's"
                ));
            }
            return Ok(());
        }
        self.seen.insert(printer.id.clone());
        for (task, stream) in
            tasks.iter().flat_map(|task| self.streams.iter().map(move |stream| (task, *stream)))
        {
            let source = self.names.len();
            let of_several = if self.streams.len() > 1 { format!(" {stream}") } else { String::new() };
            self.names.push(format!("{} {}{of_several}", printer.short_name(), clean(task)));
            let (remote, alloc, options) = (remote.clone(), printer.id.clone(), options.clone());
            let of = (task.clone(), stream);
            readers.push(read(remote, alloc, of, options, source, self.lines.clone()).boxed_local());
        }
        Ok(())
    }

    fn prefixed(&self, line: &LogLine) -> Vec<u8> {
        let width = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let name = format!("{:width$} |", self.names[line.source]);
        let palette = Palette::of(&std::io::stdout());
        let mut prefixed = palette.paint(&name, Tone::Nth(line.source)).into_bytes();
        prefixed.push(b' ');
        prefixed.extend_from_slice(&line.text);
        if std::io::stdout().is_terminal() {
            prefixed.extend_from_slice(PLAIN);
        }
        prefixed.push(b'\n');
        prefixed
    }
}

/// Reads one stream to its end; one that breaks off goes on where it stopped.
async fn read(
    remote: Remote,
    alloc: String,
    (task, stream): (String, &'static str),
    options: LogOptions,
    source: usize,
    to: mpsc::Sender<LogLine>,
) -> Result<(), Failure> {
    let (mut lines, mut from, mut tries) = (LineSplitter::default(), None, 0);
    let read = loop {
        let before = from;
        let read = options.read(&remote, &alloc, (&task, stream), &mut from, async |chunk: Vec<u8>| {
            for text in lines.take(&chunk) {
                // Nobody prints any more: the process is about to end.
                let _ = to.send(LogLine { source, text }).await;
            }
            Ok(())
        });
        let Err(failure) = read.await else { break Ok(()) };
        // Nothing is wrong with a task that comes after others.
        if from.is_none() && awaits_its_turn(&remote, &alloc, &task).await {
            break Ok(());
        }
        tries = if from == before { tries + 1 } else { 1 };
        if !options.follows() || tries >= TRIES_MAX || !may_come_back(&failure) {
            break Err(failure);
        }
        eprint_line(&format!("{}: trying again", failure.to_string().trim_end().replace('\n', " ")));
        sleep(PAUSE).await;
    };
    if let Some(text) = lines.rest() {
        let _ = to.send(LogLine { source, text }).await;
    }
    read
}

/// Whether the task has not begun, so that it has no log.
async fn awaits_its_turn(remote: &Remote, alloc: &str, task: &str) -> bool {
    let Ok(alloc) = remote.allocation(alloc).await else { return false };
    let state = alloc.task_states.as_ref().and_then(|tasks| tasks.get(task));
    state.is_some_and(|state| state.started_at == Time(0) && !state.failed)
}

/// What was refused, or is not there, is the same the next time.
fn may_come_back(failure: &Failure) -> bool {
    matches!(failure.exit(), Exit::Failed | Exit::Unreachable | Exit::TimedOut)
}

/// A job's allocations, the oldest first; none where there is no such job any more.
async fn allocs(remote: &Remote, job: &str) -> Result<Vec<AllocationStub>, Failure> {
    let mut allocs = match remote.job_allocations(job).await {
        Err(failure) if failure.exit() == Exit::NotFound => Vec::new(),
        allocs => allocs?,
    };
    allocs.sort_by_key(|alloc| alloc.create_index);
    Ok(allocs)
}

/// The tasks of an allocation that are to be followed: the one that was named, or all.
async fn tasks(remote: &Remote, alloc: &str, options: &LogOptions) -> Result<Vec<String>, Failure> {
    let names = remote.allocation(alloc).await?.task_resources.into_keys();
    Ok(names.filter(|name| options.task().is_none_or(|task| task == name)).collect())
}
