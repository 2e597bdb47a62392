//! The table of jobs: their wishes, the last versions, and counts that are kept in step with their allocations.

use std::{ops::RangeBounds, sync::Arc};

use imbl::OrdMap;
use minicbor::{Decode, Encode};

use super::{
    AllocSlot, EvalSlot, Launch,
    digest::{TableDigest, hash_encoded},
    postings::{List, Postings},
    slab::{Slab, slot},
};
use crate::{
    alloc::ClientStatus,
    ids::{Index, JobKey},
    job::{JOB_VERSIONS_MAX, Job},
    scaling::{SCALING_EVENTS_MAX, ScalingEvent},
    time::Timestamp,
};

slot!(
    /// Where a job is in the store.
    JobSlot
);

/// One version of a job.
#[derive(Debug, Clone, Encode, Decode)]
pub struct JobVersion {
    /// From 0.
    #[n(0)]
    pub version: u64,
    /// What was wished.
    #[n(1)]
    #[cbor(with = "crate::codec::shared")]
    pub job: Arc<Job>,
    /// When it was registered.
    #[n(2)]
    pub submitted_at: Timestamp,
    /// Where it was registered.
    #[n(3)]
    pub index: Index,
}

/// Whether anything of a job lives or is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// Nothing lives, something is to come.
    Pending,
    /// Something lives, or it waits for its time to make another job.
    Running,
    /// Nothing lives and nothing is to come.
    Dead,
}

impl JobStatus {
    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }
}

/// How many allocations of a group are in which state; running and starting are told apart by what is observed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupCounts {
    /// The group's name.
    pub group: String,
    /// Not ended.
    pub live: u32,
    /// Ended well.
    pub complete: u32,
    /// Ended badly.
    pub failed: u32,
    /// Given up with their node.
    pub lost: u32,
    /// Wished for and not placed.
    pub queued: u32,
}

/// A job.
#[derive(Debug, Clone)]
pub struct JobRow {
    /// Namespace and id.
    pub key: JobKey,
    /// Newest first; older ones stay for as long as an allocation of theirs lives.
    pub versions: Arc<Vec<JobVersion>>,
    /// Forget it once its allocations have ended.
    pub purge: bool,
    /// All its allocations that are not forgotten.
    pub allocs: List,
    /// All its evaluations that are not forgotten.
    pub evals: List,
    /// Allocations that have not ended.
    pub live: u32,
    /// Evaluations that are not done.
    pub open_evals: u32,
    /// By group, present and past.
    pub counts: Arc<Vec<GroupCounts>>,
    /// The last changes of its groups' counts, newest first; none for none.
    pub scalings: Option<Arc<Vec<ScalingEvent>>>,
    /// When it was last due, as a periodic job.
    pub launch: Option<Launch>,
    /// The first registration.
    pub create_index: Index,
    /// The last change of the job or of its status.
    pub modify_index: Index,
    /// The last change of any of its allocations that is in the log.
    pub allocs_index: Index,
    /// The last change of any of its evaluations.
    pub evals_index: Index,
}

impl JobRow {
    /// What is wished now.
    pub fn current(&self) -> &JobVersion {
        &self.versions[0]
    }

    /// What is wished now.
    pub fn job(&self) -> &Arc<Job> {
        &self.current().job
    }

    /// A version that is still kept.
    pub fn version(&self, version: u64) -> Option<&JobVersion> {
        self.versions.iter().find(|v| v.version == version)
    }

    /// Whether anything of it lives or is still to come.
    pub fn status(&self) -> JobStatus {
        let waits_to_launch = self.job().only_launches() && !self.job().stop;
        if self.live > 0 || waits_to_launch {
            JobStatus::Running
        } else if self.open_evals > 0 {
            JobStatus::Pending
        } else {
            JobStatus::Dead
        }
    }

    /// Whether nothing of the job will ever run again unless somebody asks for it: it may be forgotten.
    pub fn is_over(&self) -> bool {
        let job = self.job();
        self.status() == JobStatus::Dead && (self.purge || job.stop || job.job_type.runs_to_completion())
    }
}

/// A job as written to a snapshot; what can be counted from its allocations and evaluations is counted again.
#[derive(Debug, Clone, Encode, Decode)]
pub(super) struct JobRecord {
    #[n(0)]
    pub key: JobKey,
    #[n(1)]
    #[cbor(with = "crate::codec::shared")]
    pub versions: Arc<Vec<JobVersion>>,
    #[n(2)]
    pub purge: bool,
    #[n(3)]
    pub create_index: Index,
    #[n(4)]
    pub modify_index: Index,
    #[n(5)]
    pub allocs_index: Index,
    #[n(6)]
    pub evals_index: Index,
    /// Group, complete, failed, lost, queued: counts outlive the allocations they count.
    #[n(7)]
    pub counts: Vec<(String, u32, u32, u32, u32)>,
    #[n(8)]
    #[cbor(with = "crate::codec::shared")]
    pub scalings: Arc<Vec<ScalingEvent>>,
    #[n(9)]
    pub launch: Option<Launch>,
}

/// All jobs.
#[derive(Debug, Clone, Default)]
pub struct Jobs {
    rows: Slab<JobSlot, JobRow>,
    by_key: OrdMap<JobKey, JobSlot>,
    lists: Postings,
    digest: TableDigest,
    pub(super) modify_index: Index,
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

    /// Where the last change of any job is.
    pub fn modify_index(&self) -> Index {
        self.modify_index
    }

    /// Where a job is.
    pub fn find(&self, key: &JobKey) -> Option<JobSlot> {
        self.by_key.get(key).copied()
    }

    /// A job by its slot.
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

    pub(super) fn digest(&self) -> u128 {
        self.digest.value()
    }

    pub(super) fn copied_bytes(&self) -> u64 {
        self.rows.copied_bytes() + self.lists.copied_bytes()
    }

    pub(super) fn record(&self, slot: JobSlot) -> Option<JobRecord> {
        let row = self.row(slot)?;
        let counts = row.counts.iter();
        Some(JobRecord {
            key: row.key.clone(),
            versions: row.versions.clone(),
            purge: row.purge,
            create_index: row.create_index,
            modify_index: row.modify_index,
            allocs_index: row.allocs_index,
            evals_index: row.evals_index,
            scalings: row.scalings.clone().unwrap_or_default(),
            launch: row.launch,
            counts: counts.map(|c| (c.group.clone(), c.complete, c.failed, c.lost, c.queued)).collect(),
        })
    }

    pub(super) fn insert(&mut self, record: JobRecord) -> JobSlot {
        let counts = record.counts.into_iter().map(|(group, complete, failed, lost, queued)| GroupCounts {
            group,
            live: 0,
            complete,
            failed,
            lost,
            queued,
        });
        let row = JobRow {
            key: record.key.clone(),
            versions: record.versions,
            purge: record.purge,
            allocs: List::default(),
            evals: List::default(),
            live: 0,
            open_evals: 0,
            counts: Arc::new(counts.collect()),
            scalings: (!record.scalings.is_empty()).then_some(record.scalings),
            launch: record.launch,
            create_index: record.create_index,
            modify_index: record.modify_index,
            allocs_index: record.allocs_index,
            evals_index: record.evals_index,
        };
        self.digest.add(wishes_hash(&row));
        self.modify_index = self.modify_index.max(row.modify_index);
        let slot = self.rows.insert(row);
        self.by_key.insert(record.key, slot);
        slot
    }

    /// Registers a new version of a job.
    pub(super) fn register(&mut self, job: Arc<Job>, index: Index, at: Timestamp) -> JobSlot {
        let first = JobVersion { version: 0, job, submitted_at: at, index };
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
        self.update(slot, index, |row| {
            row.purge = false;
            // What says the same as before is the same version: only its evaluation is new.
            if row.job() == &first.job {
                return;
            }
            let next = JobVersion { version: row.current().version + 1, ..first };
            let counts = Arc::make_mut(&mut row.counts);
            for group in &next.job.groups {
                if !counts.iter().any(|c| c.group == group.name) {
                    counts.push(GroupCounts { group: group.name.clone(), ..GroupCounts::default() });
                }
            }
            Arc::make_mut(&mut row.versions).insert(0, next);
        });
        slot
    }

    /// Forgets versions over the limit of which nothing lives.
    pub(super) fn drop_versions(&mut self, slot: JobSlot, lives: impl Fn(u64) -> bool) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        if row.versions.len() <= JOB_VERSIONS_MAX {
            return;
        }
        self.digest.remove(wishes_hash(row));
        let mut position = 0;
        Arc::make_mut(&mut row.versions).retain(|v| {
            position += 1;
            position <= JOB_VERSIONS_MAX || lives(v.version)
        });
        self.digest.add(wishes_hash(row));
    }

    /// Changes the job itself.
    pub(super) fn update(&mut self, slot: JobSlot, index: Index, change: impl FnOnce(&mut JobRow)) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        self.digest.remove(wishes_hash(row));
        change(row);
        row.modify_index = index;
        self.digest.add(wishes_hash(row));
        self.modify_index = index;
    }

    /// Keeps a scaling event, and forgets the oldest one of its group when there are too many.
    pub(super) fn scaled(&mut self, slot: JobSlot, event: ScalingEvent) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        self.digest.remove(wishes_hash(row));
        let kept = Arc::make_mut(row.scalings.get_or_insert_default());
        kept.insert(0, event);
        let group = kept[0].group.clone();
        let oldest = kept.iter().enumerate().filter(|(_, kept)| kept.group == group).nth(SCALING_EVENTS_MAX);
        if let Some((oldest, _)) = oldest {
            kept.remove(oldest);
        }
        self.digest.add(wishes_hash(row));
    }

    /// Changes what is counted of a job; a change of its status moves its index.
    fn count(&mut self, slot: JobSlot, index: Index, change: impl FnOnce(&mut JobRow, &mut Postings)) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        let before = row.status();
        change(row, &mut self.lists);
        if row.status() != before {
            let row = &mut *row;
            self.digest.remove(wishes_hash(row));
            row.modify_index = index;
            self.digest.add(wishes_hash(row));
            self.modify_index = index;
        }
    }

    pub(super) fn alloc_placed(&mut self, slot: JobSlot, alloc: AllocSlot, group: &str, index: Index) {
        self.count(slot, index, |row, lists| {
            lists.push(&mut row.allocs, alloc.0);
            row.live += 1;
            row.allocs_index = index;
            counts_of(row, group).live += 1;
        });
    }

    pub(super) fn alloc_changed(&mut self, slot: JobSlot, index: Index) {
        self.count(slot, index, |row, _| row.allocs_index = index);
    }

    pub(super) fn alloc_ended(&mut self, slot: JobSlot, group: &str, status: ClientStatus, index: Index) {
        self.count(slot, index, |row, _| {
            row.live -= 1;
            row.allocs_index = index;
            let counts = counts_of(row, group);
            counts.live -= 1;
            match status {
                ClientStatus::Complete => counts.complete += 1,
                ClientStatus::Failed => counts.failed += 1,
                _ => counts.lost += 1,
            }
        });
    }

    /// Counts a living allocation that was restored; it changed nothing.
    pub(super) fn restore_live(&mut self, slot: JobSlot, alloc: AllocSlot, group: &str) {
        if let Some(row) = self.rows.get_mut(slot) {
            self.lists.push(&mut row.allocs, alloc.0);
            row.live += 1;
            counts_of(row, group).live += 1;
        }
    }

    /// Counts an evaluation that was restored; it changed nothing.
    pub(super) fn restore_eval(&mut self, slot: JobSlot, eval: EvalSlot, open: bool) {
        if let Some(row) = self.rows.get_mut(slot) {
            self.lists.push(&mut row.evals, eval.0);
            row.open_evals += u32::from(open);
        }
    }

    /// Lists an allocation that had ended before it was restored; the counts know of it already.
    pub(super) fn list_ended(&mut self, slot: JobSlot, alloc: AllocSlot) {
        if let Some(row) = self.rows.get_mut(slot) {
            self.lists.push(&mut row.allocs, alloc.0);
        }
    }

    pub(super) fn forget_allocs(&mut self, slot: JobSlot, gone: impl Fn(u32) -> bool) {
        if let Some(row) = self.rows.get_mut(slot) {
            self.lists.retain(&mut row.allocs, |alloc| !gone(alloc));
        }
    }

    pub(super) fn set_queued(&mut self, slot: JobSlot, queued: impl Fn(&str) -> u32, index: Index) {
        self.count(slot, index, |row, _| {
            if row.counts.iter().any(|c| c.queued != queued(&c.group)) {
                for counts in Arc::make_mut(&mut row.counts) {
                    counts.queued = queued(&counts.group);
                }
            }
        });
    }

    pub(super) fn eval_added(&mut self, slot: JobSlot, eval: EvalSlot, open: bool, index: Index) {
        self.count(slot, index, |row, lists| {
            lists.push(&mut row.evals, eval.0);
            row.evals_index = row.evals_index.max(index);
            row.open_evals += u32::from(open);
        });
    }

    pub(super) fn eval_changed(&mut self, slot: JobSlot, closed: bool, index: Index) {
        self.count(slot, index, |row, _| {
            row.evals_index = index;
            row.open_evals -= u32::from(closed);
        });
    }

    pub(super) fn forget_eval(&mut self, slot: JobSlot, eval: EvalSlot) {
        if let Some(row) = self.rows.get_mut(slot) {
            self.lists.remove(&mut row.evals, eval.0);
        }
    }

    pub(super) fn remove(&mut self, slot: JobSlot, index: Index) -> Option<JobKey> {
        let mut row = self.rows.remove(slot)?;
        self.digest.remove(wishes_hash(&row));
        self.lists.clear(&mut row.allocs);
        self.lists.clear(&mut row.evals);
        self.by_key.remove(&row.key);
        self.modify_index = index;
        Some(row.key)
    }
}

/// What a job's hash covers: its wishes. What is counted follows from allocations and evaluations, which have their own.
fn wishes_hash(row: &JobRow) -> u128 {
    let newest = row.current();
    let kept: Vec<u64> = row.versions.iter().map(|v| v.version).collect();
    let scaled = row.scalings.as_ref().and_then(|events| events.first()).map(|event| event.index);
    let launched = row.launch.map(|launch| launch.at);
    let indexes = (newest.index, row.create_index, row.modify_index, scaled, launched);
    hash_encoded(b'j', &(&row.key, newest.job.stop, row.purge, kept, indexes))
}

fn counts_of<'a>(row: &'a mut JobRow, group: &str) -> &'a mut GroupCounts {
    let counts = Arc::make_mut(&mut row.counts);
    match counts.iter().position(|c| c.group == group) {
        Some(at) => &mut counts[at],
        None => {
            counts.push(GroupCounts { group: group.to_owned(), ..GroupCounts::default() });
            counts.last_mut().expect("just pushed")
        }
    }
}
