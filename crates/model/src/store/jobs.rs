//! The table of jobs: their desired state, the last versions, and counts that are kept in step with their allocations.

mod counting;
mod record;
mod table;

use std::sync::Arc;

use minicbor::{Decode, Encode};

use super::{
    AllocRow, Launch,
    digest::{TableDigest, hash_encoded},
    page_tree::PageTree,
    postings::PostingList,
    slab::slot,
};
use crate::{
    alloc::{ClientStatus, Placement},
    ids::{Index, JobKey},
    job::{Group, Job, Submission, VersionChange, VersionTag, dispatch_hash},
    scaling::ScalingEvent,
    time::Timestamp,
};

pub(super) use counting::StatusChanged;
pub(super) use record::JobRecord;
pub use table::Jobs;

slot!(
    /// Where a job is in the store.
    JobSlot
);

/// One version of a job.
#[derive(Debug, Clone, Encode, Decode)]
pub struct JobVersion {
    /// Number of the version, from 0.
    #[n(0)]
    pub version: u64,
    /// The job as registered in this version.
    #[n(1)]
    #[cbor(with = "crate::codec::shared")]
    pub job: Arc<Job>,
    /// When it was registered.
    #[n(2)]
    pub submitted_at: Timestamp,
    /// Where it was registered, or stopped after that: whoever changes the job only if nobody else did compares this.
    #[n(3)]
    pub index: Index,
    /// Its deployment was successful: what a failed one goes back to. Not in snapshots before format 3.
    #[n(4)]
    #[cbor(default)]
    pub stable: bool,
    /// By which users find it again; it is kept for as long as it has one.
    #[n(5)]
    #[cbor(default)]
    pub tag: Option<Box<VersionTag>>,
    /// How its owner wrote it down, where that was sent along.
    #[n(6)]
    #[cbor(with = "crate::codec::shared_option", has_nil)]
    pub submission: Option<Arc<Submission>>,
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
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Running, Self::Dead];

    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }
}

/// Counts by group. A job may have a thousand groups, and each of its placements changes those of one; most have one, which
/// takes a page of its own.
pub type CountsTree = PageTree<GroupCounts, { 2 * size_of::<GroupCounts>() }>;

/// How many allocations of a group are in which state; running and starting are distinguished by what is observed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupCounts {
    /// The group's name; shared with what says why its allocations could not be placed.
    pub group: Arc<str>,
    /// Not ended.
    pub live: u32,
    /// Ended well.
    pub complete: u32,
    /// Ended badly.
    pub failed: u32,
    /// Given up with their node.
    pub lost: u32,
    /// Desired and not placed.
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
    pub allocs: PostingList,
    /// All its evaluations that are not forgotten.
    pub evals: PostingList,
    /// Allocations that have not ended.
    pub live: u32,
    /// Evaluations that are not done.
    pub open_evals: u32,
    /// By group, present and past.
    pub counts: CountsTree,
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
    /// What distinguishes the token with which it was dispatched, as it was registered first; 0 for none.
    dispatch_hash: u128,
    /// The hash of its key, which is part of the hash of whatever belongs to it.
    pub(super) key_hash: u128,
    /// The hash of its versions and scaling events.
    history: TableDigest,
}

impl JobRow {
    /// The scaling events of a group, newest first.
    pub fn scaling_events<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a ScalingEvent> {
        self.scalings.iter().flat_map(|events| events.iter()).filter(move |event| event.group == group)
    }

    /// What is desired now.
    #[inline]
    pub fn current(&self) -> &JobVersion {
        &self.versions[0]
    }

    /// What is desired now.
    pub fn job(&self) -> &Arc<Job> {
        &self.current().job
    }

    /// A version that is still kept.
    pub fn version(&self, version: u64) -> Option<&JobVersion> {
        self.versions.iter().find(|v| v.version == version)
    }

    /// The group of one of its allocations, as that one's version has it.
    #[inline]
    pub fn group_of(&self, alloc: &AllocRow) -> Option<&Group> {
        self.version(alloc.job_version)?.job.groups.get(usize::from(alloc.group))
    }

    /// The version that a placement of a plan of `planned` runs, and its group there.
    pub fn placed_by(&self, placement: &Placement, planned: u64) -> Option<(&JobVersion, &Group)> {
        let version = self.version(placement.job_version.unwrap_or(planned))?;
        Some((version, version.job.groups.get(usize::from(placement.group))?))
    }

    /// The first version since the job was stopped last: what ran or ended before is not the work that is desired now.
    pub fn begun_with(&self) -> u64 {
        let older = self.versions.iter().skip(1);
        older.filter(|version| version.job.stop).map(|version| version.version + 1).max().unwrap_or_default()
    }

    /// Whether an allocation that has ended stands for the work that the newest version asks for, so that nothing is placed
    /// for it.
    pub fn covers(&self, row: &AllocRow) -> bool {
        match self.change_of(row.job_version, row.group) {
            VersionChange::Nothing => true,
            VersionChange::InPlace => self.has_no_use_for_changes(row),
            VersionChange::Replacement => false,
        }
    }

    /// Whether an allocation that has ended would have ended no better under a version that could have changed it where it was:
    /// work that is done is, while what failed may have failed for what was changed.
    pub fn has_no_use_for_changes(&self, row: &AllocRow) -> bool {
        let is_done = self.job().job_type.runs_to_completion() && row.client == ClientStatus::Complete;
        is_done || !row.ended_by_itself()
    }

    /// What the newest version asks of the allocations of a version, at this position of their group there.
    pub fn change_of(&self, version: u64, group: u16) -> VersionChange {
        if version == self.current().version {
            return VersionChange::Nothing;
        }
        let old = self.version(version).filter(|old| old.version >= self.begun_with()).map(|old| &old.job);
        let old = old.and_then(|job| Some((job, job.groups.get(usize::from(group))?)));
        // Most groups stay where they are: a job may have a thousand, each of which would be searched for.
        let at_its_place =
            |old: &Group| self.job().groups.get(usize::from(group)).filter(|new| new.name == old.name);
        let by_name = |old: &Group| self.job().group(&old.name).map(|(_, new)| new);
        let newest = old.and_then(|(_, old)| at_its_place(old).or_else(|| by_name(old)));
        match (old, newest) {
            (Some((old_job, old)), Some(new)) => old_job.change_to(old, self.job(), new),
            _ => VersionChange::Replacement,
        }
    }

    /// The version that has this tag.
    pub fn tagged(&self, tag: &str) -> Option<&JobVersion> {
        self.versions.iter().find(|version| version.tag.as_ref().is_some_and(|own| own.name == tag))
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

    /// Whether nothing of the job will ever run again unless somebody asks for it: it may be garbage-collected.
    pub fn is_over(&self) -> bool {
        let job = self.job();
        self.status() == JobStatus::Dead && (self.purge || job.stop || job.job_type.runs_to_completion())
    }
}

impl JobRow {
    fn new(record: JobRecord) -> Self {
        let mut history = TableDigest::default();
        record.versions.iter().for_each(|version| history.add(version_hash(version)));
        record.scalings.iter().for_each(|event| history.add(scaling_hash(event)));
        let counts = record.counts.into_iter().map(|(group, complete, failed, lost, queued)| GroupCounts {
            group: group.into(),
            live: 0,
            complete,
            failed,
            lost,
            queued,
        });
        Self {
            dispatch_hash: match record.versions.first() {
                Some(version) if !record.key.is_purged() => dispatched_with(&version.job),
                _ => 0,
            },
            key_hash: key_hash(&record.key),
            key: record.key,
            versions: record.versions,
            purge: record.purge,
            allocs: PostingList::default(),
            evals: PostingList::default(),
            live: 0,
            open_evals: 0,
            counts: counts.collect(),
            scalings: (!record.scalings.is_empty()).then_some(record.scalings),
            launch: record.launch,
            create_index: record.create_index,
            modify_index: record.modify_index,
            allocs_index: record.allocs_index,
            evals_index: record.evals_index,
            history,
        }
    }

    /// Changes what is desired now.
    pub(super) fn change_current(&mut self, change: impl FnOnce(&mut JobVersion)) {
        let current = &mut Arc::make_mut(&mut self.versions)[0];
        self.history.remove(version_hash(current));
        change(current);
        self.history.add(version_hash(current));
    }

    /// Changes a version that is still kept.
    pub(super) fn change_version(&mut self, version: u64, change: impl FnOnce(&mut JobVersion)) {
        let Some(at) = self.versions.iter().position(|v| v.version == version) else { return };
        let version = &mut Arc::make_mut(&mut self.versions)[at];
        self.history.remove(version_hash(version));
        change(version);
        self.history.add(version_hash(version));
    }

    /// The newest version that has proved itself, but for the current one.
    pub fn last_stable(&self) -> Option<&JobVersion> {
        self.versions.iter().skip(1).find(|version| version.stable)
    }

    /// It is known by another key, and by nothing else.
    fn rename(&mut self, key: JobKey) {
        (self.key_hash, self.key) = (key_hash(&key), key);
        (self.dispatch_hash, self.launch) = (0, None);
        let scalings = self.scalings.take();
        scalings
            .iter()
            .flat_map(|events| &**events)
            .for_each(|event| self.history.remove(scaling_hash(event)));
    }

    /// A new version; it becomes the current one.
    fn push_version(&mut self, version: JobVersion) {
        self.history.add(version_hash(&version));
        Arc::make_mut(&mut self.versions).insert(0, version);
    }

    /// Forgets versions; never the current one.
    fn retain_versions(&mut self, mut keep: impl FnMut(&JobVersion) -> bool) {
        let Self { versions, history, .. } = self;
        Arc::make_mut(versions).retain(|version| {
            let kept = keep(version);
            if !kept {
                history.remove(version_hash(version));
            }
            kept
        });
    }

    /// What the hash of a job covers besides its counts, which have their own; from plain bytes, as it changes with each of
    /// its versions.
    fn hash(&self) -> u128 {
        let launch = self.launch.map_or([0; 2], |launch| [launch.at.0, 1 + u64::from(launch.overlapped)]);
        let missed_since = self.launch.and_then(|launch| launch.missed_since);
        let mut bytes = [0; 65];
        bytes[..16].copy_from_slice(&self.key_hash.to_be_bytes());
        bytes[16..32].copy_from_slice(&self.history.value().to_be_bytes());
        bytes[32..40].copy_from_slice(&launch[0].to_be_bytes());
        bytes[40..48].copy_from_slice(&launch[1].to_be_bytes());
        bytes[48..56].copy_from_slice(&self.create_index.0.to_be_bytes());
        bytes[56] = u8::from(self.purge);
        let missed = missed_since.map(|since| bytes[57..].copy_from_slice(&since.0.to_be_bytes()));
        // What versions before 5 say as well has the hash that it has there.
        xxhash_rust::xxh3::xxh3_128(if missed.is_some() { &bytes } else { &bytes[..57] })
    }

    /// The hash of what most changes of its allocations and evaluations move; from plain bytes for that.
    fn indexes_hash(&self) -> u128 {
        let mut bytes = [0; 40];
        bytes[..16].copy_from_slice(&self.key_hash.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.modify_index.0.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.allocs_index.0.to_be_bytes());
        bytes[32..].copy_from_slice(&self.evals_index.0.to_be_bytes());
        xxhash_rust::xxh3::xxh3_128(&bytes)
    }

    fn counts_hash(&self) -> u128 {
        self.counts.iter().fold(0, |sum: u128, counts| sum.wrapping_add(counts.hash(self.key_hash)))
    }
}

impl GroupCounts {
    fn of(group: &str) -> Self {
        Self { group: group.into(), ..Self::default() }
    }

    /// The hash of what snapshots hold of it; those that live are counted again.
    fn hash(&self, job: u128) -> u128 {
        let mut bytes = [0; 48];
        bytes[..16].copy_from_slice(&job.to_be_bytes());
        bytes[16..32].copy_from_slice(&xxhash_rust::xxh3::xxh3_128(self.group.as_bytes()).to_be_bytes());
        let counted = [self.complete, self.failed, self.lost, self.queued];
        let places = bytes[32..].chunks_exact_mut(size_of::<u32>());
        places.zip(counted).for_each(|(place, count)| place.copy_from_slice(&count.to_be_bytes()));
        xxhash_rust::xxh3::xxh3_128(&bytes)
    }
}

fn dispatched_with(job: &Job) -> u128 {
    let parent = || JobKey::new(&job.key.namespace, &job.parent_id);
    job.dispatch_token().map_or(0, |token| dispatch_hash(&parent(), token))
}

fn key_hash(key: &JobKey) -> u128 {
    hash_encoded(b'k', key)
}

fn version_hash(version: &JobVersion) -> u128 {
    hash_encoded(b'v', version)
}

fn scaling_hash(event: &ScalingEvent) -> u128 {
    hash_encoded(b'x', event)
}
