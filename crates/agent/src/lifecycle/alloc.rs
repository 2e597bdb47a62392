//! One allocation: its tasks start together, or one after the other by their hooks, and the end of one may end the others.

mod checks;
mod clock;
mod commands;
mod ending;
mod health;
mod hooks;
mod limit;
mod setup;

use std::{collections::BTreeSet, num::NonZeroU64};

use berth_api::agent::{
    AllocId, AllocStatus, ClientStatus, OVER_DISK_LIMIT, TaskEventEntry, TaskEventKind, TaskPhase, TaskSpec,
    TaskStatus,
};

use self::setup::Setup;
use super::checks::Probe;
use super::history::{event, push};
use super::restart::{RestartVerdict, decide, mix};
use super::task::{KILL_TIMEOUT_MS_MAX, Kill, Phase, Restart, Task};
use super::{Action, AllocRecord, Exit, FoundTask, RunSpec, StartFailure, StartFailureKind, TaskRef};

const SIGKILL: i32 = 9;

/// An allocation on its node.
#[derive(Debug)]
pub struct Alloc {
    run: RunSpec,
    status: AllocStatus,
    tasks: Box<[Task]>,
    setup: Setup,
    seed: u64,
    /// From when on kill signals may be sent: the group's shutdown delay after the first reason for one.
    kill_from_ns: Option<NonZeroU64>,
    /// The longest time that a task gets between its kill signal and SIGKILL.
    kill_timeout_ms_max: u32,
    stop: bool,
    lost: bool,
    /// It had to end because there was no contact with a server for too long.
    deserted: bool,
    /// It ended in an earlier run of the agent; only this status is known.
    ended_as: Option<ClientStatus>,
    pub(super) interest: Interest,
    /// Set while a deployment waits for its health.
    watch: Option<Box<health::HealthWatch>>,
    /// One for each check of the group.
    probes: Box<[Probe]>,
    changed: bool,
    dirty: bool,
}

/// Who is still interested in an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Interest {
    /// The servers: its status is reported.
    Reported,
    /// Not the servers; users may still read its files.
    Forgotten,
    /// The allocation is to be forgotten on this node, its files included.
    Purged,
}

impl Alloc {
    pub(super) fn new(run: RunSpec, seed: u64, now_ns: u64) -> Self {
        let tasks = vec![Task::default(); run.group.tasks.len()].into();
        let named = |task: &TaskSpec| TaskStatus { name: task.name.clone(), ..TaskStatus::default() };
        let status = AllocStatus {
            alloc_id: run.alloc.0.to_vec(),
            tasks: run.group.tasks.iter().map(named).collect(),
            revision: run.revision(),
            ..AllocStatus::default()
        };
        let mut alloc = Self::with(run, status, tasks, seed);
        (0..alloc.tasks.len()).for_each(|task| alloc.note(task, event(TaskEventKind::Received, now_ns, "")));
        (alloc.changed, alloc.dirty) = (true, true);
        alloc
    }

    /// One that ended here before; the statuses of its tasks are no longer known.
    pub(super) fn ended(run: RunSpec, status: ClientStatus, seed: u64, now_ns: u64) -> Self {
        let mut alloc = Self::new(run, seed, now_ns);
        (alloc.stop, alloc.ended_as) = (true, Some(status));
        for task in 0..alloc.tasks.len() {
            alloc.status.tasks[task].failed = status == ClientStatus::Failed;
            alloc.die(task, now_ns);
        }
        alloc
    }

    fn with(run: RunSpec, status: AllocStatus, tasks: Box<[Task]>, seed: u64) -> Self {
        let interest = Interest::Reported;
        let (kill_from_ns, stop, lost, deserted, changed, dirty) = (None, false, false, false, false, false);
        let (ended_as, watch, probes) = (None, None, Self::probes(&run.group.checks));
        Self {
            run,
            status,
            tasks,
            setup: Setup::Nothing,
            seed,
            kill_from_ns,
            kill_timeout_ms_max: KILL_TIMEOUT_MS_MAX,
            stop,
            lost,
            deserted,
            ended_as,
            interest,
            watch,
            probes,
            changed,
            dirty,
        }
    }

    pub(super) fn restore(run: RunSpec, record: AllocRecord, seed: u64) -> Self {
        let mut tasks: Vec<Task> = record.tasks.iter().map(Task::from).collect();
        // Records of older versions do not say it otherwise.
        let may_exist = record.may_exist || tasks.iter().any(|task| task.attempt > 0);
        tasks.resize(run.group.tasks.len(), Task::default());
        let mut status = record.status.unwrap_or_default();
        status.tasks.resize(tasks.len(), TaskStatus::default());
        let mut alloc = Self::with(run, status, tasks.into(), seed);
        alloc.setup = Setup::restored(may_exist);
        (alloc.stop, alloc.lost, alloc.deserted) = (record.stop, record.lost, record.deserted);
        alloc.interest = match (record.purged, record.forgotten) {
            (true, _) => Interest::Purged,
            (_, true) => Interest::Forgotten,
            _ => Interest::Reported,
        };
        alloc
    }

    /// The node's limit for the kill timeouts of tasks.
    pub(super) fn limit_kill_timeout(&mut self, ms_max: u32) {
        self.kill_timeout_ms_max = ms_max;
    }

    pub(super) fn record(&self) -> AllocRecord {
        let mut status = self.status.clone();
        if self.tasks_are_dead() {
            // Nothing more is written once it is cleaned up: this is how it ended.
            let outcome = self.outcome();
            (status.status, status.description) = (outcome as i32, self.description(outcome).into());
        }
        AllocRecord {
            alloc_id: self.id().0.to_vec(),
            run: Some(self.run.to_record()),
            stop: self.stop,
            forgotten: self.interest >= Interest::Forgotten,
            purged: self.interest == Interest::Purged,
            status: Some(status),
            tasks: self.tasks.iter().map(Into::into).collect(),
            lost: self.lost,
            term: 0,
            index: 0,
            cluster_id: Vec::new(),
            deserted: self.deserted,
            may_exist: self.setup.may_exist(),
        }
    }

    /// The allocation's id.
    pub fn id(&self) -> AllocId {
        self.run.alloc
    }

    /// The desired state of the allocation.
    pub fn spec(&self) -> &RunSpec {
        &self.run
    }

    /// Its status, as reported to the servers.
    pub fn status(&self) -> &AllocStatus {
        &self.status
    }

    /// Whether it was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.stop
    }

    /// Whether nothing of it runs or ever will, and nothing of what was prepared for it is left.
    pub fn has_ended(&self) -> bool {
        self.tasks_are_dead() && self.setup == Setup::Nothing
    }

    /// Whether there may be files of it that grow: it is prepared, or was started before the agent was.
    pub fn has_files(&self) -> bool {
        let runs = || self.tasks.iter().any(|task| matches!(task.phase, Phase::Starting | Phase::Running));
        self.setup.may_exist() && (self.setup != Setup::Preparing || runs())
    }

    /// Whether all that ran of it has ended, and what was prepared for it is being removed.
    pub fn is_cleaning_up(&self) -> bool {
        self.setup == Setup::CleaningUp
    }

    /// Whether none of its tasks runs, or is to run again.
    pub fn tasks_are_dead(&self) -> bool {
        self.tasks.iter().all(Task::is_dead)
    }

    /// The latest run of one of its tasks.
    pub fn task_ref(&self, task: usize) -> TaskRef {
        TaskRef { alloc: self.id(), task: task as u16, attempt: self.tasks[task].attempt }
    }

    /// Whether a process of this task may live.
    pub fn has_begun(&self, task: usize) -> bool {
        matches!(self.tasks[task].phase, Phase::Starting | Phase::Running)
    }

    /// Its tasks that run, where no other of them is being started or prepared: whatever is written to its files, they write.
    /// None where that is not so, or nothing runs.
    pub fn only_writers(&self) -> Option<Vec<TaskRef>> {
        let is_set_up = !matches!(self.setup, Setup::Preparing | Setup::CleaningUp);
        let begins = self.tasks.iter().any(|task| matches!(task.phase, Phase::Preparing | Phase::Starting));
        let running = (0..self.tasks.len()).filter(|task| self.tasks[*task].phase == Phase::Running);
        let running: Vec<TaskRef> = running.map(|task| self.task_ref(task)).collect();
        (is_set_up && !begins && !running.is_empty()).then_some(running)
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.stop && !self.tasks_are_dead() && !self.has_started()
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        let of_tasks = self.tasks.iter().filter_map(Task::deadline);
        let of_all = [self.health_deadline(), self.checks_deadline(), self.run_deadline()];
        of_tasks.chain(of_all.into_iter().flatten()).min()
    }

    /// The task that `of` speaks of, unless that is stale.
    pub(super) fn current(&self, of: TaskRef) -> Option<usize> {
        let task = usize::from(of.task);
        let current = self.tasks.get(task).is_some_and(|known| known.attempt == of.attempt);
        (current && self.has_begun(task)).then_some(task)
    }

    fn note(&mut self, task: usize, event: TaskEventEntry) {
        push(&mut self.status.tasks[task], event);
        self.changed = true;
    }

    /// Takes over what may change while tasks run, as their restart policies, with what was counted against these. What may
    /// not is never sent with the same id.
    pub(super) fn update(&mut self, mut run: RunSpec) {
        // Found out when it came first, when more was known of those before it.
        run.previous.clone_from(&self.run.previous);
        if self.is_waiting() {
            self.wait_on(&mut run);
        }
        if run == self.run || run.group.tasks.len() != self.tasks.len() {
            return;
        }
        self.replace_checks(&run.group.checks);
        if run.revision() != self.run.revision() {
            self.status.revision = run.revision();
            self.reset_health();
        }
        self.run = run;
        self.dirty = true;
    }

    /// Predecessors that were named once are waited for even if a later update omits them: after a restore servers may not know of
    /// them, and they hold the resources all the same.
    fn wait_on(&self, run: &mut RunSpec) {
        let known: BTreeSet<AllocId> = self.run.after.iter().copied().collect();
        let new = run.after.iter().filter(|id| !known.contains(id));
        run.after = self.run.after.iter().chain(new).copied().collect();
    }

    pub(super) fn start(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        let first: Vec<usize> = (0..self.tasks.len()).filter(|task| self.may_begin(*task)).collect();
        self.begin(&first, now_ns, actions);
    }

    /// The attempt is on disk before it is made: the next agent knows from the record which tasks may run.
    fn begin(&mut self, tasks: &[usize], now_ns: u64, actions: &mut Vec<Action>) {
        for &task in tasks {
            if self.tasks[task].attempt == 0 {
                self.note(task, event(TaskEventKind::TaskSetup, now_ns, "Building Task Directory"));
            }
            self.tasks[task].attempt += 1;
            self.tasks[task].restart = Restart::No;
        }
        actions.push(Action::Persist(self.id()));
        self.dirty = false;
        self.launch(tasks, actions);
    }

    pub(super) fn stop(&mut self, interest: Interest) {
        self.dirty |= !self.stop || interest > self.interest;
        self.stop = true;
        self.interest = self.interest.max(interest);
    }

    /// After how many nanoseconds without a server it has to end, if it lives.
    pub(super) fn stops_after_silence(&self) -> Option<u64> {
        let after_ms = self.run.group.stop_after_silence_ms;
        (after_ms > 0 && !self.stop && !self.tasks_are_dead()).then(|| after_ms.saturating_mul(1_000_000))
    }

    /// There was no contact with a server for too long.
    pub(super) fn desert(&mut self) {
        (self.stop, self.deserted, self.dirty) = (true, true, true);
    }

    pub(super) fn on_noted(&mut self, task: usize, kind: TaskEventKind, message: String, at_ns: u64) {
        self.note(task, event(kind, at_ns, message));
    }

    pub(super) fn on_started(&mut self, task: usize, at_ns: u64) {
        self.tasks[task].phase = Phase::Running;
        self.tasks[task].since_ns = at_ns;
        let status = &mut self.status.tasks[task];
        status.state = TaskPhase::Running as i32;
        if status.started_ns == 0 {
            status.started_ns = at_ns;
        }
        self.note(task, event(TaskEventKind::Started, at_ns, ""));
    }

    pub(super) fn on_found(&mut self, task: usize, found: FoundTask, now_ns: u64, actions: &mut Vec<Action>) {
        let was_running = self.status.tasks[task].state() == TaskPhase::Running;
        match found {
            FoundTask::Running { started_ns } if was_running => {
                self.tasks[task].phase = Phase::Running;
                self.tasks[task].since_ns = started_ns.min(now_ns);
            }
            FoundTask::Running { started_ns } => self.on_started(task, started_ns.min(now_ns)),
            FoundTask::Nothing if self.tasks[task].kill != Kill::No => self.killed(task, now_ns),
            FoundTask::Nothing => self.launch(&[task], actions),
            FoundTask::Rebooted => {
                self.lost = true;
                self.die(task, now_ns);
            }
        }
    }

    pub(super) fn on_start_failed(&mut self, task: usize, failure: StartFailure, now_ns: u64) {
        let kind = match failure.kind {
            StartFailureKind::Setup => TaskEventKind::SetupFailure,
            StartFailureKind::Driver | StartFailureKind::Recoverable => TaskEventKind::DriverFailure,
        };
        let fails_task = failure.kind == StartFailureKind::Setup;
        self.note(task, TaskEventEntry { fails_task, ..event(kind, now_ns, failure.message) });
        match failure.kind {
            _ if self.tasks[task].kill != Kill::No => self.killed(task, now_ns),
            StartFailureKind::Recoverable => self.restart_or_fail(task, now_ns),
            StartFailureKind::Driver => self.fail(task, "Error was unrecoverable", now_ns),
            StartFailureKind::Setup => {
                self.status.tasks[task].failed = true;
                self.die(task, now_ns);
            }
        }
    }

    pub(super) fn on_exited(&mut self, task: usize, exit: Exit, now_ns: u64) {
        let success = exit.is_success();
        let Exit { exit_code, signal, oom_killed, message, at_ns } = exit;
        // It may have ended by itself just before.
        let message = match self.tasks[task].overran && signal == SIGKILL {
            true if message.is_empty() => OVER_DISK_LIMIT.to_owned(),
            true => format!("{message}; {OVER_DISK_LIMIT}"),
            false => message,
        };
        let terminated = event(TaskEventKind::Terminated, at_ns, message);
        self.note(task, TaskEventEntry { exit_code, signal, oom_killed, ..terminated });
        let status = &mut self.status.tasks[task];
        (status.exit_code, status.signal, status.oom_killed) = (exit_code, signal, oom_killed);
        let restart = if self.cause_of_end().is_none() { self.tasks[task].restart } else { Restart::No };
        if restart == Restart::Requested {
            self.start_again(task, now_ns);
        } else if restart == Restart::Unhealthy {
            self.tasks[task].kill = Kill::No;
            self.restart_or_fail(task, now_ns);
        } else if self.tasks[task].kill != Kill::No {
            self.killed(task, at_ns);
        } else if success && self.success_is_final(task) {
            self.die(task, at_ns);
        } else {
            self.restart_or_fail(task, now_ns);
        }
    }

    fn restart_or_fail(&mut self, task: usize, now_ns: u64) {
        let random = mix(self.seed, u64::from(self.tasks[task].attempt) << 16 | task as u64);
        let policy = self.restart_policy(task);
        match decide(&policy, &mut self.tasks[task].window, now_ns, random) {
            RestartVerdict::Fail { reason } => self.fail(task, &reason, now_ns),
            RestartVerdict::Restart { delay_ns, reason } => {
                self.tasks[task].phase = Phase::Backoff { until_ns: now_ns.saturating_add(delay_ns) };
                let status = &mut self.status.tasks[task];
                status.state = TaskPhase::Pending as i32;
                status.restarts += 1;
                status.last_restart_ns = now_ns;
                self.note(
                    task,
                    TaskEventEntry { delay_ns, ..event(TaskEventKind::Restarting, now_ns, reason) },
                );
            }
        }
    }

    fn fail(&mut self, task: usize, reason: &str, now_ns: u64) {
        self.note(
            task,
            TaskEventEntry { fails_task: true, ..event(TaskEventKind::NotRestarting, now_ns, reason) },
        );
        self.status.tasks[task].failed = true;
        self.die(task, now_ns);
    }

    fn killed(&mut self, task: usize, now_ns: u64) {
        self.note(task, event(TaskEventKind::Killed, now_ns, ""));
        self.die(task, now_ns);
    }

    fn die(&mut self, task: usize, now_ns: u64) {
        self.tasks[task].phase = Phase::Dead;
        self.tasks[task].kill = Kill::No;
        let status = &mut self.status.tasks[task];
        status.state = TaskPhase::Dead as i32;
        status.finished_ns = now_ns;
        (self.changed, self.dirty) = (true, true);
    }

    /// Does what time alone calls for.
    pub(super) fn on_tick(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        self.follow_clock(now_ns);
        let is_due = |task: &usize| self.tasks[*task].deadline().is_some_and(|at_ns| at_ns <= now_ns);
        let due: Vec<usize> = (0..self.tasks.len()).filter(is_due).collect();
        let (backoffs, kills): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|task| matches!(self.tasks[*task].phase, Phase::Backoff { .. }));
        self.restart_after_backoff(backoffs, now_ns, actions);
        kills.into_iter().for_each(|task| self.next_kill_step(task, now_ns, actions));
    }

    /// Draws the consequences of what has just happened; to be called after each event.
    pub(super) fn settle(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        // In this order: what fails by a limit is ended at once, an end may let poststop tasks start, and only what is dead after
        // that is cleaned up.
        self.limit_run(now_ns);
        self.enforce(now_ns, actions);
        self.start_waiting_tasks(now_ns, actions);
        self.run_checks(now_ns, actions);
        self.clean_up(actions);
        let found = self.judge_health(now_ns);
        let status = self.client_status();
        // A task that restarts often does not cost an urgent report each time; that a running task does not stay up does.
        let restarts = self.status.tasks.iter().map(|task| task.restarts).max().unwrap_or_default();
        let no_task_runs = self.status.status() == ClientStatus::Running && status == ClientStatus::Pending;
        let is_new_event = status.is_terminal()
            || restarts == 0 && status != ClientStatus::Pending
            || no_task_runs && restarts <= 1;
        let urgent = found || self.changed && self.status.status() != status && is_new_event;
        if self.dirty {
            actions.push(Action::Persist(self.id()));
        }
        self.dirty = false;
        if self.setup == Setup::CleaningUp {
            // It is reported once with its whole outcome, and not before its resources are free.
            return;
        }
        if self.changed {
            self.status.status = status as i32;
            self.status.description = self.description(status).into();
            self.status.modified_ns = now_ns;
        }
        if self.changed && self.interest == Interest::Reported {
            actions.push(Action::Report { alloc: self.id(), urgent });
        }
        self.changed = false;
    }

    /// Ended only when all tasks have, and nothing is left of what was prepared: until then the allocation holds its resources. It
    /// is running while one of its tasks is, and pending between two starts.
    fn client_status(&self) -> ClientStatus {
        if self.has_ended() {
            return self.outcome();
        }
        let runs = self.status.tasks.iter().any(|task| task.state() == TaskPhase::Running);
        if runs { ClientStatus::Running } else { ClientStatus::Pending }
    }

    /// How it ended, once all tasks have.
    fn outcome(&self) -> ClientStatus {
        if let Some(status) = self.ended_as {
            status
        } else if self.lost || self.deserted {
            ClientStatus::Lost
        } else if self.status.tasks.iter().any(|task| task.failed) {
            ClientStatus::Failed
        } else {
            ClientStatus::Complete
        }
    }

    fn description(&self, status: ClientStatus) -> &'static str {
        if self.ended_as.is_some() {
            return "It ended here before; how is no longer known in detail";
        }
        match status {
            ClientStatus::Pending if self.status.tasks.iter().any(|task| task.restarts != 0) => {
                "Tasks are between two starts"
            }
            ClientStatus::Pending if self.status.tasks.iter().any(|task| task.started_ns != 0) => {
                "Some tasks have not started yet"
            }
            ClientStatus::Pending => "No tasks have started",
            ClientStatus::Running => "Tasks are running",
            ClientStatus::Complete => "All tasks have completed",
            ClientStatus::Failed => "Failed tasks",
            ClientStatus::Lost if self.deserted => "Stopped: no server was heard of for too long",
            ClientStatus::Lost => "The node restarted while the allocation ran",
        }
    }
}
