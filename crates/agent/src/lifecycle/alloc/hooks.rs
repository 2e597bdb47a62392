//! Tasks with a `lifecycle` block: prestart, poststart and poststop tasks, and sidecars. Each rule is a function of the present state,
//! so that it holds after a restart of the agent too.

use berth_api::agent::{HookSpec, RestartModeSpec, RestartSpec};

use super::Alloc;
use crate::lifecycle::Action;
use crate::lifecycle::task::{Phase, Restart};

impl Alloc {
    pub(super) fn hook(&self, task: usize) -> HookSpec {
        self.run.group.tasks[task].hook()
    }

    /// Whether it lives on beside the main tasks.
    pub(super) fn is_sidecar(&self, task: usize) -> bool {
        let hook = self.hook(task);
        self.run.group.tasks[task].sidecar && matches!(hook, HookSpec::Prestart | HookSpec::Poststart)
    }

    /// Whether it is one of those that a service consists of.
    pub(super) fn serves(&self, task: usize) -> bool {
        self.hook(task) == HookSpec::Main || self.is_sidecar(task)
    }

    /// Whether sidecars live as long as it does.
    pub(super) fn is_before_sidecars(&self, task: usize) -> bool {
        !self.is_sidecar(task) && self.hook(task) != HookSpec::Poststop
    }

    /// Whether all that its sidecars live beside has ended.
    pub(super) fn sidecars_are_left(&self) -> bool {
        let has_sidecars = (0..self.tasks.len()).any(|task| self.is_sidecar(task));
        let mut before = (0..self.tasks.len()).filter(|task| self.is_before_sidecars(*task)).peekable();
        has_sidecars && before.peek().is_some() && before.all(|task| self.tasks[task].is_dead())
    }

    /// Whether a start of any of its tasks was ever asked for.
    pub fn has_started(&self) -> bool {
        self.tasks.iter().any(|task| task.attempt > 0)
    }

    /// Whether a task that ends well is not started again.
    pub(super) fn success_is_final(&self, task: usize) -> bool {
        match self.hook(task) {
            HookSpec::Main => matches!(self.run.group.job_type.as_str(), "batch" | "sysbatch"),
            HookSpec::Prestart | HookSpec::Poststart => !self.is_sidecar(task),
            HookSpec::Poststop => true,
        }
    }

    /// What runs last is not tried forever: whoever stops an allocation would wait for it in vain.
    pub(super) fn restart_policy(&self, task: usize) -> RestartSpec {
        let policy = self.run.group.tasks[task].restart;
        match self.hook(task) {
            HookSpec::Poststop => RestartSpec { mode: RestartModeSpec::Fail.into(), ..policy },
            _ => policy,
        }
    }

    /// Whether a task has nobody to wait for.
    pub(super) fn may_begin(&self, task: usize) -> bool {
        let hook = self.hook(task);
        if hook != HookSpec::Poststop && self.cause_of_end().is_some() {
            return false;
        }
        match hook {
            HookSpec::Prestart if self.is_sidecar(task) => true,
            // A restart of all tasks may have been requested, in their order.
            HookSpec::Prestart => !self.mains().any(|main| self.has_begun(main)),
            HookSpec::Main => self.prestart_is_done(),
            HookSpec::Poststart => {
                self.prestart_is_done()
                    && self.mains().all(|main| self.runs_on(main) || self.tasks[main].is_dead())
            }
            HookSpec::Poststop => !self.lost && self.others_are_dead(),
        }
    }

    fn mains(&self) -> impl Iterator<Item = usize> {
        (0..self.tasks.len()).filter(|task| self.hook(*task) == HookSpec::Main)
    }

    /// One that failed ends all others.
    fn prestart_is_done(&self) -> bool {
        let mut prestart = (0..self.tasks.len()).filter(|task| self.hook(*task) == HookSpec::Prestart);
        prestart.all(|task| {
            if self.is_sidecar(task) {
                self.status.tasks[task].started_ns != 0
            } else {
                self.tasks[task].is_dead()
            }
        })
    }

    fn runs_on(&self, task: usize) -> bool {
        self.tasks[task].phase == Phase::Running && self.tasks[task].restart == Restart::No
    }

    fn others_are_dead(&self) -> bool {
        let mut others = (0..self.tasks.len()).filter(|task| self.hook(*task) != HookSpec::Poststop);
        others.all(|task| self.tasks[task].is_dead())
    }

    /// Starts what waited for other tasks of its allocation.
    pub(super) fn start_waiting_tasks(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        if !self.has_started() {
            return;
        }
        let waits = |task: &usize| self.tasks[*task].phase == Phase::Waiting;
        let ready: Vec<usize> =
            (0..self.tasks.len()).filter(waits).filter(|task| self.may_begin(*task)).collect();
        if !ready.is_empty() {
            self.begin(&ready, now_ns, actions);
        }
    }

    /// The time between two starts is over.
    pub(super) fn restart_after_backoff(
        &mut self,
        tasks: Vec<usize>,
        now_ns: u64,
        actions: &mut Vec<Action>,
    ) {
        let (ready, blocked): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|task| self.may_begin(*task));
        for task in blocked {
            self.tasks[task].phase = Phase::Waiting;
            self.dirty = true;
        }
        if !ready.is_empty() {
            self.begin(&ready, now_ns, actions);
        }
    }
}
