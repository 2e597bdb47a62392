//! `berth alloc logs`: what a task wrote, as it wrote it.

use berth_api::http::StreamFrame;
use clap::Args;

use super::tail;
use crate::{
    failure::{Exit, Failure},
    output::{self, clean},
    remote::{LogRead, LogStart, Remote, only_task},
};

/// Lines shown with `-tail` when nobody says how many.
const TAIL_LINES: usize = 10;

/// Arguments of `alloc logs`.
#[derive(Debug, Args)]
pub struct Logs {
    /// The allocation's id, or its beginning
    #[arg(value_name = "ALLOC")]
    id: String,
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

impl Logs {
    /// Prints it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let alloc = remote.find_allocation(&self.id).await?;
        let task = self.task_of(remote, &alloc).await?;
        let stream = if self.stderr { "stderr" } else { "stdout" };
        let whole =
            LogRead { alloc: &alloc, task: &task, stream, from: LogStart::Offset(0), follow: self.follow };
        let Some(lines) = self.lines.or(self.tail.then_some(TAIL_LINES)) else {
            return print(remote, &whole).await;
        };
        let end = tail::last_lines(remote, &whole, lines).await?;
        output::print_bytes(&end.bytes)?;
        if self.follow {
            print(remote, &LogRead { from: LogStart::Offset(end.offset), ..whole }).await?;
        }
        Ok(())
    }

    async fn task_of(&self, remote: &Remote, alloc: &str) -> Result<String, Failure> {
        let alloc = remote.allocation(alloc).await?;
        let tasks: Vec<_> = alloc.task_resources.keys().map(String::as_str).collect();
        Ok(only_task(&tasks, self.task.as_deref())?.to_owned())
    }
}

async fn print(remote: &Remote, read: &LogRead<'_>) -> Result<(), Failure> {
    let mut frames = remote.log(read).await?;
    while let Some(frame) = frames.next().await? {
        output::print_bytes(&data(frame)?)?;
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
