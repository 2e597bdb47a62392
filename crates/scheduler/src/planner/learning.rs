//! What a planner learns of the work that comes: which devices are asked for, and how much else with them.

use berth_model::{
    job::Group,
    store::{GroupCounts, JobRow, Store},
};

use super::Planner;
use crate::{filters::DeviceRequest, reconcile::MissingAllocs};

/// Asks of one job from which a planner learns; more of the same teach nothing new.
const ASKS_PER_JOB_MAX: usize = 1 << 16;

impl Planner {
    /// Learns from what is missing of a job that has just come. What waits or is replaced was learned from then.
    pub(super) fn learn(&mut self, store: &Store, row: &JobRow, missing: &[MissingAllocs]) {
        let groups = missing.iter().filter_map(|missing| Some((missing, missing.spec(row)?.1)));
        let with_devices = groups.filter(|(_, group)| has_devices(group));
        let asks = with_devices.map(|(missing, group)| (group, missing.count(store, row.job(), group)));
        self.learn_asks(asks);
    }

    /// Learns from all that came before this planner: what the state remembers of it.
    pub(super) fn recall(&mut self, store: &Store) {
        for (_, row) in store.jobs().iter() {
            let groups = row.job().groups.iter().filter(|group| has_devices(group));
            self.learn_asks(groups.map(|group| {
                let counts = row.counts.iter().find(|counts| *counts.group == *group.name);
                (group, counts.map_or(0, came) as usize)
            }));
        }
    }

    fn learn_asks<'a>(&mut self, asks: impl Iterator<Item = (&'a Group, usize)>) {
        let mut left = ASKS_PER_JOB_MAX;
        for (group, times) in asks {
            let times = times.min(left);
            left -= times;
            for request in group.devices().map(DeviceRequest::new) {
                (0..times).for_each(|_| self.columns.catalog_mut().learn(&request, group.resources()));
            }
        }
    }
}

fn has_devices(group: &Group) -> bool {
    group.devices().next().is_some()
}

/// Allocations of a group that were placed, or wait.
fn came(counts: &GroupCounts) -> u32 {
    let GroupCounts { live, complete, failed, lost, queued, .. } = *counts;
    [live, complete, failed, lost, queued].into_iter().fold(0, u32::saturating_add)
}
