//! Canaries: no more of them than the job says, and of a job that runs on each node each in the place of another.

use std::collections::BTreeMap;

use super::{Checked, Faults};

pub(super) fn check(checked: &Checked<'_>, faults: &mut Faults) {
    let mut by_group: BTreeMap<u16, u32> = BTreeMap::new();
    for placement in checked.plan.placements.iter().filter(|placement| placement.canary) {
        *by_group.entry(placement.group).or_default() += 1;
        if checked.job.job_type.is_per_node() && !replaces_on_its_node(checked, placement) {
            faults.add(format!("canary {} stands beside another allocation of its node", placement.id));
        }
    }
    for (position, count) in by_group {
        let update = checked.group(position).and_then(|group| group.update.as_deref());
        let most = update.map_or(0, |update| match checked.job.job_type.is_per_node() {
            true if update.canary > 0 => u32::try_from(checked.store.nodes().len()).unwrap_or(u32::MAX),
            _ => update.canary,
        });
        if count > most {
            faults.add(format!("{count} canaries of group {position}, which may have {most}"));
        }
    }
}

fn replaces_on_its_node(checked: &Checked<'_>, canary: &berth_model::alloc::Placement) -> bool {
    let Some(previous) = canary.previous.filter(|previous| checked.is_stopped(*previous)) else {
        return false;
    };
    let row = checked.store.alloc(previous).map(|(_, row)| row.node);
    row.is_some() && row == checked.node(canary.node)
}
