//! All or nothing: a plan for a job that asks for it is whole, or places nothing.

use std::collections::BTreeMap;

use berth_model::{
    alloc::StopReason,
    codec::encoded_len,
    command::ENTRY_BYTES_MAX,
    device::DevicesHeld,
    eval::{Funnel, GroupFailure},
    quota::Usage,
    store::{JobRow, Store},
};

use super::Planner;
use crate::{budget::Meter, failures::reason, plan::Plan, reconcile::MissingAllocs};

/// Capacity that an entry of the log has for the placements and stops of a plan, beside what else stands with them.
const PLAN_BYTES_MAX: usize = ENTRY_BYTES_MAX - 4096;

impl Planner {
    /// Why a job that wants everything at once can have nothing: it wants more than one plan places.
    pub(super) fn too_many_at_once(
        &self,
        store: &Store,
        row: &JobRow,
        missing: &[MissingAllocs],
        meter: &Meter<'_>,
    ) -> Option<Vec<GroupFailure>> {
        let counts: Vec<u32> = missing.iter().map(|missing| missing.count_max(store)).collect();
        let (all, most) =
            (counts.iter().map(|count| *count as usize).sum::<usize>(), meter.budget().placements);
        if all <= most {
            return None;
        }
        let why = format!(
            "all_at_once: {all} allocations, a plan places {most}: ask for fewer allocations at once"
        );
        let failures = missing.iter().zip(counts).filter(|(_, count)| *count > 0);
        let failures = failures.filter_map(|(missing, count)| {
            let (_, group) = missing.spec(row)?;
            let group = group.name.as_str().into();
            Some(GroupFailure { group, count, funnel: reason(store, why.clone()).into() })
        });
        Some(failures.collect())
    }

    /// Gives back what was taken, unless the plan is whole and fits one entry of the log: what stands in two entries
    /// could come true by half.
    pub(super) fn place_all_or_nothing(&mut self, store: &Store, plan: &mut Plan) {
        let bytes = encoded_len(&plan.placements) + encoded_len(&plan.stops);
        let is_too_large = bytes > PLAN_BYTES_MAX;
        if plan.failures.is_empty() && !is_too_large {
            return;
        }
        let Some(row) = store.job(&plan.job) else { return };
        let placed = self.give_back(store, row, plan);
        for (name, count) in placed {
            let failure = plan.failures.iter_mut().find(|failure| *failure.group == *name);
            match failure {
                Some(failure) => failure.count += count,
                None => plan.failures.push(GroupFailure {
                    group: name.as_str().into(),
                    count,
                    funnel: (if is_too_large { reason(store, too_large(bytes)) } else { Funnel::default() })
                        .into(),
                }),
            }
        }
        // What a node took with it has ended all the same; what was to be replaced runs on.
        plan.stops.retain(|stop| {
            matches!(stop.reason, StopReason::NodeLost | StopReason::Drained | StopReason::JobStopped)
        });
    }

    /// How many of each group had been placed.
    fn give_back(&mut self, store: &Store, row: &JobRow, plan: &mut Plan) -> BTreeMap<String, u32> {
        let mut placed = BTreeMap::new();
        for (placement, charge) in plan.placements.drain(..).zip(plan.charges.drain(..)) {
            if let Some((_, group)) = row.placed_by(&placement, plan.job_version) {
                *placed.entry(group.name.clone()).or_default() += 1;
            }
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

fn too_large(bytes: usize) -> String {
    let kib = |bytes: usize| bytes.div_ceil(1024);
    format!(
        "all_at_once: the plan needs {} KiB, an entry of the log holds {} KiB: ask for fewer allocations at once",
        kib(bytes),
        kib(PLAN_BYTES_MAX)
    )
}
