//! A group of a system job: one allocation on each node that can run it.

use std::collections::BTreeSet;

use berth_model::{
    alloc::{ClientStatus, StopReason},
    job::{Group, Job},
    store::{NodeSlot, Store},
};

use super::{
    Changes, Existing, lose_ending, stop,
    wanted::{Fresh, Wanted},
};
use crate::filters::Filters;

pub(super) fn reconcile(
    store: &Store,
    (job, position, group): (&Job, u16, &Group),
    existing: &[&Existing<'_>],
    changes: &mut Changes,
) {
    let filters = Filters::of(job, group);
    let fits = |slot| store.nodes().detail(slot).is_some_and(|detail| filters.check(&detail.node).is_ok());
    let mut covered: BTreeSet<NodeSlot> = BTreeSet::new();
    lose_ending(existing.iter().copied(), changes);
    for alloc in existing {
        let node = alloc.row.node;
        if alloc.row.is_terminal() {
            // What was lost with its node is wanted again there; what ended by itself is not started anew.
            if alloc.is_current && alloc.row.client != ClientStatus::Lost && ended_by_itself(alloc) {
                covered.insert(node);
            }
        } else if !alloc.row.is_wanted() {
            continue;
        } else if alloc.node_gone {
            changes.stops.push(stop(alloc, StopReason::NodeLost));
        } else if !fits(node) || covered.contains(&node) {
            changes.stops.push(stop(alloc, StopReason::NodeNotEligible));
        } else if alloc.is_current {
            covered.insert(node);
        } else {
            changes.stops.push(stop(alloc, StopReason::JobUpdated));
        }
    }
    let fresh = if group.count == 0 { Fresh::Nothing } else { Fresh::OnNodes { covered } };
    changes.wanted.push(Wanted { group: position, replacing: Vec::new(), fresh });
}

fn ended_by_itself(alloc: &Existing<'_>) -> bool {
    alloc.row.desired == berth_model::alloc::DesiredStatus::Run
}
