//! `berth alloc logs`: the output of a task.

use berth_api::http::StreamFrame;
use clap::Args;

use super::{OfJobArgs, tail};
use crate::{
    complete,
    failure::{Exit, Failure},
    output::{RawOutput, clean, eprint_line},
    remote::{Remote, StreamRead, StreamSource, StreamStart, only_task},
};

/// The event of a file that has become shorter than the offset that was read.
const TRUNCATED: &str = "file truncated";
/// Lines shown with `-tail` by default.
const TAIL_LINES: usize = 10;

/// Arguments of `alloc logs`.
#[derive(Debug, Args)]
pub struct AllocLogsArgs {
    /// Id or prefix of the allocation; with -job that of a job
    #[arg(value_name = "ALLOC|JOB", add = complete::jobs_or_allocations())]
    id: String,
    #[command(flatten)]
    of_job: OfJobArgs,
    #[command(flatten)]
    options: LogOptions,
}

impl AllocLogsArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let alloc = self.of_job.find(remote, &self.id).await?;
        self.options.print(remote, &alloc).await
    }
}

/// Which part of an allocation's output to read.
#[derive(Debug, Clone, Args)]
pub struct LogOptions {
    /// Task; optional if there is only one
    #[arg(value_name = "TASK", conflicts_with = "named")]
    task: Option<String>,
    /// Task, as an option
    #[arg(id = "named", long = "task", value_name = "TASK")]
    named: Option<String>,
    /// Follow the output until the task has ended
    #[arg(long, short)]
    follow: bool,
    /// Standard output, which it is in any case
    #[arg(long, conflicts_with = "stderr", hide = true)]
    stdout: bool,
    /// Standard error instead of standard output
    #[arg(long)]
    stderr: bool,
    /// Start with the last lines
    #[arg(long)]
    tail: bool,
    /// Start with this many of the last lines
    #[arg(short = 'n', value_name = "LINES")]
    lines: Option<usize>,
    /// Start with this many of the last bytes
    #[arg(short = 'c', value_name = "BYTES", conflicts_with_all = ["lines", "tail"])]
    bytes: Option<u64>,
}

impl LogOptions {
    /// Prints what is wanted of the allocation with this whole id.
    pub async fn print(&self, remote: &Remote, alloc: &str) -> Result<(), Failure> {
        let task = self.task_of(remote, alloc).await?;
        let mut out = RawOutput::stdout();
        let mut from = None;
        self.read(remote, alloc, (&task, self.stream()), &mut from, async |bytes: Vec<u8>| {
            Ok(out.write(&bytes)?)
        })
        .await
    }

    /// Reads what is wanted of a stream of a task's output. `from` is where it goes on, none at first: whoever reads again
    /// after a failure misses nothing.
    pub async fn read(
        &self,
        remote: &Remote,
        alloc: &str,
        (task, stream): (&str, &'static str),
        from: &mut Option<u64>,
        mut take: impl AsyncFnMut(Vec<u8>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let source = StreamSource::Log { task, stream };
        let start = match (*from, self.bytes) {
            (None, Some(bytes)) => StreamStart::BeforeEnd(bytes),
            (from, _) => StreamStart::Offset(from.unwrap_or(0)),
        };
        let mut read = StreamRead { alloc, source, from: start, follow: self.follow };
        if from.is_none()
            && let Some(lines) = self.lines.or(self.tail.then_some(TAIL_LINES))
        {
            let end = tail::last_lines(remote, &read, lines).await?;
            take(end.bytes).await?;
            *from = Some(end.offset);
            read.from = StreamStart::Offset(end.offset);
            if !self.follow {
                return Ok(());
            }
        }
        let mut frames = remote.stream(&read).await?;
        while let Some(frame) = frames.next().await? {
            let offset = frame.offset;
            let bytes = data(frame)?;
            *from = Some(offset + bytes.len() as u64);
            take(bytes).await?;
        }
        Ok(())
    }

    /// The name of the stream to read.
    pub fn stream(&self) -> &'static str {
        if self.stderr { "stderr" } else { "stdout" }
    }

    /// Whether to follow what is written from now on.
    pub fn follows(&self) -> bool {
        self.follow
    }

    /// The task that was named.
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref().or(self.named.as_deref())
    }

    async fn task_of(&self, remote: &Remote, alloc: &str) -> Result<String, Failure> {
        let alloc = remote.allocation(alloc).await?;
        let tasks: Vec<_> = alloc.task_resources.keys().map(String::as_str).collect();
        Ok(only_task(&tasks, self.task())?.to_owned())
    }
}

/// Prints a log or a file until it ends.
pub async fn print(remote: &Remote, read: &StreamRead<'_>, out: &mut RawOutput) -> Result<(), Failure> {
    let mut frames = remote.stream(read).await?;
    while let Some(frame) = frames.next().await? {
        out.write(&data(frame)?)?;
    }
    Ok(())
}

/// The bytes of a frame, or why the stream ends with it.
pub(super) fn data(frame: StreamFrame) -> Result<Vec<u8>, Failure> {
    match frame.file_event.as_str() {
        "" => {}
        // It goes on with the new beginning.
        TRUNCATED => eprint_line("the file was cut, and is read from its beginning"),
        event => return Err(Failure::new(Exit::Failed, format!("it ends here: {}", clean(event)))),
    }
    Ok(frame.data)
}
