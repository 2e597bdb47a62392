//! How the tasks of an allocation are brought to an end.

use std::num::NonZeroU64;

use berth_api::agent::{HookSpec, TaskEventKind};

use super::{Alloc, Interest};
use crate::lifecycle::Action;
use crate::lifecycle::history::{event, go_duration};
use crate::lifecycle::task::{KILL_AGAIN_NS, Kill, Phase};

impl Alloc {
    /// Ends the tasks that must not live on: a rule about the present state, so that it holds after a restart too.
    pub(super) fn enforce(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        // An end may call for further ends; each round ends at least one task more.
        while let Some(cause) = self.cause_of_end() {
            let alive = |task: &usize| !self.tasks[*task].is_dead() && self.tasks[*task].kill == Kill::No;
            let ending: Vec<usize> =
                (0..self.tasks.len()).filter(alive).filter(|task| self.is_next_to_end(*task)).collect();
            if ending.is_empty() {
                return;
            }
            ending.into_iter().for_each(|task| self.end(task, cause, now_ns, actions));
        }
        self.end_what_restarts(now_ns, actions);
    }

    /// The leader goes first when all are stopped, sidecars go last, and what runs after the others goes on.
    fn is_next_to_end(&self, task: usize) -> bool {
        if self.tasks[task].overran {
            return true;
        }
        if self.hook(task) == HookSpec::Poststop {
            return self.lost || self.interest == Interest::Purged || !self.has_started();
        }
        let mut alive = (0..self.tasks.len()).filter(|task| !self.tasks[*task].is_dead());
        if self.is_sidecar(task) {
            return !alive.any(|other| self.is_before_sidecars(other));
        }
        !self.stop || self.is_leader(task) || !alive.any(|other| self.is_leader(other))
    }

    /// Milliseconds that its tasks may take to end once they are asked to, but for what runs after them: leader, main tasks and sidecars
    /// end one after the other.
    pub fn ending_ms_max(&self) -> u64 {
        let mut stages = [0; 3];
        for (position, task) in self.run.group.tasks.iter().enumerate() {
            let kill_timeout_ms = task.kill_timeout_ms.min(self.kill_timeout_ms_max.into());
            let stage = if self.is_sidecar(position) { 2 } else { usize::from(!task.leader) };
            stages[stage] = task.shutdown_delay_ms.saturating_add(kill_timeout_ms).max(stages[stage]);
        }
        stages.into_iter().fold(self.run.group.shutdown_delay_ms, u64::saturating_add)
    }

    fn is_leader(&self, task: usize) -> bool {
        self.run.group.tasks[task].leader
    }

    /// Why its tasks may not live on, if so.
    pub(in crate::lifecycle) fn cause_of_end(&self) -> Option<TaskEventKind> {
        let mut dead = (0..self.tasks.len()).filter(|task| self.tasks[*task].is_dead());
        if self.stop || self.lost {
            Some(TaskEventKind::Killing)
        } else if self.status.tasks.iter().any(|task| task.failed) {
            Some(TaskEventKind::SiblingFailed)
        } else if dead.any(|task| self.is_leader(task)) {
            Some(TaskEventKind::LeaderDead)
        } else {
            self.sidecars_are_left().then_some(TaskEventKind::MainDead)
        }
    }

    fn end(&mut self, task: usize, cause: TaskEventKind, now_ns: u64, actions: &mut Vec<Action>) {
        // One that has failed while it lives has a reason already.
        if cause != TaskEventKind::Killing && !self.status.tasks[task].failed {
            self.note(task, event(cause, now_ns, ""));
        }
        match self.tasks[task].phase {
            Phase::Waiting | Phase::Dead => self.die(task, now_ns),
            Phase::Backoff { .. } | Phase::Preparing => self.killed(task, now_ns),
            Phase::Starting | Phase::Running => {
                let group_ns = self.run.group.shutdown_delay_ms.saturating_mul(1_000_000);
                let from_ns = NonZeroU64::new(now_ns.saturating_add(group_ns)).unwrap_or(NonZeroU64::MIN);
                let from_ns = self.kill_from_ns.get_or_insert(from_ns).get();
                let task_ns = self.run.group.tasks[task].shutdown_delay_ms.saturating_mul(1_000_000);
                let polite_ns = from_ns.max(now_ns).saturating_add(task_ns);
                let until_ns = if self.tasks[task].overran { now_ns } else { polite_ns };
                self.tasks[task].kill = Kill::Delayed { until_ns };
                if self.tasks[task].phase == Phase::Starting {
                    actions.push(Action::CancelStart(self.task_ref(task)));
                }
                if self.tasks[task].deadline().is_some_and(|at_ns| at_ns <= now_ns) {
                    self.next_kill_step(task, now_ns, actions);
                }
            }
        }
    }

    pub(super) fn next_kill_step(&mut self, task: usize, now_ns: u64, actions: &mut Vec<Action>) {
        let requested_ms = self.run.group.tasks[task].kill_timeout_ms;
        let kill_timeout_ms = requested_ms.min(self.kill_timeout_ms_max.into());
        let is_asked = matches!(self.tasks[task].kill, Kill::Delayed { .. }) && !self.tasks[task].overran;
        if is_asked && kill_timeout_ms > 0 {
            let mut waiting =
                format!("Sent interrupt. Waiting {} before force killing", go_duration(kill_timeout_ms));
            if kill_timeout_ms < requested_ms {
                let requested = go_duration(requested_ms);
                waiting +=
                    &format!(": this node's --max-kill-timeout cuts the task's kill_timeout of {requested}");
            }
            self.note(task, event(TaskEventKind::Killing, now_ns, waiting));
            self.tasks[task].kill = Kill::Requested { force_at_ns: now_ns + kill_timeout_ms * 1_000_000 };
            actions.push(Action::SignalTask(self.task_ref(task)));
        } else {
            self.tasks[task].kill = Kill::Forced { again_at_ns: now_ns + KILL_AGAIN_NS };
            actions.push(Action::KillTask(self.task_ref(task)));
        }
    }
}
