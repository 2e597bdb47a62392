//! The table itself: finding, registering and changing jobs.

use std::{ops::RangeBounds, sync::Arc};

use imbl::OrdMap;

use super::{GroupCounts, JobRecord, JobRow, JobSlot, JobStatus, JobVersion, scaling_hash};
use crate::{
    ids::{Index, JobKey},
    job::{JOB_VERSIONS_MAX, Job, Submission, dispatch_hash},
    scaling::{SCALING_EVENTS_MAX, ScalingEvent},
    store::{AllocSlot, EvalSlot, digest::TableDigest, postings::Postings, slab::Slab, tally::Tally},
    time::Timestamp,
};

/// All jobs.
#[derive(Debug, Clone, Default)]
pub struct Jobs {
    pub(super) rows: Slab<JobSlot, JobRow>,
    by_key: OrdMap<JobKey, JobSlot>,
    /// Dispatches by their tokens. It serves readers, and is no part of the state: the latest of a token is enough.
    by_dispatch: OrdMap<u128, JobSlot>,
    pub(super) lists: Postings,
    pub(super) by_status: Tally<{ JobStatus::ALL.len() }>,
    pub(super) digest: TableDigest,
    pub(in crate::store) modify_index: Index,
}

/// The status under which a job is counted; none for what is left of one that was purged.
pub(super) fn counted_as(row: &JobRow) -> Option<usize> {
    (!row.key.is_purged()).then(|| row.status() as usize)
}

impl Jobs {
    /// How many jobs there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many have a status. What is left of purged jobs is not counted.
    pub fn with_status(&self, status: JobStatus) -> usize {
        self.by_status.of(status as usize)
    }

    /// Where the last change of any job is.
    pub fn modify_index(&self) -> Index {
        self.modify_index
    }

    /// Where a job is.
    pub fn find(&self, key: &JobKey) -> Option<JobSlot> {
        self.by_key.get(key).copied()
    }

    /// The run of a job that was dispatched with this token.
    pub fn dispatched_with(&self, parent: &JobKey, token: &str) -> Option<&JobRow> {
        let row = self.row(*self.by_dispatch.get(&dispatch_hash(parent, token))?)?;
        let job = row.job();
        let is_meant = job.dispatch_token() == Some(token)
            && job.parent_id == *parent.id
            && job.key.namespace == parent.namespace;
        is_meant.then_some(row)
    }

    /// A job by its slot.
    #[inline]
    pub fn row(&self, slot: JobSlot) -> Option<&JobRow> {
        self.rows.get(slot)
    }

    /// The jobs whose keys are in a range, by namespace and id.
    pub fn range(
        &self,
        keys: impl RangeBounds<JobKey>,
    ) -> impl DoubleEndedIterator<Item = (&JobKey, JobSlot)> {
        self.by_key.range(keys).map(|(key, slot)| (key, *slot))
    }

    /// All jobs, by namespace and id.
    pub fn iter(&self) -> impl Iterator<Item = (JobSlot, &JobRow)> {
        self.by_key.values().filter_map(|slot| Some((*slot, self.rows.get(*slot)?)))
    }

    /// A job's allocations, in no stated order.
    pub fn allocs(&self, row: &JobRow) -> impl Iterator<Item = AllocSlot> {
        self.lists.iter(&row.allocs).map(AllocSlot)
    }

    /// A job's evaluations, in no stated order.
    pub fn evals(&self, row: &JobRow) -> impl Iterator<Item = EvalSlot> {
        self.lists.iter(&row.evals).map(EvalSlot)
    }

    pub(in crate::store) fn digest(&self) -> u128 {
        self.digest.value()
    }

    pub(in crate::store) fn copied_bytes(&self) -> u64 {
        self.rows.copied_bytes() + self.lists.copied_bytes()
    }

    pub(in crate::store) fn insert(&mut self, record: JobRecord) -> JobSlot {
        let row = JobRow::new(record);
        self.digest.add(row.hash());
        self.digest.add(row.indexes_hash());
        self.digest.add(row.counts_hash());
        self.modify_index = self.modify_index.max(row.modify_index);
        let (key, dispatch_hash) = (row.key.clone(), row.dispatch_hash);
        self.by_status.add(counted_as(&row));
        let slot = self.rows.insert(row);
        self.by_key.insert(key, slot);
        if dispatch_hash != 0 {
            self.by_dispatch.insert(dispatch_hash, slot);
        }
        slot
    }

    /// Registers a new version of a job.
    pub(in crate::store) fn register(
        &mut self,
        job: Arc<Job>,
        submission: Option<Arc<Submission>>,
        index: Index,
        at: Timestamp,
    ) -> JobSlot {
        let first =
            JobVersion { version: 0, job, submitted_at: at, index, stable: false, tag: None, submission };
        let Some(slot) = self.find(&first.job.key) else {
            let record = JobRecord {
                key: first.job.key.clone(),
                counts: first.job.groups.iter().map(|g| (g.name.clone(), 0, 0, 0, 0)).collect(),
                versions: Arc::new(vec![first]),
                purge: false,
                scalings: Arc::default(),
                launch: None,
                create_index: index,
                modify_index: index,
                allocs_index: Index::default(),
                evals_index: Index::default(),
            };
            return self.insert(record);
        };
        self.digest.remove(self.row(slot).map_or(0, JobRow::counts_hash));
        self.update(slot, index, |row| {
            row.purge = false;
            // What says the same as before is the same version: only its evaluation is new, and how it is written down.
            if row.job() == &first.job {
                if first.submission.is_some() && row.current().submission != first.submission {
                    row.change_current(|current| current.submission = first.submission);
                }
                return;
            }
            let next = JobVersion { version: row.current().version + 1, ..first };
            for group in &next.job.groups {
                if !row.counts.iter().any(|counts| *counts.group == *group.name) {
                    row.counts.push(GroupCounts::of(&group.name));
                }
            }
            row.push_version(next);
        });
        self.digest.add(self.row(slot).map_or(0, JobRow::counts_hash));
        slot
    }

    /// Forgets versions over the limit that have no tag and that no allocation runs or ran, and the counts of groups that none of those kept
    /// has.
    pub(in crate::store) fn drop_versions(&mut self, slot: JobSlot, is_used: impl Fn(u64) -> bool) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        if row.versions.len() <= JOB_VERSIONS_MAX {
            return;
        }
        self.digest.remove(row.hash());
        self.digest.remove(row.counts_hash());
        let mut position = 0;
        // What a failed deployment goes back to stays, however many have failed since.
        let stable = row.last_stable().map(|version| version.version);
        row.retain_versions(|version| {
            position += 1;
            let is_named = version.tag.is_some() || stable == Some(version.version);
            position <= JOB_VERSIONS_MAX || is_named || is_used(version.version)
        });
        let versions = row.versions.clone();
        let has_group = |name: &str| versions.iter().any(|version| version.job.group(name).is_some());
        let is_kept = |counts: &&GroupCounts| counts.live > 0 || has_group(&counts.group);
        row.counts = row.counts.iter().filter(is_kept).cloned().collect();
        self.digest.add(row.hash());
        self.digest.add(row.counts_hash());
    }

    /// Changes the job itself.
    pub(in crate::store) fn update(&mut self, slot: JobSlot, index: Index, change: impl FnOnce(&mut JobRow)) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        self.digest.remove(row.hash());
        self.digest.remove(row.indexes_hash());
        self.by_status.remove(counted_as(row));
        change(row);
        self.by_status.add(counted_as(row));
        row.modify_index = index;
        self.digest.add(row.hash());
        self.digest.add(row.indexes_hash());
        self.modify_index = index;
    }

    /// Keeps a scaling event, and forgets the oldest one of its group when there are too many.
    pub(in crate::store) fn scaled(&mut self, slot: JobSlot, event: ScalingEvent) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        self.digest.remove(row.hash());
        row.history.add(scaling_hash(&event));
        let events = Arc::make_mut(row.scalings.get_or_insert_default());
        events.insert(0, event);
        let group = events[0].group.clone();
        let oldest =
            events.iter().enumerate().filter(|(_, event)| event.group == group).nth(SCALING_EVENTS_MAX);
        if let Some((oldest, _)) = oldest {
            row.history.remove(scaling_hash(&events.remove(oldest)));
        }
        self.digest.add(row.hash());
    }

    /// Gives a job that was purged another key. What only its name leads to goes: scaling events, launches, its dispatch token.
    pub(in crate::store) fn rename(&mut self, slot: JobSlot, key: JobKey, index: Index) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        self.digest.remove(row.hash());
        self.digest.remove(row.indexes_hash());
        self.digest.remove(row.counts_hash());
        self.by_key.remove(&row.key);
        if self.by_dispatch.get(&row.dispatch_hash) == Some(&slot) {
            self.by_dispatch.remove(&row.dispatch_hash);
        }
        self.by_status.remove(counted_as(row));
        row.rename(key.clone());
        self.by_status.add(counted_as(row));
        row.modify_index = index;
        self.digest.add(row.hash());
        self.digest.add(row.indexes_hash());
        self.digest.add(row.counts_hash());
        self.by_key.insert(key, slot);
        self.modify_index = index;
    }

    pub(in crate::store) fn remove(&mut self, slot: JobSlot, index: Index) -> Option<JobKey> {
        let mut row = self.rows.remove(slot)?;
        self.digest.remove(row.hash());
        self.digest.remove(row.indexes_hash());
        self.digest.remove(row.counts_hash());
        self.by_status.remove(counted_as(&row));
        self.lists.clear(&mut row.allocs);
        self.lists.clear(&mut row.evals);
        self.by_key.remove(&row.key);
        if self.by_dispatch.get(&row.dispatch_hash) == Some(&slot) {
            self.by_dispatch.remove(&row.dispatch_hash);
        }
        self.modify_index = index;
        Some(row.key)
    }
}
