//! What is counted of a job, in step with its allocations and evaluations.

use std::collections::BTreeMap;

use super::{GroupCounts, JobRow, JobSlot, Jobs, table::counted_as};
use crate::{
    alloc::ClientStatus,
    eval::Failures,
    ids::Index,
    store::{AllocSlot, EvalSlot, digest::TableDigest, postings::Postings},
};

/// What a change of counts may touch besides the row.
struct JobIndexes<'a> {
    lists: &'a mut Postings,
    digest: &'a mut TableDigest,
}

/// Whether a change made the job pending, running or dead that was not.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct StatusChanged(pub bool);

impl Jobs {
    /// Changes what is counted of a job; a change of its status moves its index.
    fn count(
        &mut self,
        slot: JobSlot,
        index: Index,
        change: impl FnOnce(&mut JobRow, JobIndexes<'_>),
    ) -> StatusChanged {
        let Self { rows, lists, by_status, digest, modify_index, .. } = self;
        let Some(row) = rows.get_mut(slot) else { return StatusChanged(false) };
        let (before, counted_before) = (row.status(), counted_as(row));
        digest.remove(row.indexes_hash());
        change(row, JobIndexes { lists, digest });
        let changed = row.status() != before;
        if changed {
            by_status.remove(counted_before);
            by_status.add(counted_as(row));
            row.modify_index = index;
            *modify_index = index;
        }
        digest.add(row.indexes_hash());
        StatusChanged(changed)
    }

    pub(in crate::store) fn alloc_placed(
        &mut self,
        slot: JobSlot,
        alloc: AllocSlot,
        group: &str,
        index: Index,
    ) -> StatusChanged {
        self.count(slot, index, |row, indexes| {
            indexes.lists.push(&mut row.allocs, alloc.0);
            row.live += 1;
            row.allocs_index = index;
            counts_of(row, group, indexes.digest).live += 1;
        })
    }

    pub(in crate::store) fn alloc_changed(&mut self, slot: JobSlot, index: Index) {
        let StatusChanged(changed) = self.count(slot, index, |row, _| row.allocs_index = index);
        debug_assert!(!changed, "only placements and ends of allocations change a job's status");
    }

    pub(in crate::store) fn alloc_ended(
        &mut self,
        slot: JobSlot,
        group: &str,
        status: ClientStatus,
        index: Index,
    ) -> StatusChanged {
        self.count(slot, index, |row, indexes| {
            row.live -= 1;
            row.allocs_index = index;
            let job = row.key_hash;
            let counts = counts_of(row, group, indexes.digest);
            indexes.digest.remove(counts.hash(job));
            counts.live -= 1;
            // A restored state may say that there have been any number of them.
            let ended = match status {
                ClientStatus::Complete => &mut counts.complete,
                ClientStatus::Failed => &mut counts.failed,
                _ => &mut counts.lost,
            };
            *ended = ended.saturating_add(1);
            indexes.digest.add(counts.hash(job));
        })
    }

    /// The failures with the names of the job's groups that are in memory already.
    pub(in crate::store) fn sharing_names(&self, slot: JobSlot, failures: Failures) -> Failures {
        match self.row(slot) {
            Some(row) => failures.sharing_names(row.counts.iter().map(|counts| &counts.group)),
            None => failures,
        }
    }

    pub(in crate::store) fn set_queued(&mut self, slot: JobSlot, queued: &BTreeMap<&str, u32>, index: Index) {
        let queued = |group: &str| queued.get(group).copied().unwrap_or_default();
        let StatusChanged(_) = self.count(slot, index, |row, indexes| {
            let job = row.key_hash;
            for at in 0..row.counts.len() {
                if row.counts.get(at).is_none_or(|c| c.queued == queued(&c.group)) {
                    continue;
                }
                let Some(counts) = row.counts.get_mut(at) else { continue };
                indexes.digest.remove(counts.hash(job));
                counts.queued = queued(&counts.group);
                indexes.digest.add(counts.hash(job));
            }
        });
    }

    pub(in crate::store) fn eval_added(
        &mut self,
        slot: JobSlot,
        eval: EvalSlot,
        open: bool,
        index: Index,
    ) -> StatusChanged {
        self.count(slot, index, |row, indexes| {
            indexes.lists.push(&mut row.evals, eval.0);
            row.evals_index = row.evals_index.max(index);
            row.open_evals += u32::from(open);
        })
    }

    pub(in crate::store) fn eval_changed(
        &mut self,
        slot: JobSlot,
        closed: bool,
        index: Index,
    ) -> StatusChanged {
        self.count(slot, index, |row, _| {
            row.evals_index = index;
            row.open_evals -= u32::from(closed);
        })
    }

    /// Counts a living allocation that was restored; it changed nothing.
    pub(in crate::store) fn restore_live(&mut self, slot: JobSlot, alloc: AllocSlot, group: &str) {
        if let Some(row) = self.rows.get_mut(slot) {
            self.lists.push(&mut row.allocs, alloc.0);
            self.by_status.remove(counted_as(row));
            row.live += 1;
            self.by_status.add(counted_as(row));
            counts_of(row, group, &mut self.digest).live += 1;
        }
    }

    /// Counts an evaluation that was restored; it changed nothing.
    pub(in crate::store) fn restore_eval(&mut self, slot: JobSlot, eval: EvalSlot, open: bool) {
        if let Some(row) = self.rows.get_mut(slot) {
            self.lists.push(&mut row.evals, eval.0);
            self.by_status.remove(counted_as(row));
            row.open_evals += u32::from(open);
            self.by_status.add(counted_as(row));
        }
    }

    /// Lists an allocation that had ended before it was restored; the counts know of it already.
    pub(in crate::store) fn list_ended(&mut self, slot: JobSlot, alloc: AllocSlot) {
        if let Some(row) = self.rows.get_mut(slot) {
            self.lists.push(&mut row.allocs, alloc.0);
        }
    }

    pub(in crate::store) fn drop_allocs(&mut self, slot: JobSlot, gone: impl Fn(u32) -> bool) {
        if let Some(row) = self.rows.get_mut(slot) {
            self.lists.retain(&mut row.allocs, |alloc| !gone(alloc));
        }
    }

    pub(in crate::store) fn drop_eval(&mut self, slot: JobSlot, eval: EvalSlot) {
        if let Some(row) = self.rows.get_mut(slot) {
            self.lists.remove(&mut row.evals, eval.0);
        }
    }
}

fn counts_of<'a>(row: &'a mut JobRow, group: &str, digest: &mut TableDigest) -> &'a mut GroupCounts {
    let known = row.counts.iter().position(|counts| *counts.group == *group);
    let at = known.unwrap_or_else(|| {
        let counts = GroupCounts::of(group);
        digest.add(counts.hash(row.key_hash));
        row.counts.push(counts)
    });
    row.counts.get_mut(at).expect("it is there")
}
