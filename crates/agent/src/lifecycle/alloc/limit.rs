//! Limits that fail an allocation: of disk space, and of time (`max_run_duration`). Time counts from the first start of any of its
//! tasks; restarts of tasks and of the agent do not extend it.

use berth_api::agent::{HookSpec, TaskEventEntry, TaskEventKind};

use super::Alloc;
use crate::lifecycle::Action;
use crate::lifecycle::history::{event, go_duration};
use crate::lifecycle::task::{Kill, Phase};

impl Alloc {
    /// When its time is over; none before it runs, where its group sets no limit, and once it is to end anyway.
    pub(super) fn run_deadline(&self) -> Option<u64> {
        let max_ns = self.run.group.max_run_ms.saturating_mul(1_000_000);
        if max_ns == 0 || self.tasks_are_dead() || self.cause_of_end().is_some() {
            return None;
        }
        let started = self.status.tasks.iter().map(|task| task.started_ns).filter(|at_ns| *at_ns > 0);
        Some(started.min()?.saturating_add(max_ns))
    }

    /// Once its time is over, each task that has not ended has failed, and is ended for that.
    pub(super) fn limit_run(&mut self, now_ns: u64) {
        if self.run_deadline().is_none_or(|at_ns| at_ns > now_ns) {
            return;
        }
        let max = go_duration(self.run.group.max_run_ms);
        self.fail_all(&format!("The allocation has run for its max_run_duration, {max}"), now_ns);
    }

    /// It takes more than it may. What goes on writing must not have the time of a kill timeout for it: SIGKILL comes at
    /// once, whether it is to end for this or anyway.
    pub(in crate::lifecycle) fn on_overran(
        &mut self,
        cleaning_up: bool,
        why: &str,
        now_ns: u64,
        actions: &mut Vec<Action>,
    ) {
        let is_to_blame = |task: &usize| {
            let known = &self.tasks[*task];
            !known.is_dead() && !known.overran && (self.hook(*task) == HookSpec::Poststop) == cleaning_up
        };
        let blamed: Vec<usize> = (0..self.tasks.len()).filter(is_to_blame).collect();
        if blamed.is_empty() {
            return;
        }
        if cleaning_up {
            self.fail_living(&blamed, why, now_ns);
        } else if self.cause_of_end().is_none() {
            self.fail_all(why, now_ns);
        }
        for task in blamed {
            self.tasks[task].overran = true;
            if matches!(self.tasks[task].kill, Kill::Delayed { .. } | Kill::Requested { .. }) {
                if !self.status.tasks[task].failed {
                    self.note(task, event(TaskEventKind::Killing, now_ns, why));
                }
                self.tasks[task].kill = Kill::Delayed { until_ns: now_ns };
                // One that is starting is ended as soon as it runs.
                if self.tasks[task].phase == Phase::Running {
                    self.next_kill_step(task, now_ns, actions);
                }
            }
        }
    }

    /// Something that a task needs while it runs has failed: it is ended for that, and the others of its group with it.
    pub(in crate::lifecycle) fn on_failed(&mut self, task: usize, why: &str, now_ns: u64) {
        if !self.tasks[task].is_dead() && self.cause_of_end().is_none() {
            self.fail_living(&[task], why, now_ns);
        }
    }

    /// Whether nothing but poststop tasks is left to run.
    pub fn only_cleans_up(&self) -> bool {
        let alive = |task: &usize| !self.tasks[*task].is_dead();
        let mut left = (0..self.tasks.len()).filter(alive).peekable();
        left.peek().is_some() && left.all(|task| self.hook(task) == HookSpec::Poststop)
    }

    /// What cleans up after the others is not to blame, and still has to do so.
    fn fail_all(&mut self, why: &str, now_ns: u64) {
        let is_over = |task: &usize| !self.tasks[*task].is_dead() && self.hook(*task) != HookSpec::Poststop;
        self.fail_living(&(0..self.tasks.len()).filter(is_over).collect::<Vec<_>>(), why, now_ns);
    }

    fn fail_living(&mut self, tasks: &[usize], why: &str, now_ns: u64) {
        for &task in tasks {
            let base = event(TaskEventKind::Killing, now_ns, why);
            self.note(task, TaskEventEntry { fails_task: true, ..base });
            self.status.tasks[task].failed = true;
        }
        self.dirty = true;
    }
}
