//! `berth logs -f JOB`: what all allocations of a job print, each line with the name of who printed it. Allocations that
//! come later are followed, too.

use std::{collections::BTreeSet, io::IsTerminal, time::Duration};

use berth_api::http::AllocationStub;
use futures_util::{
    future::{FutureExt, LocalBoxFuture},
    stream::{FuturesUnordered, StreamExt},
};
use tokio::{sync::mpsc, time::interval};

use super::lines::Lines;
use crate::{
    commands::alloc::LogOptions,
    failure::{Exit, Failure},
    output::{Palette, RawOutput, Tone, clean, short_id, tell},
    remote::Remote,
};

/// Tasks that are followed at a time: each has a stream of its own.
const FOLLOWED_MAX: usize = 64;
/// How often new allocations are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Lines that wait to be printed.
const WAITING_MAX: usize = 256;
/// Ends whatever colour a task has begun.
const PLAIN: &[u8] = b"\x1b[0m";

/// Who is being read, each until its task has ended.
type Readers = FuturesUnordered<LocalBoxFuture<'static, Result<(), Failure>>>;

/// A line, and who printed it: its number among all that are followed.
struct Line {
    source: usize,
    text: Vec<u8>,
}

/// Whether a job has more to follow than one task's output.
pub(super) async fn has_several(remote: &Remote, job: &str, options: &LogOptions) -> Result<bool, Failure> {
    let alive = alive(remote, job).await?;
    match &alive[..] {
        [] => Ok(false),
        [only] => Ok(options.task().is_none() && tasks(remote, only, options).await?.len() > 1),
        _ => Ok(true),
    }
}

/// Follows them until all have ended.
pub(super) async fn follow(remote: &Remote, job: &str, options: &LogOptions) -> Result<(), Failure> {
    let (lines, mut printed) = mpsc::channel(WAITING_MAX);
    let mut followed = Followed { lines, seen: BTreeSet::new(), names: Vec::new(), told: false };
    let mut readers = Readers::new();
    let mut look = interval(LOOK_EVERY);
    let mut out = RawOutput::stdout();
    loop {
        tokio::select! {
            // What was printed before a reader ended is printed first.
            biased;
            Some(line) = printed.recv() => out.write(&followed.shown(&line))?,
            Some(ended) = readers.next() => {
                if let Err(failure) = ended {
                    tell(&failure.to_string().trim_end().replace('\n', " "));
                }
            }
            _ = look.tick() => {
                let alive = alive(remote, job).await?;
                if alive.is_empty() && readers.is_empty() {
                    return Ok(());
                }
                for alloc in alive {
                    followed.begin(remote, &alloc, options, &mut readers).await?;
                }
            }
        }
    }
}

/// Who is followed.
struct Followed {
    lines: mpsc::Sender<Line>,
    /// Ids of allocations.
    seen: BTreeSet<String>,
    /// As they stand before lines.
    names: Vec<String>,
    /// That there are too many.
    told: bool,
}

impl Followed {
    async fn begin(
        &mut self,
        remote: &Remote,
        alloc: &AllocationStub,
        options: &LogOptions,
        readers: &mut Readers,
    ) -> Result<(), Failure> {
        if self.seen.contains(&alloc.id) {
            return Ok(());
        }
        let tasks = tasks(remote, alloc, options).await?;
        if readers.len() + tasks.len() > FOLLOWED_MAX {
            if !std::mem::replace(&mut self.told, true) {
                tell(&format!(
                    "more than {FOLLOWED_MAX} tasks print: the others are followed as these end; `berth logs -f ALLOC` \
                     follows one"
                ));
            }
            return Ok(());
        }
        self.seen.insert(alloc.id.clone());
        for task in tasks {
            let source = self.names.len();
            self.names.push(format!("{} {}", short_name(alloc), clean(&task)));
            let (remote, alloc, options) = (remote.clone(), alloc.id.clone(), options.clone());
            readers.push(read(remote, alloc, task, options, source, self.lines.clone()).boxed_local());
        }
        Ok(())
    }

    fn shown(&self, line: &Line) -> Vec<u8> {
        let width = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let name = format!("{:width$} |", self.names[line.source]);
        let palette = Palette::of(&std::io::stdout());
        let mut shown = palette.paint(&name, Tone::Nth(line.source)).into_bytes();
        shown.push(b' ');
        shown.extend_from_slice(&line.text);
        if std::io::stdout().is_terminal() {
            shown.extend_from_slice(PLAIN);
        }
        shown.push(b'\n');
        shown
    }
}

async fn read(
    remote: Remote,
    alloc: String,
    task: String,
    options: LogOptions,
    source: usize,
    to: mpsc::Sender<Line>,
) -> Result<(), Failure> {
    let mut lines = Lines::default();
    let read = options.read(&remote, &alloc, &task, async |piece: Vec<u8>| {
        for text in lines.take(&piece) {
            // Nobody prints any more: the process is about to end.
            let _ = to.send(Line { source, text }).await;
        }
        Ok(())
    });
    let read = read.await;
    if let Some(text) = lines.rest() {
        let _ = to.send(Line { source, text }).await;
    }
    read
}

/// A job's allocations that have not ended.
async fn alive(remote: &Remote, job: &str) -> Result<Vec<AllocationStub>, Failure> {
    let mut allocs = match remote.job_allocations(job).await {
        Err(failure) if failure.exit() == Exit::NotFound => Vec::new(),
        allocs => allocs?,
    };
    allocs.retain(|alloc| matches!(alloc.client_status.as_str(), "pending" | "running"));
    allocs.sort_by_key(|alloc| alloc.create_index);
    Ok(allocs)
}

/// The tasks of an allocation that are to be followed: the one that was named, or all.
async fn tasks(
    remote: &Remote,
    alloc: &AllocationStub,
    options: &LogOptions,
) -> Result<Vec<String>, Failure> {
    let names = remote.allocation(&alloc.id).await?.task_resources.into_keys();
    Ok(names.filter(|name| options.task().is_none_or(|task| task == name)).collect())
}

/// What tells it from others of its job: `front[0] 1a2b3c4d`.
fn short_name(alloc: &AllocationStub) -> String {
    let name = alloc.name.strip_prefix(&format!("{}.", alloc.job_id)).unwrap_or(&alloc.name);
    format!("{} {}", clean(name), short_id(&alloc.id))
}
