//! What a planner learns of the work that comes: which devices are asked for, and how much else with them.

use berth_model::{
    job::Group,
    store::{GroupCounts, JobRow, Store},
};

use super::Planner;
use crate::{filters::DeviceWish, reconcile::Missing};

impl Planner {
    /// Learns from what is missing of a job that has just come. What waits or is replaced was learned from then.
    pub(super) fn learn(&mut self, row: &JobRow, missing: &[(u16, Missing)]) {
        for (position, _) in missing {
            self.learn_group(&row.job().groups[usize::from(*position)], 1);
        }
    }

    /// Learns from all that came before this planner: what the state remembers of it.
    pub(super) fn recall(&mut self, store: &Store) {
        for (_, row) in store.jobs().iter() {
            for group in row.job().groups.iter().filter(|group| group.devices().next().is_some()) {
                let counts = row.counts.iter().find(|counts| counts.group == group.name);
                self.learn_group(group, counts.map_or(0, came));
            }
        }
    }

    fn learn_group(&mut self, group: &Group, times: u32) {
        for wish in group.devices().map(DeviceWish::new) {
            for _ in 0..times {
                self.columns.catalog_mut().learn(&wish, group.resources());
            }
        }
    }
}

/// Allocations of a group that were placed, or wait.
fn came(counts: &GroupCounts) -> u32 {
    let GroupCounts { live, complete, failed, lost, queued, .. } = *counts;
    [live, complete, failed, lost, queued].into_iter().fold(0, u32::saturating_add)
}
