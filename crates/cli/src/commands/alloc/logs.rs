//! `berth alloc logs`: what a task wrote, as it wrote it.

use berth_api::http::StreamFrame;
use clap::Args;

use super::tail;
use crate::{
    complete,
    failure::{Exit, Failure},
    output::{RawOutput, clean},
    remote::{LogRead, LogStart, Remote, only_task},
};

/// Lines shown with `-tail` when nobody says how many.
const TAIL_LINES: usize = 10;

/// Arguments of `alloc logs`.
#[derive(Debug, Args)]
pub struct Logs {
    /// The allocation's id, or its beginning
    #[arg(value_name = "ALLOC", add = complete::allocations())]
    id: String,
    #[command(flatten)]
    options: LogOptions,
}

impl Logs {
    /// Prints it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let alloc = remote.find_allocation(&self.id).await?;
        self.options.print(remote, &alloc).await
    }
}

/// Which part of an allocation's output is wanted.
#[derive(Debug, Args)]
pub struct LogOptions {
    /// The task; may be left out when there is only one
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Go on with what is written from now on, until the task has ended
    #[arg(long, short)]
    follow: bool,
    /// Standard error instead of standard output
    #[arg(long)]
    stderr: bool,
    /// Begin with the last lines
    #[arg(long)]
    tail: bool,
    /// Begin with this many of the last lines
    #[arg(short = 'n', value_name = "LINES")]
    lines: Option<usize>,
}

impl LogOptions {
    /// Prints what is wanted of the allocation with this whole id.
    pub async fn print(&self, remote: &Remote, alloc: &str) -> Result<(), Failure> {
        let task = self.task_of(remote, alloc).await?;
        let stream = if self.stderr { "stderr" } else { "stdout" };
        let whole = LogRead { alloc, task: &task, stream, from: LogStart::Offset(0), follow: self.follow };
        let mut out = RawOutput::stdout();
        let Some(lines) = self.lines.or(self.tail.then_some(TAIL_LINES)) else {
            return print(remote, &whole, &mut out).await;
        };
        let end = tail::last_lines(remote, &whole, lines).await?;
        out.write(&end.bytes)?;
        if self.follow {
            print(remote, &LogRead { from: LogStart::Offset(end.offset), ..whole }, &mut out).await?;
        }
        Ok(())
    }

    async fn task_of(&self, remote: &Remote, alloc: &str) -> Result<String, Failure> {
        let alloc = remote.allocation(alloc).await?;
        let tasks: Vec<_> = alloc.task_resources.keys().map(String::as_str).collect();
        Ok(only_task(&tasks, self.task.as_deref())?.to_owned())
    }
}

/// Prints a log until it ends.
pub async fn print(remote: &Remote, read: &LogRead<'_>, out: &mut RawOutput) -> Result<(), Failure> {
    let mut frames = remote.log(read).await?;
    while let Some(frame) = frames.next().await? {
        out.write(&data(frame)?)?;
    }
    Ok(())
}

/// The bytes of a frame, or why the stream ends with it.
pub(super) fn data(frame: StreamFrame) -> Result<Vec<u8>, Failure> {
    if frame.data.is_empty() && !frame.file_event.is_empty() {
        return Err(Failure::new(Exit::Failed, format!("the log ends here: {}", clean(&frame.file_event))));
    }
    Ok(frame.data)
}
