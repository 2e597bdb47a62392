//! All or nothing: a plan for a job that asks for it is whole, or places nothing.

use std::collections::BTreeMap;

use berth_model::{
    alloc::StopReason,
    command::ENTRY_BYTES_MAX,
    device::DevicesHeld,
    eval::{Funnel, GroupFailure},
    quota::Usage,
    store::Store,
};

use super::Planner;
use crate::plan::{Plan, plan_bytes};

/// Room that an entry of the log has for a plan.
const PLAN_BYTES_MAX: usize = ENTRY_BYTES_MAX - 1024;

impl Planner {
    /// Gives back what was taken, unless the plan is whole and fits one entry of the log: what stands in two entries
    /// could come true by half.
    pub(super) fn place_all_or_nothing(&mut self, store: &Store, plan: &mut Plan) {
        let bytes = plan_bytes(&plan.placements, plan.stops.len(), 0);
        let is_too_large = bytes > PLAN_BYTES_MAX;
        if plan.failures.is_empty() && !is_too_large {
            return;
        }
        let placed = self.give_back(store, plan);
        let Some(row) = store.job(&plan.job) else { return };
        for (group, count) in placed {
            let name = &row.job().groups[usize::from(group)].name;
            let failure = plan.failures.iter_mut().find(|failure| failure.group == *name);
            match failure {
                Some(failure) => failure.count += count,
                None => plan.failures.push(GroupFailure {
                    group: name.clone(),
                    count,
                    funnel: if is_too_large { too_large(store, bytes) } else { Funnel::default() },
                }),
            }
        }
        // What a node took with it has ended all the same; what was to be replaced runs on.
        plan.stops.retain(|stop| matches!(stop.reason, StopReason::NodeLost | StopReason::JobStopped));
    }

    /// How many of each group had been placed.
    fn give_back(&mut self, store: &Store, plan: &mut Plan) -> BTreeMap<u16, u32> {
        let mut placed = BTreeMap::new();
        for (placement, charge) in plan.placements.drain(..).zip(plan.charges.drain(..)) {
            *placed.entry(placement.group).or_default() += 1;
            if let Some(slot) = store.nodes().find(placement.node) {
                let devices = DevicesHeld::of(&placement.devices, &placement.cores);
                self.columns.give_back(slot, charge, &placement.ports, devices);
            }
        }
        plan.holds.clear();
        plan.pledge = Usage::default();
        placed
    }
}

/// No node is short of anything, yet none can be used.
fn too_large(store: &Store, bytes: usize) -> Funnel {
    let ready = store.nodes().iter().filter(|(_, row)| row.is_ready()).count();
    let considered = u32::try_from(ready).unwrap_or(u32::MAX);
    let kib = |bytes: usize| bytes.div_ceil(1024);
    let reason = format!(
        "all_at_once: the plan needs {} KiB, an entry of the log holds {} KiB: ask for fewer allocations at once",
        kib(bytes),
        kib(PLAN_BYTES_MAX)
    );
    Funnel { considered, exhausted: BTreeMap::from([(reason, considered)]), ..Funnel::default() }
}
