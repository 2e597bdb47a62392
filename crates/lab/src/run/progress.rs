//! The progress of a run: a bar on a terminal, lines elsewhere.

use std::{
    cell::Cell,
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Between two lines where standard error is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(1);
const BAR: &str = "{prefix} {bar:40} {percent:>3} %  {msg}  {elapsed}";

/// How many tasks have got how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskCounts {
    /// Tasks of jobs that the server has acknowledged.
    pub created: u64,
    /// Tasks that were seen to have a node.
    pub placed: u64,
    /// Tasks that were seen in the awaited state.
    pub running: u64,
}

/// Prints on standard error.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    drawn: bool,
    printed_at: Cell<Option<Instant>>,
}

impl Default for Progress {
    fn default() -> Self {
        let drawn = std::io::stderr().is_terminal();
        let target = if drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template(BAR).expect("the template is sound");
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        Self { bar, drawn, printed_at: Cell::new(None) }
    }
}

impl Progress {
    /// To be called when a run begins.
    pub(super) fn begin(&self, experiment: &str, number: u32, runs: u32) {
        self.bar.reset();
        self.bar.set_prefix(format!("{experiment}, run {number} of {runs}"));
        if !self.drawn {
            eprintln!("{experiment}, run {number} of {runs}");
        }
    }

    /// What is done before or after tasks are counted.
    pub fn print(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        if !self.drawn {
            eprintln!("{what}");
        }
    }

    /// How far it is now; reported about once a second.
    pub fn counts(&self, now: TaskCounts, expected: u64) {
        self.bar.set_length(expected);
        self.bar.set_position(now.running);
        self.bar.set_message(line(now));
        let due = self.printed_at.get().is_none_or(|at| at.elapsed() >= LINE_EVERY);
        if due && !self.drawn {
            eprintln!("{}", line(now));
            self.printed_at.set(Some(Instant::now()));
        }
    }

    /// How far it was in the end.
    pub fn ends(&self, last: TaskCounts) {
        if self.drawn {
            self.bar.abandon_with_message(line(last));
        } else {
            eprintln!("{}", line(last));
        }
        self.printed_at.set(None);
    }
}

fn line(counts: TaskCounts) -> String {
    let pending = counts.created.saturating_sub(counts.running);
    format!("{} created, {} running, {pending} pending", counts.created, counts.running)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_created_and_does_not_run_is_pending() {
        let counts = TaskCounts { created: 30_000, placed: 900, running: 120 };
        assert_eq!(line(counts), "30000 created, 120 running, 29880 pending");
        // A client may see a task run before it has read the answer to its job.
        assert_eq!(line(TaskCounts { created: 1, placed: 2, running: 2 }), "1 created, 2 running, 0 pending");
    }
}
