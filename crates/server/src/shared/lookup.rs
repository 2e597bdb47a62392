//! Lookups that join several tables of the state.

use berth_model::{
    EvalId, Index,
    alloc::{ClientStatus, DesiredStatus},
    eval::{EvalStatus, Trigger},
    node::NodeStatus,
    store::{AllocDetail, AllocRow, AllocSlot, JobRow, JobStatus},
};

use super::View;

impl View {
    /// Whether an allocation's node is disconnected, so that nobody knows its status.
    pub(crate) fn is_unknown(&self, row: &AllocRow) -> bool {
        let node = || self.store.nodes().row(row.node);
        row.is_desired() && node().is_some_and(|node| node.status == NodeStatus::Disconnected)
    }

    /// Where what is observed of an allocation last changed; 0 once the log tells of its end, at an index above all that was observed
    /// before.
    pub(crate) fn observed_index(&self, slot: AllocSlot, row: &AllocRow) -> Index {
        if row.is_terminal() { Index::default() } else { self.observed.alloc_index(slot, row.id) }
    }

    /// The evaluation that waits for the time at which something takes the place of an allocation: of one that failed, or
    /// that is unknown.
    pub(crate) fn followup(&self, row: &AllocRow, detail: &AllocDetail) -> Option<EvalId> {
        let is_unknown = self.is_unknown(row);
        let trigger = match row.client {
            ClientStatus::Failed if row.desired == DesiredStatus::Run => Trigger::RetryFailedAlloc,
            _ if is_unknown => Trigger::DisconnectTimeout,
            _ => return None,
        };
        let job = self.store.jobs().row(row.job)?;
        let is_replaced = detail.extra().is_some_and(|extra| extra.next.is_some());
        if job.open_evals == 0 || is_replaced && !is_unknown {
            return None;
        }
        let mut evals = self.store.jobs().evals(job).filter_map(|slot| self.store.evals().row(slot));
        evals.find(|eval| eval.trigger == trigger && eval.status == EvalStatus::Pending).map(|eval| eval.id)
    }

    /// The outcome of a job that is dead by itself: `failed`, `complete`, or nothing. Reads all its allocations, but only if some of
    /// them ended badly.
    pub(crate) fn job_outcome(&self, job: &JobRow) -> &'static str {
        if job.status() != JobStatus::Dead || job.job().stop {
            return "";
        }
        if job.counts.iter().any(|counts| counts.failed + counts.lost > 0) {
            let unreplaced =
                self.store.jobs().allocs(job).filter_map(|slot| self.ended_unreplaced(job, slot));
            if let Some(last) = unreplaced.max() {
                return if self.was_judged(job, last) { "failed" } else { "" };
            }
        }
        let completed =
            job.job().job_type.runs_to_completion() && job.counts.iter().any(|counts| counts.complete > 0);
        if completed { "complete" } else { "" }
    }

    /// Where an allocation ended that is part of what the job asks for now, if it ended badly and nothing took its place.
    fn ended_unreplaced(&self, job: &JobRow, slot: AllocSlot) -> Option<Index> {
        let row = self.store.allocs().row(slot)?;
        let is_replaced = || self.store.allocs().extra(slot).is_some_and(|extra| extra.next.is_some());
        let is_bad = matches!(row.client, ClientStatus::Failed | ClientStatus::Lost)
            && row.desired == DesiredStatus::Run
            && !is_replaced()
            && job.covers(row);
        is_bad.then_some(row.modify_index)
    }

    /// Whether an evaluation has seen an end, which may be written before the evaluation that it asks for.
    fn was_judged(&self, job: &JobRow, ended: Index) -> bool {
        let mut evals =
            self.store.jobs().evals(job).filter_map(|slot| self.store.evals().row(slot)).peekable();
        // Old evaluations are collected.
        evals.peek().is_none() || evals.any(|eval| eval.snapshot_index >= ended)
    }
}
