//! Whether what a plan places finds capacity: cpu, memory and disk, ports, and the capacity that is promised to it.

use std::collections::{BTreeMap, HashMap, HashSet};

use berth_model::{AllocId, NodeId, alloc::Placement, resources::Resources, store::NodeSlot};

use super::{CheckedPlan, PlanFaults};

pub(super) fn check(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    let mut planned = PlannedUse::default();
    for (at, placement) in checked.plan.placements.iter().enumerate() {
        let Some(slot) = checked.node(placement.node) else { continue };
        predecessors(checked, placement, slot, faults);
        ports(checked, placement, slot, &mut planned, faults);
        let added = planned.add(checked, placement);
        if checked.plan.charges.get(at).is_some_and(|charge| *charge != added) {
            faults.add(format!("allocation {} is charged another amount than {added:?}", placement.id));
        }
    }
    for (node, added) in &planned.added {
        let row = checked.node(*node).and_then(|slot| checked.store.nodes().row(slot));
        if let Some(short) = row.and_then(|row| added.exceeds(row.free())) {
            faults.add(format!("node {node} has not enough {short}"));
        }
    }
}

/// What the plan takes.
#[derive(Default)]
struct PlannedUse {
    added: BTreeMap<NodeId, Resources>,
    ports: HashSet<(NodeId, u16)>,
    /// Of each predecessor, what has been left to successors.
    left: HashMap<AllocId, Resources>,
}

impl PlannedUse {
    /// What a placement adds to its node: what its predecessors leave it was counted for them.
    fn add(&mut self, checked: &CheckedPlan<'_>, placement: &Placement) -> Resources {
        let node = checked.node(placement.node).and_then(|slot| checked.store.nodes().detail(slot));
        let group = checked.spec(placement).map(|(_, group)| group).zip(node);
        let mut missing = group.map_or(Resources::ZERO, |(group, detail)| group.resources_on(&detail.node));
        for before in &placement.after {
            let Some(slot) = checked.store.allocs().find(*before) else { continue };
            let left = self.left.entry(*before).or_default();
            let inherited = checked.store.resources_to_promise(slot).minus(*left).min(missing);
            *left = left.plus(inherited);
            missing = missing.minus(inherited);
        }
        let added = self.added.entry(placement.node).or_default();
        *added = added.plus(missing);
        missing
    }
}

/// Only what lives on the same node and is to end can leave capacity.
fn predecessors(checked: &CheckedPlan<'_>, placement: &Placement, slot: NodeSlot, faults: &mut PlanFaults) {
    for before in &placement.after {
        let row = checked.store.alloc(*before).map(|(_, row)| row);
        let row = row.filter(|row| row.node == slot && !row.is_terminal());
        if row.is_none_or(|row| row.is_desired() && !checked.is_stopped(row.id)) {
            faults.add(format!("allocation {} waits for {before}, which is not to end there", placement.id));
        }
    }
}

fn ports(
    checked: &CheckedPlan<'_>,
    placement: &Placement,
    slot: NodeSlot,
    planned: &mut PlannedUse,
    faults: &mut PlanFaults,
) {
    let (Some(detail), Some((_, group))) = (checked.store.nodes().detail(slot), checked.spec(placement))
    else {
        return;
    };
    if placement.ports.len() != group.ports().count() {
        faults.add(format!("allocation {} has {} ports", placement.id, placement.ports.len()));
    }
    let Some(row) = checked.store.nodes().row(slot) else { return };
    let allocs = checked.store.allocs();
    // Who waits for it waits for those whom it waits for too.
    let before = placement.after.iter().filter_map(|id| allocs.find(*id));
    let before: HashSet<AllocId> = before.flat_map(|slot| checked.store.waits_for(slot)).collect();
    let goes_first = |id: &AllocId| placement.after.contains(id) || before.contains(id);
    let living = checked.store.nodes().live(row);
    let others = living.filter(|slot| allocs.row(*slot).is_none_or(|alloc| !goes_first(&alloc.id)));
    let held: HashSet<u16> =
        others.filter_map(|slot| allocs.extra(slot)).flat_map(|extra| extra.ports.iter().copied()).collect();
    let (first, last) = detail.node.dynamic_ports;
    for (requested, port) in group.ports().zip(&placement.ports) {
        let is_asked = requested.fixed.map_or((first..=last).contains(port), |fixed| fixed == *port);
        let is_free = !held.contains(port) && !detail.node.reserved_ports.contains(port);
        if !is_asked || !is_free || !planned.ports.insert((placement.node, *port)) {
            faults.add(format!(
                "allocation {} cannot have port {port} of node {}",
                placement.id, placement.node
            ));
        }
    }
}
