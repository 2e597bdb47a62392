//! Who stays because the successor that a plan found for it was refused.

use std::collections::HashSet;

use berth_model::{
    AllocId,
    alloc::{Placement, Stop},
};

use super::PassedPlacements;

/// Takes out the stops of those whose successors were refused, and the placements that were to come after one that stays,
/// whose own predecessors then stay in turn.
pub(super) fn keep(stops: &mut Vec<Stop>, mut passing: PassedPlacements) -> PassedPlacements {
    if passing.refused.count == 0 {
        return passing;
    }
    loop {
        let succeeded: HashSet<AllocId> = passing.placements.iter().filter_map(|p| p.previous).collect();
        let is_kept = |stop: &Stop| stop.reason.needs_successor() && !succeeded.contains(&stop.alloc);
        let staying: HashSet<AllocId> =
            stops.extract_if(.., |stop| is_kept(stop)).map(|stop| stop.alloc).collect();
        if staying.is_empty() {
            return passing;
        }
        refuse(&mut passing, |placement| placement.after.iter().any(|id| staying.contains(id)));
    }
}

fn refuse(passing: &mut PassedPlacements, is_refused: impl Fn(&Placement) -> bool) {
    let (placements, holds) = (std::mem::take(&mut passing.placements), std::mem::take(&mut passing.holds));
    for (placement, holds) in placements.into_iter().zip(holds) {
        if is_refused(&placement) {
            passing.refused.add(placement.node);
        } else {
            passing.placements.push(placement);
            passing.holds.push(holds);
        }
    }
}
