//! What an allocation has for all of its tasks: prepared once, before the first of them starts, and cleaned up once, after
//! the last of them has ended.
//!
//! Its record says that something may be there before anything is made, and that all tasks have ended, and how, before anything is
//! removed. An agent that starts after a crash in between repeats the step, so each step must cope with what it finds.

use berth_api::agent::{TaskEventEntry, TaskEventKind};

use super::Alloc;
use crate::lifecycle::history::event;
use crate::lifecycle::task::Phase;
use crate::lifecycle::{Action, StartFailure, StartFailureKind};

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Setup {
    /// There is nothing of it: it was not prepared yet, or is cleaned up.
    #[default]
    Nothing,
    /// There may be all of it, or a part: it is prepared again before a task starts.
    Unknown,
    /// [`Action::Prepare`] has not been answered.
    Preparing,
    /// All of it is there.
    Prepared,
    /// [`Action::CleanUp`] has not been answered.
    CleaningUp,
}

impl Setup {
    /// What is known of it after a restart of the agent.
    pub(super) fn restored(may_exist: bool) -> Self {
        if may_exist { Self::Unknown } else { Self::Nothing }
    }

    pub(super) fn may_exist(self) -> bool {
        self != Self::Nothing
    }
}

impl Alloc {
    /// Starts tasks whose attempts are on disk, now or once the allocation is prepared. No record is written in between:
    /// an agent that reads this one looks for each of these tasks, and prepares again before it starts any.
    pub(super) fn launch(&mut self, tasks: &[usize], actions: &mut Vec<Action>) {
        if self.setup == Setup::Prepared {
            for &task in tasks {
                self.tasks[task].phase = Phase::Starting;
                actions.push(Action::StartTask(self.task_ref(task)));
            }
            return;
        }
        for &task in tasks {
            self.tasks[task].phase = Phase::Preparing;
        }
        if self.setup != Setup::Preparing {
            self.setup = Setup::Preparing;
            actions.push(Action::Prepare(self.id()));
        }
    }

    /// All is there that its tasks need.
    pub(in crate::lifecycle) fn on_prepared(&mut self, actions: &mut Vec<Action>) {
        if self.setup == Setup::Preparing {
            self.setup = Setup::Prepared;
            let tasks = self.prepared_for();
            self.launch(&tasks, actions);
        }
    }

    /// Something of it cannot be made. That is nothing that another start of a task could mend, so that all of them have
    /// failed, as in Nomad, and the servers decide where it is tried next; but what may pass is tried again as their
    /// restart policies say.
    pub(in crate::lifecycle) fn on_prepare_failed(&mut self, failure: &StartFailure, now_ns: u64) {
        if self.setup != Setup::Preparing {
            return;
        }
        self.setup = Setup::Unknown;
        if failure.kind == StartFailureKind::Recoverable {
            for task in self.prepared_for() {
                self.note(task, event(TaskEventKind::SetupFailure, now_ns, failure.message.clone()));
                self.restart_or_fail(task, now_ns);
            }
            return;
        }
        for task in (0..self.tasks.len()).filter(|task| !self.tasks[*task].is_dead()).collect::<Vec<_>>() {
            let base = event(TaskEventKind::SetupFailure, now_ns, failure.message.clone());
            self.note(task, TaskEventEntry { fails_task: true, ..base });
            self.status.tasks[task].failed = true;
            // Those that an earlier run of the agent had started are ended as siblings of these.
            if !self.has_begun(task) {
                self.die(task, now_ns);
            }
        }
    }

    fn prepared_for(&self) -> Vec<usize> {
        (0..self.tasks.len()).filter(|task| self.tasks[*task].phase == Phase::Preparing).collect()
    }

    /// Cleans up once nothing runs and nothing will. What is being prepared is waited for.
    pub(super) fn clean_up(&mut self, actions: &mut Vec<Action>) {
        if !self.tasks_are_dead() || !matches!(self.setup, Setup::Unknown | Setup::Prepared) {
            return;
        }
        if self.dirty {
            actions.push(Action::Persist(self.id()));
            self.dirty = false;
        }
        self.setup = Setup::CleaningUp;
        actions.push(Action::CleanUp(self.id()));
    }

    /// What there was of it is gone, but for what `left` reports: that is no reason for the allocation never to end.
    pub(in crate::lifecycle) fn on_cleaned_up(&mut self, left: Option<String>, now_ns: u64) {
        if self.setup != Setup::CleaningUp {
            return;
        }
        self.setup = Setup::Nothing;
        self.changed = true;
        for task in 0..self.tasks.len() {
            if let Some(left) = left.clone() {
                self.note(task, event(TaskEventKind::HookFailed, now_ns, left));
            }
        }
    }
}
