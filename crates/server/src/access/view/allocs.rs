//! Allocations.

use std::ops::RangeBounds;

use berth_model::{
    AllocId, EvalId, Index, Timestamp,
    alloc::ClientStatus,
    deployment::Deployment,
    job::{Group, Job},
    node::Node,
    observed::{LastObservation, Observation, ObservedAlloc},
    store::{AllocDetail, AllocRow, AllocSlot, JobRow, JobVersion},
};

use super::CallerView;
use crate::{access::Access, events::AllocObject};

/// An allocation and all that is shown with it, looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllocParts<'v> {
    /// What decisions read of it.
    pub row: &'v AllocRow,
    /// What only users read of it.
    pub detail: &'v AllocDetail,
    /// The version of its job that it runs.
    pub job: &'v Job,
    /// Its group in that version.
    pub group: &'v Group,
    /// Its node; none once that is forgotten.
    pub node: Option<&'v Node>,
    /// Its node is disconnected: nobody knows how it is.
    pub is_unknown: bool,
    /// What its agent saw last, until its end is in the log.
    pub observed: Option<&'v Observation>,
    /// The deployment that it is part of.
    pub deployment: Option<&'v Deployment>,
    /// Where that last changed; 0 once the log has the end.
    observed_index: Index,
    source: AllocSource<'v>,
}

/// Where an allocation was looked up.
#[derive(Debug, Clone, Copy)]
enum AllocSource<'v> {
    State { view: &'v CallerView, slot: AllocSlot, job: &'v JobRow },
    Event { past: &'v AllocObject, access: &'v Access },
}

impl<'v> AllocParts<'v> {
    /// The allocation of an event, if its namespace is reached.
    pub fn of_event(past: &'v AllocObject, access: &'v Access) -> Option<Self> {
        access.reaches(&past.job.key.namespace).then(|| Self {
            row: &past.row,
            detail: &past.detail,
            job: &past.job,
            group: past.group(),
            node: past.node.as_deref(),
            is_unknown: past.is_unknown,
            observed: past.seen.as_ref().and_then(LastObservation::living),
            deployment: past.deployment.as_deref(),
            observed_index: past.observed_index,
            source: AllocSource::Event { past, access },
        })
    }

    /// Its job, the version that it runs, and what the caller sees of both; none for the allocation of an event.
    pub fn job_version(&self) -> Option<(&'v CallerView, &'v JobRow, &'v JobVersion)> {
        match self.source {
            AllocSource::State { view, job, .. } => Some((view, job, job.version(self.row.job_version)?)),
            AllocSource::Event { .. } => None,
        }
    }

    /// What its agent saw last, once its end is in the log. Decoded for the caller: ended allocations are kept packed.
    pub fn observed_end(&self) -> Option<ObservedAlloc> {
        match self.source {
            AllocSource::State { view, slot, .. } => view.view.observed.ended(slot, self.row.id),
            AllocSource::Event { past, .. } => past.seen.as_ref()?.ended(),
        }
    }

    /// When its last change was, logged or observed, by the clock of whoever saw it. Once it has ended the log alone says so: what
    /// was observed is not on every server, and not after a restart. Decodes nothing.
    pub fn modified_at(&self) -> Timestamp {
        let observed = self.observed.filter(|_| !self.row.is_terminal());
        self.detail.changed_at().max(observed.map_or_else(Timestamp::default, |seen| seen.alloc.modified_at))
    }

    /// Its last change, logged or observed.
    pub fn index(&self) -> Index {
        self.row.modify_index.max(self.observed_index)
    }

    /// The evaluation that waits for the time at which something takes its place.
    pub fn followup(&self) -> Option<EvalId> {
        match self.source {
            AllocSource::State { view, .. } => view.view.followup(self.row, self.detail),
            AllocSource::Event { past, .. } => past.followup,
        }
    }

    /// Whether the caller sees another allocation that this one names, or it is gone.
    pub fn may_name(&self, other: AllocId) -> bool {
        match self.source {
            AllocSource::State { view, .. } => {
                view.view.store.alloc(other).is_none_or(|(slot, _)| view.alloc_row(slot).is_some())
            }
            AllocSource::Event { past, access } => {
                let mut there = past.named.iter().filter(|(id, _)| *id == other);
                there.all(|(_, namespace)| access.reaches(namespace))
            }
        }
    }
}

impl CallerView {
    /// An allocation, looked up.
    pub fn alloc(&self, id: AllocId) -> Option<AllocParts<'_>> {
        self.alloc_in(self.view.store.allocs().find(id)?)
    }

    /// The allocation of a slot, looked up.
    pub fn alloc_in(&self, slot: AllocSlot) -> Option<AllocParts<'_>> {
        let (store, observed) = (&self.view.store, &self.view.observed);
        let row = store.allocs().row(slot)?;
        let job_row = self.job_in(row.job)?;
        let (job, group) = store.job_of(row)?;
        Some(AllocParts {
            row,
            detail: store.allocs().detail(slot)?,
            job,
            group,
            node: store.nodes().detail(row.node).map(|detail| &*detail.node),
            is_unknown: self.view.is_unknown(row),
            observed: observed.get(slot, row.id),
            deployment: store.deployment_with(row).map(|deployment| &**deployment),
            observed_index: self.view.observed_index(slot, row),
            source: AllocSource::State { view: self, slot, job: job_row },
        })
    }

    /// How many allocations of a job's group are on nodes that are disconnected, and how many of them ran when they were
    /// last heard of.
    pub fn unknown(&self, row: &JobRow, group: &str) -> (u32, u32) {
        if !self.view.store.nodes().any_disconnected() {
            return (0, 0);
        }
        let of_group = self.allocs_of(row).filter_map(|slot| self.alloc_in(slot));
        let unknown = of_group.filter(|parts| parts.is_unknown && parts.group.name == group);
        unknown.fold((0, 0), |(unknown, ran), parts| {
            let runs = parts.observed.is_some_and(|seen| seen.alloc.status == ClientStatus::Running);
            (unknown + 1, ran + u32::from(runs))
        })
    }

    /// What decisions read of the allocation of a slot.
    pub fn alloc_row(&self, slot: AllocSlot) -> Option<&AllocRow> {
        self.view.store.allocs().row(slot).filter(|row| self.job_in(row.job).is_some())
    }

    /// The allocations whose ids are in a range, by id.
    pub fn allocs_by_id(
        &self,
        ids: impl RangeBounds<AllocId>,
    ) -> impl DoubleEndedIterator<Item = AllocParts<'_>> {
        self.allocs_of_ids(ids).filter_map(|(_, parts)| parts)
    }

    /// The allocations that were placed in a range of indexes, oldest first; of one index by id. None for those that the caller may not
    /// see: a list looks at so many rows at a time, whether or not they are in it.
    pub fn allocs_by_age(
        &self,
        ages: impl RangeBounds<(Index, AllocId)>,
    ) -> impl DoubleEndedIterator<Item = ((Index, AllocId), Option<AllocParts<'_>>)> {
        self.view.store.allocs().by_age(ages).map(|age| (age, self.alloc(age.1)))
    }

    /// The same for those whose ids are in a range, by id.
    pub fn allocs_of_ids(
        &self,
        ids: impl RangeBounds<AllocId>,
    ) -> impl DoubleEndedIterator<Item = (AllocId, Option<AllocParts<'_>>)> {
        self.view.store.allocs().range(ids).map(|(id, slot)| (id, self.alloc_in(slot)))
    }

    /// Where any allocation last changed, logged or observed.
    pub fn allocs_index(&self) -> Index {
        self.logged_allocs_index().max(self.view.observed.index())
    }

    /// Where any allocation last changed in the log.
    pub fn logged_allocs_index(&self) -> Index {
        self.view.store.allocs().modify_index()
    }
}
