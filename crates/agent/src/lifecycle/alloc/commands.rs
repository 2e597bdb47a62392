//! Commands of users to the tasks of one allocation.

use berth_api::agent::{Refusal, RefusalKind, RestartTasks, TaskEventKind, TaskPhase};

use super::Alloc;
use crate::lifecycle::history::event;
use crate::lifecycle::task::{Kill, Phase, Restart};
use crate::lifecycle::{Action, TaskRef};
use crate::signals;

impl Alloc {
    /// Those of its tasks that run: the named one, or all of them.
    pub(in crate::lifecycle) fn running(&self, name: &str) -> Result<Vec<usize>, Refusal> {
        if name.is_empty() {
            let running: Vec<_> =
                (0..self.tasks.len()).filter(|task| self.tasks[*task].phase == Phase::Running).collect();
            return if running.is_empty() { Err(self.nothing_runs()) } else { Ok(running) };
        }
        let task = self.status.tasks.iter().position(|task| task.name == name);
        let task = task.ok_or_else(|| self.no_such_task(name))?;
        match self.tasks[task].phase {
            Phase::Running => Ok(vec![task]),
            Phase::Dead => Err(not_running(format!("task {name} has ended"))),
            Phase::Backoff { .. } => {
                Err(not_running(format!("task {name} is between two starts: wait until it runs")))
            }
            Phase::Waiting | Phase::Preparing | Phase::Starting => {
                Err(not_running(format!("task {name} has not started yet: wait until it runs")))
            }
        }
    }

    fn no_such_task(&self, name: &str) -> Refusal {
        let names: Vec<&str> = self.status.tasks.iter().map(|task| task.name.as_str()).collect();
        let name: String = name.chars().take(128).collect();
        let text = format!("Could not find task {name:?}: the allocation has {}", names.join(", "));
        Refusal::new(RefusalKind::NotFound, text)
    }

    fn nothing_runs(&self) -> Refusal {
        let why = if self.tasks_are_dead() { "it has ended" } else { "wait until one does" };
        not_running(format!("no task of allocation {} runs: {why}", self.id()))
    }

    pub(in crate::lifecycle) fn restart(
        &mut self,
        request: &RestartTasks,
        now_ns: u64,
    ) -> Result<(), Refusal> {
        if request.all && !request.task.is_empty() {
            let text = "either all tasks are restarted or the one that is named: leave one of the two out";
            return Err(Refusal::new(RefusalKind::Invalid, text));
        }
        // An allocation that has ended is in the log as such; one that is ending is not held up.
        if self.tasks_are_dead() {
            return Err(self.nothing_runs());
        }
        if self.cause_of_end().is_some() {
            return Err(not_running(format!("allocation {} is being stopped", self.id())));
        }
        let tasks = if request.all { (0..self.tasks.len()).collect() } else { self.running(&request.task)? };
        for task in tasks {
            self.request_restart(task, "User requested task to restart", now_ns);
        }
        Ok(())
    }

    pub(in crate::lifecycle) fn request_restart(&mut self, task: usize, why: &str, now_ns: u64) {
        let request = event(TaskEventKind::RestartSignaled, now_ns, why);
        match self.tasks[task].phase {
            Phase::Running if self.tasks[task].restart != Restart::Requested => {
                self.note(task, request);
                self.tasks[task].restart = Restart::Requested;
                self.dirty = true;
            }
            Phase::Dead | Phase::Backoff { .. } => {
                self.note(task, request);
                self.start_again(task, now_ns);
            }
            // It will run again in any case.
            Phase::Running | Phase::Waiting | Phase::Preparing | Phase::Starting => {}
        }
    }

    /// Begins the end of tasks that are to restart: a rule about the present state, so that it holds after a restart of
    /// the agent too.
    pub(super) fn end_what_restarts(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        for task in 0..self.tasks.len() {
            let known = &mut self.tasks[task];
            if known.restart != Restart::No && known.phase == Phase::Running && known.kill == Kill::No {
                known.kill = Kill::Delayed { until_ns: now_ns };
                self.next_kill_step(task, now_ns, actions);
            }
        }
    }

    /// The next start follows at once, and the restart policy does not count it.
    pub(super) fn start_again(&mut self, task: usize, now_ns: u64) {
        let known = &mut self.tasks[task];
        (known.restart, known.kill, known.phase) =
            (Restart::No, Kill::No, Phase::Backoff { until_ns: now_ns });
        let status = &mut self.status.tasks[task];
        (status.state, status.finished_ns) = (TaskPhase::Pending as i32, 0);
        status.restarts += 1;
        status.last_restart_ns = now_ns;
        self.note(task, event(TaskEventKind::Restarting, now_ns, "Restart asked for"));
        self.dirty = true;
    }

    pub(in crate::lifecycle) fn signal(
        &mut self,
        name: &str,
        signal: i32,
        now_ns: u64,
    ) -> Result<Vec<TaskRef>, Refusal> {
        let (tasks, signal) = (self.running(name)?, signals::name(signal));
        for task in &tasks {
            self.note(
                *task,
                event(TaskEventKind::Signaling, now_ns, format!("Task being sent signal {signal}")),
            );
        }
        Ok(tasks.into_iter().map(|task| self.task_ref(task)).collect())
    }
}

fn not_running(reason: String) -> Refusal {
    Refusal::new(RefusalKind::Invalid, format!("Task not running: {reason}"))
}
