//! Ends of allocations: from agents' reports into the log, with the evaluations that they ask for.

use berth_model::{
    Timestamp,
    alloc::{AllocEnd, ClientStatus, DesiredStatus, RESULT_MESSAGE_BYTES_MAX, Stop, StopReason, TaskResult},
    command::Command,
    eval::{Eval, EvalStatus, Trigger},
    observed::{Observed, ObservedAlloc, ObservedTask},
    store::{AllocRow, AllocSlot, JobRow, JobSlot, Store},
};

use super::Leader;
use berth_model::EvalId;

/// The version of entries in which an end says when it was seen.
const SEEN_SINCE: u8 = 6;

impl Leader {
    /// What an agent has observed of an allocation of its own that has not ended in the log.
    pub(super) fn on_observed(
        &mut self,
        store: &Store,
        slot: AllocSlot,
        row: &AllocRow,
        alloc: &ObservedAlloc,
    ) {
        if alloc.status.is_terminal() && self.work.ending.insert(alloc.id) {
            self.work.ended.push(end_of(store, alloc, self.time));
            self.want_after_end(store, row.job, row.desired, alloc.status);
        }
        self.on_health(store, slot, alloc);
    }

    fn want_after_end(&mut self, store: &Store, job: JobSlot, desired: DesiredStatus, status: ClientStatus) {
        let Some(row) = store.jobs().row(job) else { return };
        if asks_for_evaluation(row, desired, status) {
            self.work.wanting.insert(row.key.clone(), Trigger::AllocFailure);
        }
    }

    /// An end that asked for nothing when it was reported, of an allocation that is wanted in the state in which it came true: another
    /// one was restored meanwhile. Otherwise its evaluation came with it.
    pub(super) fn want_if_overlooked(&mut self, store: &Store, slot: AllocSlot) {
        let Some(row) = store.allocs().row(slot).filter(|row| row.ended_by_itself()) else { return };
        let Some(job) = store.jobs().row(row.job) else { return };
        let mut evals = store.jobs().evals(job).filter_map(|slot| store.evals().row(slot));
        if asks_for_evaluation(job, row.desired, row.client)
            && !evals.any(|eval| eval.status == EvalStatus::Pending)
        {
            self.work.wanting.insert(job.key.clone(), Trigger::AllocFailure);
        }
    }

    /// Ends of allocations and the evaluations they ask for go into the same entry, as far as they fit.
    pub(super) fn write_ends(&mut self) {
        let ended = std::mem::take(&mut self.work.ended);
        self.outbox.push_list(&ended, &Command::EndAllocs);
    }

    /// Makes evaluations of the jobs that ask for one.
    pub(super) fn evaluate_wanting(&mut self, store: &Store) {
        if std::mem::take(&mut self.work.node_added) {
            self.want_per_node_jobs(store);
        }
        for (key, trigger) in std::mem::take(&mut self.work.wanting) {
            let Some(row) = store.job(&key) else { continue };
            let job = row.job();
            let eval = Eval::pending(EvalId(self.ids.mint()), key, job.job_type, job.priority, trigger);
            self.outbox.push(Command::CreateEvals(vec![eval]));
        }
    }

    fn want_per_node_jobs(&mut self, store: &Store) {
        let per_node = store.jobs().iter().filter(|(_, r)| r.job().job_type.is_per_node() && !r.job().stop);
        self.work.wanting.extend(per_node.map(|(_, row)| (row.key.clone(), Trigger::NodeUpdate)));
    }
}

/// An end that nobody asked for asks for an evaluation, unless it is the good end of batch work.
fn asks_for_evaluation(job: &JobRow, desired: DesiredStatus, status: ClientStatus) -> bool {
    let good = job.job().job_type.runs_to_completion() && status == ClientStatus::Complete;
    desired == DesiredStatus::Run && !good
}

/// What the log keeps of an end that is observed now.
fn end_of(store: &Store, alloc: &ObservedAlloc, now: Timestamp) -> AllocEnd {
    AllocEnd {
        alloc: alloc.id,
        status: alloc.status,
        tasks: alloc.tasks.iter().map(result_of).collect(),
        observed_at: if_ahead(store, alloc.modified_at, now),
    }
}

/// The time of an observation, where the clock of its node is ahead: otherwise the entry's is later. None as long as servers do
/// not all know of it.
fn if_ahead(store: &Store, observed_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
    (observed_at > now && store.version() >= SEEN_SINCE).then_some(observed_at)
}

/// Allocations on silent nodes end by these decisions, and readers have seen when they changed last.
pub(super) fn set_observed_ends(stops: &mut [Stop], store: &Store, observed: &Observed, now: Timestamp) {
    let lost = |stop: &&mut Stop| matches!(stop.reason, StopReason::NodeLost | StopReason::OriginalKept);
    for stop in stops.iter_mut().filter(lost) {
        let slot = store.allocs().find(stop.alloc);
        let observed_at = slot.and_then(|slot| observed.modified_at(slot, stop.alloc));
        stop.observed_at = observed_at.and_then(|observed_at| if_ahead(store, observed_at, now));
    }
}

fn result_of(task: &ObservedTask) -> TaskResult {
    let (exit_code, signal, oom_killed) = task.exit;
    let message = task.events.last().map_or("", |event| &event.message);
    TaskResult {
        exit_code,
        signal,
        oom_killed,
        failed: task.failed,
        restarts: task.restarts,
        started_at: task.started_at,
        finished_at: task.finished_at,
        message: message[..message.floor_char_boundary(RESULT_MESSAGE_BYTES_MAX)].to_owned(),
    }
}
