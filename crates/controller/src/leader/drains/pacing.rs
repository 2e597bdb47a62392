//! Services of which something is to leave drained nodes: how much of each of their groups is well, and what may leave. A
//! job is counted once when the first of it is to leave, and from then on each allocation when it changes: a large job
//! leaves in as many steps as it has allocations there, and none of them may look at all of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_model::{
    job::Group,
    store::{AllocSlot, JobSlot},
};

/// The groups of the jobs that leave.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pacing {
    jobs: BTreeMap<JobSlot, BTreeMap<Arc<str>, GroupPace>>,
    counted: BTreeMap<AllocSlot, CountedAlloc>,
}

/// What is counted of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CountedAlloc {
    job: JobSlot,
    group: Arc<str>,
    standing: AllocHealthState,
}

/// How an allocation stands that should run and is not asked to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AllocHealthState {
    /// None as long as nobody knows.
    pub well: Option<bool>,
    /// Which of its group it is, when its node is drained.
    pub leaves: Option<u32>,
}

/// A group of which some are to leave.
#[derive(Debug, Default, PartialEq, Eq)]
struct GroupPace {
    /// How many are well.
    well: u32,
    /// On nodes that are drained: what is not well first, then by name.
    leaving: BTreeSet<(bool, u32, AllocSlot)>,
    /// On such nodes too, and nobody knows how it is.
    unknown: u32,
}

impl Pacing {
    /// Whether no job leaves.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether the allocations of a job are counted.
    pub fn has(&self, job: JobSlot) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Begins to count a job; all of its allocations are to be added.
    pub fn begin(&mut self, job: JobSlot) {
        self.jobs.entry(job).or_default();
    }

    /// Whether an allocation is counted; of which job is for [`Self::count`] to know, for its slot may be another's by now.
    pub fn counts(&self, slot: AllocSlot) -> bool {
        self.counted.contains_key(&slot)
    }

    /// Counts an allocation again, not at all if it has no standing or its job does not leave. The jobs that this changes.
    pub fn count(
        &mut self,
        slot: AllocSlot,
        now: Option<(JobSlot, &str, AllocHealthState)>,
    ) -> impl Iterator<Item = JobSlot> + use<> {
        let before = self.counted.remove(&slot).inspect(|before| {
            let pace = self.jobs.get_mut(&before.job).and_then(|groups| groups.get_mut(&before.group));
            pace.into_iter().for_each(|pace| pace.remove(slot, before.standing));
        });
        let now = now.filter(|(job, ..)| self.jobs.contains_key(job)).map(|(job, group, standing)| {
            let groups = self.jobs.entry(job).or_default();
            let group = groups.get_key_value(group).map_or_else(|| group.into(), |(group, _)| group.clone());
            groups.entry(group.clone()).or_default().add(slot, standing);
            self.counted.insert(slot, CountedAlloc { job, group, standing });
            job
        });
        before.map(|before| before.job).into_iter().chain(now)
    }

    /// The allocations of a group that may leave now, so many at once that enough of it stays well. What is not well serves
    /// nobody where it is.
    pub fn may_leave(&self, job: JobSlot, group: &Group) -> Vec<AllocSlot> {
        let Some(pace) = self.jobs.get(&job).and_then(|groups| groups.get(group.name.as_str())) else {
            return Vec::new();
        };
        let parallel = group.migrate.as_ref().map_or(1, |migrate| migrate.max_parallel.max(1));
        let well = pace.well.saturating_sub(group.count.saturating_sub(parallel));
        let unwell = pace.leaving.iter().take_while(|(well, ..)| !well).count();
        pace.leaving.iter().take(unwell + well as usize).map(|(_, _, slot)| *slot).collect()
    }

    /// Whether nothing of a job is left to be asked to leave.
    pub fn is_over(&self, job: JobSlot) -> bool {
        self.jobs
            .get(&job)
            .is_none_or(|groups| groups.values().all(|pace| pace.leaving.is_empty() && pace.unknown == 0))
    }

    /// Counts a job no more, of which these are the allocations.
    pub fn end(&mut self, job: JobSlot, allocs: impl Iterator<Item = AllocSlot>) {
        self.jobs.remove(&job);
        for slot in allocs {
            self.counted.remove(&slot);
        }
    }
}

impl GroupPace {
    fn add(&mut self, slot: AllocSlot, AllocHealthState { well, leaves }: AllocHealthState) {
        self.well += u32::from(well == Some(true));
        match (leaves, well) {
            (Some(name), Some(well)) => self.leaving.extend([(well, name, slot)]),
            (Some(_), None) => self.unknown += 1,
            (None, _) => {}
        }
    }

    fn remove(&mut self, slot: AllocSlot, AllocHealthState { well, leaves }: AllocHealthState) {
        self.well -= u32::from(well == Some(true));
        if let (Some(name), Some(well)) = (leaves, well) {
            self.leaving.remove(&(well, name, slot));
        } else if leaves.is_some() {
            self.unknown -= 1;
        }
    }
}
