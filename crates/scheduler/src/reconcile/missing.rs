//! The allocations that a group is missing, one after the other: as many as somebody asks for are made, however many a
//! job wants.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_model::{
    job::{Group, Job},
    store::{JobRow, NodeSlot, Store},
};

use super::{MissingAlloc, names::Names};
use crate::{filters::Filters, place::Ask};

/// What is missing of one group.
#[derive(Debug)]
pub struct MissingAllocs {
    /// The version of the job that is to run; none for the newest.
    pub version: Option<u64>,
    /// The position of the group in that version.
    pub group: u16,
    /// Those that replace others, and canaries.
    pub replacing: Vec<MissingAlloc>,
    pub(super) fresh: FreshAllocs,
}

/// Allocations that replace none.
#[derive(Debug)]
pub(super) enum FreshAllocs {
    /// So many, with the lowest names that are not `taken`; some rather on the node of who had the name before.
    Named { count: u32, taken: Names, sticky: BTreeMap<u32, NodeSlot> },
    /// One on each node that can run the group and is not covered.
    OnNodes { covered: BTreeSet<NodeSlot> },
    /// No new ones.
    Nothing,
}

impl MissingAllocs {
    /// What is to run: the version of the job, and its group there.
    pub fn spec<'a>(&self, row: &'a JobRow) -> Option<(&'a Arc<Job>, &'a Group)> {
        let job = match self.version {
            None => row.job(),
            Some(version) => &row.version(version)?.job,
        };
        Some((job, job.groups.get(usize::from(self.group))?))
    }

    /// How many are missing.
    pub fn count(&self, store: &Store, job: &Job, group: &Group) -> usize {
        let fresh = match &self.fresh {
            FreshAllocs::Named { count, .. } => *count as usize,
            FreshAllocs::OnNodes { covered } => {
                on_nodes(store, Filters::of(job, group), covered).flatten().count()
            }
            FreshAllocs::Nothing => 0,
        };
        self.replacing.len() + fresh
    }

    /// The same, or more of a group with one allocation a node: not every node need be able to run it.
    pub fn count_max(&self, store: &Store) -> u32 {
        let fresh = match &self.fresh {
            FreshAllocs::Named { count, .. } => *count,
            FreshAllocs::OnNodes { covered } => at_most(store.nodes().len().saturating_sub(covered.len())),
            FreshAllocs::Nothing => 0,
        };
        fresh.saturating_add(at_most(self.replacing.len()))
    }

    /// Those that replace nobody; none for each step that finds nothing.
    pub fn new_ones<'a>(
        &'a self,
        store: &'a Store,
        job: &'a Job,
        group: &'a Group,
    ) -> impl Iterator<Item = Option<MissingAlloc>> + 'a {
        let fresh: Box<dyn Iterator<Item = Option<MissingAlloc>> + 'a> = match &self.fresh {
            FreshAllocs::Named { count, taken, sticky } => Box::new(named(*count, taken, sticky)),
            FreshAllocs::OnNodes { covered } => Box::new(on_nodes(store, Filters::of(job, group), covered)),
            FreshAllocs::Nothing => Box::new(std::iter::empty()),
        };
        let new = self.replacing.iter().filter(|missing| missing.previous.is_none());
        new.cloned().map(Some).chain(fresh)
    }

    /// Those that replace others: whose predecessor is gone, then those whose predecessor stays until they have capacity.
    pub fn successors(&self) -> impl Iterator<Item = &MissingAlloc> {
        let with_previous = |instead: bool| {
            let all = self.replacing.iter().filter(|missing| missing.previous.is_some());
            all.filter(move |missing| missing.instead.is_some() == instead)
        };
        with_previous(false).chain(with_previous(true))
    }
}

fn at_most(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn named<'a>(
    count: u32,
    taken: &'a Names,
    sticky: &'a BTreeMap<u32, NodeSlot>,
) -> impl Iterator<Item = Option<MissingAlloc>> + 'a {
    taken.free().take(count as usize).map(move |name_index| {
        let ask = Ask { name_index, prefer: sticky.get(&name_index).copied(), ..Ask::default() };
        Some(MissingAlloc { ask, ..MissingAlloc::default() })
    })
}

fn on_nodes<'a>(
    store: &'a Store,
    filters: Filters,
    covered: &'a BTreeSet<NodeSlot>,
) -> impl Iterator<Item = Option<MissingAlloc>> + 'a {
    store.nodes().iter().map(move |(slot, row)| {
        let fits = || store.nodes().detail(slot).is_some_and(|detail| filters.check(&detail.node).is_ok());
        let is_open = row.is_ready() && !covered.contains(&slot) && fits();
        is_open.then(|| MissingAlloc {
            ask: Ask { only: Some(slot), ..Ask::default() },
            ..MissingAlloc::default()
        })
    })
}
