//! Carries out what the lifecycle decides.

use berth_api::agent::{AllocId, AllocStatus, Fence};

use super::Agent;
use super::disk_work::{DiskDone, QueuedAction};
use super::runner::TaskCommand;
use crate::failure::Failure;
use crate::lifecycle::{Action, Event, StartFailure, StartFailureKind, TaskRef};

impl Agent {
    /// Executes actions, those of each allocation in order: what follows something on disk waits until that is there.
    pub(super) fn perform(&mut self, actions: impl IntoIterator<Item = Action>) {
        self.perform_queued(actions.into_iter().map(|action| (action, None)));
    }

    fn perform_queued(&mut self, actions: impl IntoIterator<Item = QueuedAction>) {
        for (action, status) in actions {
            let alloc = action.alloc();
            let now = || self.node.alloc(alloc).map(|alloc| alloc.status().clone());
            let is_report = matches!(action, Action::Report { .. });
            let status = if is_report { status.or_else(now) } else { None };
            if self.disk_work.is_busy(alloc) {
                self.disk_work.queue(alloc, (action, status));
                continue;
            }
            match action {
                Action::Persist(alloc) => self.persist(alloc),
                Action::Prepare(alloc) => self.prepare(alloc),
                Action::CleanUp(alloc) => self.clean_up(alloc),
                Action::StartTask(of) => self.start(of),
                Action::Recover(of) => self.recover(of),
                Action::SignalTask(of) => self.signal(of),
                Action::CancelStart(of) => self.runners.command(of, TaskCommand::CancelStart),
                Action::KillTask(of) => self.runners.command(of, TaskCommand::Kill),
                Action::Check(of) => self.run_check(of),
                Action::Report { alloc, urgent } => self.report(alloc, status.as_ref(), urgent),
                Action::RemoveDir(alloc) => self.disk_work.remove(alloc, self.session.fence()),
            }
        }
    }

    /// The disk has done what was asked of it for an allocation, or could not.
    pub(super) fn on_disk_done(&mut self, done: DiskDone) {
        match done {
            DiskDone::Alloc(alloc, result) => self.on_alloc_done(alloc, result),
            DiskDone::Fence { before, result } => self.on_joined(before, result),
        }
    }

    fn on_alloc_done(&mut self, alloc: AllocId, result: Result<(), Failure>) {
        let mut waiting = self.disk_work.take(alloc);
        let Err(failure) = result else { return self.perform_queued(waiting) };
        tracing::error!(%alloc, %failure, "could not write down or remove an allocation");
        // What is not on disk may not be started: an agent that comes after would not know of it.
        let covered = waiting.iter().take_while(|(action, _)| !matches!(action, Action::Persist(_))).count();
        let after = waiting.split_off(covered);
        let is_start = |action: &Action| matches!(action, Action::StartTask(_) | Action::Prepare(_));
        let (starts, others): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(action, _)| is_start(action));
        self.perform_queued(others.into_iter().chain(after));
        self.fail_starts(starts, &failure);
    }

    fn persist(&mut self, alloc: AllocId) {
        let Some(mut record) = self.node.record(alloc) else { return };
        let Fence { cluster, term, index } = self.session.fence();
        (record.term, record.index) = (term, index);
        record.cluster_id = cluster.map_or(Vec::new(), |cluster| cluster.0.to_vec());
        self.disk_work.write(alloc, record);
    }

    fn fail_starts(&mut self, starts: Vec<QueuedAction>, failure: &Failure) {
        for (action, _) in starts {
            let failure = StartFailure { kind: StartFailureKind::Recoverable, message: failure.to_string() };
            match action {
                Action::StartTask(of) => self.handle(Event::StartFailed(of, failure)),
                Action::Prepare(alloc) => self.handle(Event::PrepareFailed(alloc, failure)),
                _ => {}
            }
        }
    }

    fn start(&mut self, of: TaskRef) {
        if let Some(run) = self.node.spec_to_start(of.alloc) {
            self.runners.start(of, run, self.data.paths(of.alloc));
        }
    }

    fn recover(&mut self, of: TaskRef) {
        if let Some(alloc) = self.node.alloc(of.alloc) {
            self.runners.recover(of, alloc.spec().clone(), self.data.paths(of.alloc));
        }
    }

    fn signal(&self, of: TaskRef) {
        if let Some(alloc) = self.node.alloc(of.alloc) {
            let signal = self.context.kill_signal(&alloc.spec().group.tasks[usize::from(of.task)]);
            self.runners.command(of, TaskCommand::Signal(signal));
        }
    }

    fn report(&mut self, alloc: AllocId, status: Option<&AllocStatus>, urgent: bool) {
        let Some(status) = status else { return };
        self.session.observe(alloc, status, urgent, self.clock.now_ns());
        self.reads.on_status(alloc, status);
    }
}
