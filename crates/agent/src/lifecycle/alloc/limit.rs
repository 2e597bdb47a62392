//! What ends an allocation for taking too much: more disk than it may, or more time, which counts from the first start of
//! any of its tasks; restarts of tasks and of the agent give it no more.

use berth_api::agent::{HookSpec, TaskEvent, TaskEventKind};

use super::Alloc;
use crate::lifecycle::history::{event, go_duration};

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

    /// It takes more than it may, unless it is to end anyway.
    pub(in crate::lifecycle) fn on_overran(&mut self, why: &str, now_ns: u64) {
        if !self.tasks_are_dead() && self.cause_of_end().is_none() {
            self.fail_all(why, now_ns);
        }
    }

    /// What cleans up after the others is not to blame, and still has to do so.
    fn fail_all(&mut self, why: &str, now_ns: u64) {
        let is_over = |task: &usize| !self.tasks[*task].is_dead() && self.hook(*task) != HookSpec::Poststop;
        for task in (0..self.tasks.len()).filter(is_over).collect::<Vec<_>>() {
            let told = event(TaskEventKind::Killing, now_ns, why);
            self.note(task, TaskEvent { fails_task: true, ..told });
            self.status.tasks[task].failed = true;
        }
        self.dirty = true;
    }
}
