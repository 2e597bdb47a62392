//! Carries out what the lifecycle decides.

use berth_api::agent::{AllocId, Fence, TaskState};

use super::Agent;
use super::disk_work::Done;
use super::runner::TaskCommand;
use crate::failure::Failure;
use crate::lifecycle::{Action, Event, StartFailure, StartFailureKind, TaskRef};

impl Agent {
    /// Executes actions, those of each allocation in order: what follows something on disk waits until that is there.
    pub(super) fn perform(&mut self, actions: impl IntoIterator<Item = Action>) {
        for action in actions {
            if self.disk_work.queue(action.alloc(), action) {
                continue;
            }
            match action {
                Action::Persist(alloc) => self.persist(alloc),
                Action::StartTask(of) => self.start(of),
                Action::Recover(of) => self.recover(of),
                Action::SignalTask(of) => self.signal(of),
                Action::KillTask(of) => self.runners.command(of, TaskCommand::Kill),
                Action::Report { alloc, urgent } => self.report(alloc, urgent),
                Action::RemoveDir(alloc) => self.disk_work.remove(alloc),
            }
        }
    }

    /// The disk has done what was asked of it for an allocation, or could not.
    pub(super) fn on_disk_done(&mut self, (alloc, result): Done) {
        let mut waiting = self.disk_work.take(alloc);
        let Err(failure) = result else { return self.perform(waiting) };
        tracing::error!(%alloc, %failure, "could not write down or remove an allocation");
        // What is not on disk may not be started: an agent that comes after would not know of it.
        let covered = waiting.iter().take_while(|action| !matches!(action, Action::Persist(_))).count();
        let after = waiting.split_off(covered);
        let (starts, others): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|action| matches!(action, Action::StartTask(_)));
        self.perform(others.into_iter().chain(after));
        self.fail_starts(starts, &failure);
    }

    fn persist(&mut self, alloc: AllocId) {
        let Some(mut record) = self.node.record(alloc) else { return };
        let Fence { cluster, term, index } = self.session.fence();
        (record.term, record.index) = (term, index);
        record.cluster_id = cluster.map_or(Vec::new(), |cluster| cluster.0.to_vec());
        self.disk_work.write(alloc, record);
    }

    fn fail_starts(&mut self, starts: Vec<Action>, failure: &Failure) {
        for action in starts {
            let Action::StartTask(of) = action else { continue };
            let failure = StartFailure { kind: StartFailureKind::Recoverable, message: failure.to_string() };
            self.handle(Event::StartFailed(of, failure));
        }
    }

    fn start(&mut self, of: TaskRef) {
        if let Some(alloc) = self.node.alloc(of.alloc) {
            self.runners.start(of, alloc.spec(), self.data.place(of.alloc));
        }
    }

    fn recover(&mut self, of: TaskRef) {
        if let Some(alloc) = self.node.alloc(of.alloc) {
            self.runners.recover(of, alloc.spec(), self.data.place(of.alloc));
        }
    }

    fn signal(&self, of: TaskRef) {
        if let Some(alloc) = self.node.alloc(of.alloc) {
            let signal = self.context.kill_signal(&alloc.spec().group.tasks[usize::from(of.task)]);
            self.runners.command(of, TaskCommand::Signal(signal));
        }
    }

    fn report(&mut self, alloc: AllocId, urgent: bool) {
        let Some(status) = self.node.alloc(alloc).map(|alloc| alloc.status()) else { return };
        self.session.observe(alloc, status, urgent, self.clock.now_ns());
        let done = status.tasks.iter().filter(|task| task.state() == TaskState::Dead);
        done.for_each(|task| self.reads.on_task_done(alloc, &task.name));
    }
}
