//! Carries out what the lifecycle decides.

use std::collections::VecDeque;

use berth_api::agent::{AllocId, Fence, TaskState};

use super::Agent;
use super::runner::TaskCommand;
use crate::failure::Failure;
use crate::lifecycle::{Action, Event, StartFailure, StartFailureKind, TaskRef};

impl Agent {
    /// Executes actions in order. What fails is news in turn.
    pub(super) fn perform(&mut self, actions: Vec<Action>) {
        let mut queue = VecDeque::from(actions);
        while let Some(action) = queue.pop_front() {
            match action {
                Action::Persist(alloc) => {
                    if let Err(failure) = self.persist(alloc) {
                        tracing::error!(%alloc, %failure, "could not write down an allocation");
                        // What is not on disk may not be started: an agent that comes after would not know of it.
                        let (starts, rest) = queue.into_iter().partition(|action| is_start(action, alloc));
                        queue = rest;
                        self.fail_starts(starts, &failure, &mut queue);
                    }
                }
                Action::StartTask(of) => self.start(of),
                Action::Recover(of) => self.recover(of),
                Action::SignalTask(of) => self.signal(of),
                Action::KillTask(of) => self.runners.command(of, TaskCommand::Kill),
                Action::Report { alloc, urgent } => self.report(alloc, urgent),
                Action::RemoveDir(alloc) => self.data.remove(alloc),
            }
        }
    }

    fn persist(&self, alloc: AllocId) -> Result<(), Failure> {
        let Some(mut record) = self.node.record(alloc) else { return Ok(()) };
        let Fence { cluster, term, index } = self.session.fence();
        (record.term, record.index) = (term, index);
        record.cluster_id = cluster.map_or(Vec::new(), |cluster| cluster.0.to_vec());
        self.data.write(alloc, &record)
    }

    fn fail_starts(&mut self, starts: VecDeque<Action>, failure: &Failure, queue: &mut VecDeque<Action>) {
        for action in starts {
            let Action::StartTask(of) = action else { continue };
            let failure = StartFailure { kind: StartFailureKind::Recoverable, message: failure.to_string() };
            let mut more = Vec::new();
            self.node.handle(Event::StartFailed(of, failure), self.clock.now_ns(), &mut more);
            queue.extend(more);
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

fn is_start(action: &Action, alloc: AllocId) -> bool {
    matches!(action, Action::StartTask(of) if of.alloc == alloc)
}
