//! Jobs.

use std::ops::RangeBounds;

use berth_model::{
    Index, JobKey,
    eval::Eval,
    store::{AllocSlot, EvalSlot, JobRow, JobSlot},
};

use super::CallerView;

impl CallerView {
    /// A job.
    pub fn job(&self, key: &JobKey) -> Option<&JobRow> {
        self.view.store.job(key).filter(|row| !row.key.is_purged() && self.sees_job(row))
    }

    /// The job of an evaluation, which may have been purged.
    pub fn job_of(&self, eval: &Eval) -> Option<&JobRow> {
        self.view.store.job(&eval.job).filter(|row| self.sees_job(row))
    }

    /// The run of a job that was dispatched with this token.
    pub fn dispatched_with(&self, parent: &JobKey, token: &str) -> Option<&JobRow> {
        self.view.store.jobs().dispatched_with(parent, token).filter(|row| self.sees_job(row))
    }

    /// The jobs whose keys are in a range, by key.
    pub fn jobs(&self, keys: impl RangeBounds<JobKey>) -> impl DoubleEndedIterator<Item = &JobRow> {
        let jobs = self.view.store.jobs();
        let named = jobs.range(keys).filter(|(key, _)| !key.is_purged());
        named.filter_map(|(_, slot)| jobs.row(slot)).filter(|row| self.sees_job(row))
    }

    /// The job of a slot, which may have been purged: what is left of it is what its allocations are of.
    pub fn job_in(&self, slot: JobSlot) -> Option<&JobRow> {
        self.view.store.jobs().row(slot).filter(|row| self.sees_job(row))
    }

    /// The outcome of a job that is dead by itself: `failed`, `complete`, or nothing.
    pub fn job_outcome(&self, row: &JobRow) -> &'static str {
        self.view.job_outcome(row)
    }

    /// Where any job last changed.
    pub fn jobs_index(&self) -> Index {
        self.view.store.jobs().modify_index()
    }

    /// Where a job's allocations last changed, logged or observed.
    pub fn job_allocs_index(&self, row: &JobRow) -> Index {
        row.allocs_index.max(self.observed_index(row)).max(row.create_index)
    }

    /// Where a job, its allocations or its evaluations last changed.
    pub fn job_counts_index(&self, row: &JobRow) -> Index {
        let logged = row.modify_index.max(row.allocs_index).max(row.evals_index);
        logged.max(self.observed_index(row))
    }

    /// How many allocations of a job's group run, as their agents see it.
    pub fn running(&self, row: &JobRow, group: u16) -> u32 {
        let slot = self.view.store.jobs().find(&row.key);
        slot.map_or(0, |slot| self.view.observed.running(slot, group))
    }

    /// A job's allocations.
    pub fn allocs_of<'v>(&'v self, row: &'v JobRow) -> impl Iterator<Item = AllocSlot> + 'v {
        self.view.store.jobs().allocs(row)
    }

    /// A job's evaluations.
    pub fn evals_of<'v>(&'v self, row: &'v JobRow) -> impl Iterator<Item = EvalSlot> + 'v {
        self.view.store.jobs().evals(row)
    }

    /// Where the last observation of any of a job's allocations was published.
    fn observed_index(&self, row: &JobRow) -> Index {
        let slot = self.view.store.jobs().find(&row.key);
        slot.map_or(Index::default(), |slot| self.view.observed.job_index(slot))
    }

    fn sees_job(&self, row: &JobRow) -> bool {
        self.access.reaches(&row.key.namespace)
    }
}
