//! `berth job restart`: restarts a job's allocations, some at a time, each batch once the one before is healthy.

mod batch;
mod health;

use std::{
    io::{self, BufRead, IsTerminal},
    num::NonZeroUsize,
    str::FromStr,
    time::Duration,
};

use berth_api::http::AllocationStub;
use clap::{Args, ValueEnum};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

use self::{batch::RestartBatch, health::RestartRules};
use crate::{
    complete,
    confirm::ConfirmArgs,
    failure::{Exit, Failure},
    output::{clean, count, eprint_line},
    remote::Remote,
};

/// Arguments of `job restart`.
#[derive(Debug, Args)]
pub struct JobRestartArgs {
    /// The job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// Number of allocations to restart at a time, or a percentage of them: 2, 25%
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    batch_size: BatchSize,
    /// Time to wait between two batches, or `ask` to be asked
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    batch_wait: BatchWait,
    /// Only allocations of this group; repeatable
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Only this task; repeatable
    #[arg(long, value_name = "TASK")]
    task: Vec<String>,
    /// Restart tasks that completed as well
    #[arg(long, conflicts_with_all = ["task", "reschedule"])]
    all_tasks: bool,
    /// Stop each allocation and place a new one, on any node, instead of restarting its tasks in place
    #[arg(long, conflicts_with = "task")]
    reschedule: bool,
    /// What to do if an allocation does not become healthy again; defaults to `ask` on a terminal
    #[arg(long, value_name = "ACTION")]
    on_error: Option<OnError>,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

/// How many allocations a batch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchSize {
    Number(NonZeroUsize),
    Percent(u8),
}

/// How to wait between two batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchWait {
    For(Duration),
    Ask,
}

/// What to do after an allocation that did not become healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// Ask whether to go on
    Ask,
    /// Leave the rest alone
    Fail,
}

impl FromStr for BatchSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = match text.strip_suffix('%') {
            Some(part) => part.parse().ok().filter(|part| (1..=100).contains(part)).map(Self::Percent),
            None => text.parse().ok().map(Self::Number),
        };
        size.ok_or_else(|| "write a number from 1 on, or a part of all from 1% to 100%".to_owned())
    }
}

impl BatchSize {
    /// The size of a batch of `all` allocations; at least one.
    fn of(self, all: usize) -> usize {
        match self {
            Self::Number(size) => size.get(),
            Self::Percent(part) => (all * usize::from(part)).div_ceil(100).max(1),
        }
    }
}

impl FromStr for BatchWait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ask" => Ok(Self::Ask),
            text => berth_duration::parse_words(text).map(Self::For).map_err(|error| error.to_string()),
        }
    }
}

/// How far it has come.
#[derive(Default)]
struct RestartProgress {
    /// Allocations that are healthy again, or no longer part of the job.
    healthy: usize,
    /// Allocations that did not become healthy.
    failed: usize,
    /// All whose restart has begun, these two among them.
    begun: usize,
    all: usize,
}

impl JobRestartArgs {
    /// Restarts batch after batch.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_job(&self.id).await?;
        let rules = RestartRules::of(&id, &remote.job(&id).await?)?;
        self.check(&rules)?;
        let mut allocs = remote.job_allocations(&id).await?;
        allocs.retain(|alloc| self.concerns(&rules, alloc));
        allocs.sort_by_key(|alloc| (alloc.task_group.clone(), alloc.create_index, alloc.name.clone()));
        if allocs.is_empty() {
            eprint_line(&format!("job {} has nothing that runs and could be restarted", clean(&id)));
            return Ok(());
        }
        let action = format!("restart {} of job", count(allocs.len(), "allocation"));
        self.confirm.on_terminal(&action, &id, &self.id)?;
        let mut done = RestartProgress { all: allocs.len(), ..RestartProgress::default() };
        let (mut interrupted, mut terminated) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let ended = tokio::select! {
            ended = self.restart(remote, &rules, &allocs, &mut done) => ended,
            _ = interrupted.recv() => Err(Failure::new(Exit::Failed, "interrupted")),
            _ = terminated.recv() => Err(Failure::new(Exit::Failed, "interrupted")),
        };
        match ended {
            Ok(()) if done.failed > 0 => {
                let text = unhealthy_count(done.failed);
                Err(Failure::new(Exit::Failed, text)
                    .help(done.summary())
                    .help(format!("berth job status {}", clean(&id))))
            }
            Ok(()) => {
                eprint_line(&format!(
                    "{} of job {} restarted",
                    count(done.healthy, "allocation"),
                    clean(&id)
                ));
                Ok(())
            }
            Err(failure) => {
                Err(failure.help(done.summary()).help(format!("berth job status {}", clean(&id))))
            }
        }
    }

    /// Refuses what does not go together, before anything is restarted.
    fn check(&self, rules: &RestartRules) -> Result<(), Failure> {
        if self.batch_wait == BatchWait::Ask && !io::stdin().is_terminal() {
            let text = "cannot ask between two batches: standard input is not a terminal";
            return Err(Failure::new(Exit::Usage, text).help("-batch-wait takes a time as well, such as 10s"));
        }
        if self.reschedule && rules.is_per_node() {
            let text = "a job that runs on each node is not rescheduled: leave -reschedule out";
            return Err(Failure::new(Exit::Usage, text));
        }
        for group in &self.group {
            rules.require_group(group)?;
        }
        for task in &self.task {
            rules.require_task(task)?;
        }
        Ok(())
    }

    /// Whether an allocation is to be restarted.
    fn concerns(&self, rules: &RestartRules, alloc: &AllocationStub) -> bool {
        let lives = match alloc.client_status.as_str() {
            "running" => true,
            "pending" => self.reschedule,
            _ => false,
        };
        let named = self.group.is_empty() || self.group.contains(&alloc.task_group);
        let has_task =
            self.task.is_empty() || self.task.iter().any(|task| rules.has_task(&alloc.task_group, task));
        lives && alloc.desired_status == "run" && named && has_task
    }

    async fn restart(
        &self,
        remote: &Remote,
        rules: &RestartRules,
        allocs: &[AllocationStub],
        done: &mut RestartProgress,
    ) -> Result<(), Failure> {
        let size = self.batch_size.of(allocs.len());
        let batches = allocs.len().div_ceil(size);
        for (number, allocs) in allocs.chunks(size).enumerate() {
            if number > 0 {
                self.wait(number, batches).await?;
            }
            rules.check_unchanged(remote).await?;
            eprint_line(&format!("batch {} of {batches}: {}", number + 1, count(allocs.len(), "allocation")));
            done.begun += allocs.len();
            let batch = RestartBatch { remote, rules, tasks: &self.task, all_tasks: self.all_tasks };
            let failures =
                if self.reschedule { batch.reschedule(allocs).await? } else { batch.restart(allocs).await? };
            done.healthy += allocs.len() - failures.len();
            done.failed += failures.len();
            failures.iter().for_each(|failure| eprint_line(failure));
            let is_last = number + 1 == batches;
            if !failures.is_empty() && !is_last && !self.goes_on().await? {
                return Err(Failure::new(Exit::Failed, unhealthy_count(done.failed)));
            }
        }
        Ok(())
    }

    async fn wait(&self, number: usize, batches: usize) -> Result<(), Failure> {
        match self.batch_wait {
            BatchWait::For(span) => tokio::time::sleep(span).await,
            BatchWait::Ask if confirm(&format!("go on with batch {} of {batches}", number + 1)).await? => {}
            BatchWait::Ask => return Err(Failure::new(Exit::Failed, "the rest is left alone")),
        }
        Ok(())
    }

    /// Whether the rest is restarted although something of a batch is not well.
    async fn goes_on(&self) -> Result<bool, Failure> {
        let asks = self.on_error.unwrap_or(OnError::Ask) == OnError::Ask && io::stdin().is_terminal();
        Ok(asks && confirm("go on all the same").await?)
    }
}

impl RestartProgress {
    /// How far the restarts have come, for a message.
    fn summary(&self) -> String {
        let Self { healthy, failed, begun, all } = self;
        let failures =
            if *failed == 0 { String::new() } else { format!("; {failed} did not become healthy again") };
        let under_way = match begun - healthy - failed {
            0 => String::new(),
            under_way => format!("; {under_way} more are restarting, which go on by themselves"),
        };
        let rest = all - begun;
        format!(
            "{} of {all} restarted{failures}{under_way}; {rest} left as they were",
            count(*healthy, "allocation")
        )
    }
}

fn unhealthy_count(failed: usize) -> String {
    format!("{} did not become healthy again", count(failed, "allocation"))
}

/// Asks on the terminal.
async fn confirm(question: &str) -> Result<bool, Failure> {
    eprint!("{question}? [y/N] ");
    // A thread of its own reads the answer: an interrupt is heeded meanwhile, and the runtime does not wait for the thread.
    let (send, answer) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let _ = send.send(read.map(|_| line));
    });
    let answer = answer.await.map_err(|_| Failure::new(Exit::Failed, "nobody answers"))??;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_batch_is_a_number_or_a_part() {
        let size = |text: &str, all: usize| text.parse::<BatchSize>().map(|size| size.of(all));
        assert_eq!(size("3", 10), Ok(3));
        assert_eq!((size("25%", 10), size("1%", 10), size("100%", 10)), (Ok(3), Ok(1), Ok(10)));
        for wrong in ["0", "0%", "101%", "-1", "half", "%"] {
            assert!(size(wrong, 10).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_interrupt_reports_what_is_left() {
        let summary = |healthy, failed, begun, all| RestartProgress { healthy, failed, begun, all }.summary();
        assert_eq!(
            summary(2, 0, 4, 9),
            "2 allocations of 9 restarted; 2 more are restarting, which go on by themselves; 5 left as they were"
        );
        assert_eq!(
            summary(2, 1, 3, 9),
            "2 allocations of 9 restarted; 1 did not become healthy again; 6 left as they were"
        );
        assert_eq!(summary(1, 0, 1, 1), "1 allocation of 1 restarted; 0 left as they were");
    }
}
