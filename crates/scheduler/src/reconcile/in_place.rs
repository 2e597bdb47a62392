//! Whether what runs can go on where it is under the newest version of its job.

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
};

use berth_model::{
    job::VersionChange,
    node::Node,
    store::{AllocRow, JobRow, Store},
};

use crate::filters::{Feature, Filters};

/// The version of entries in which allocations are updated where they are.
const UPDATED_SINCE: u8 = 4;

/// The newest version of a job, as older allocations are compared with it. A job that was changed often has few versions and
/// many allocations of each.
pub(super) struct NewestVersion<'a> {
    store: &'a Store,
    row: &'a JobRow,
    changes: RefCell<BTreeMap<(u64, u16), VersionChange>>,
    /// By group; none before anybody asks.
    filters: Vec<OnceCell<Filters>>,
}

impl<'a> NewestVersion<'a> {
    pub(super) fn of(store: &'a Store, row: &'a JobRow) -> Self {
        let filters = row.job().groups.iter().map(|_| OnceCell::new()).collect();
        Self { store, row, changes: RefCell::default(), filters }
    }

    /// What it asks of an allocation of the group of this name.
    pub(super) fn change(&self, alloc: &AllocRow, group: &str) -> VersionChange {
        if alloc.job_version == self.row.current().version {
            return VersionChange::Nothing;
        }
        let change = || self.row.change_of(alloc.job_version, alloc.group);
        let version_group = (alloc.job_version, alloc.group);
        match *self.changes.borrow_mut().entry(version_group).or_insert_with(change) {
            VersionChange::InPlace if !self.is_good_for(alloc, group) => VersionChange::Replacement,
            change => change,
        }
    }

    fn is_good_for(&self, alloc: &AllocRow, group: &str) -> bool {
        if alloc.is_terminal() {
            return self.row.has_no_use_for_changes(alloc);
        }
        let node = self.store.nodes().detail(alloc.node);
        self.store.version() >= UPDATED_SINCE && node.is_some_and(|detail| self.fits(&detail.node, group))
    }

    /// Whether a node's agent can be informed, and may run what the group says now.
    fn fits(&self, node: &Node, group: &str) -> bool {
        let Some((position, group)) = self.row.job().group(group) else { return false };
        let filters = self.filters[usize::from(position)].get_or_init(|| Filters::of(self.row.job(), group));
        Feature::InPlaceUpdates.is_known_by(node) && filters.check(node).is_ok()
    }
}
