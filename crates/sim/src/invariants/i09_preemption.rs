//! I9: preemption never inverts priority, and takes no more than is needed.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    AllocId, Index, NodeId,
    alloc::{Placement, StopReason},
    command::{Command, Entry, PlanRecord},
    device::DevicesHeld,
    event::{Applied, Event as Change},
    job::Job,
    resources::Resources,
    store::{AllocRow, AllocSlot, NodeSlot, Store},
};

use super::Check;

const RULE: &str = "I9 preemption keeps to priorities and takes no more than it needs";
/// How much lower the priority of what is preempted is; nothing is guaranteed to any namespace here.
const PRIORITY_GAP: u8 = 10;

/// When something last became free on each node: a plan that is older may take what it would not take now.
#[derive(Default)]
pub struct Preemptions(BTreeMap<NodeId, Index>);

/// The plan of a command, if it preempts something.
fn plan_of(command: &Command) -> Option<&PlanRecord> {
    let Command::CommitPlan(plan) = command else { return None };
    plan.stops.iter().any(|stop| stop.reason == StopReason::Preempted).then_some(&**plan)
}

impl Preemptions {
    /// What an entry preempts in the state before it is of lower priority, and in the way of what its plan places.
    pub fn check(&self, before: &Store, entry: &Entry) -> Check {
        for (number, plan) in (0..).zip(&entry.commands).filter_map(|(n, c)| Some((n, plan_of(c)?))) {
            let mut store = before.clone();
            let earlier = entry.commands[..number].to_vec();
            if !earlier.is_empty() {
                store.apply(Entry { commands: earlier, ..entry.clone() });
            }
            let Some(preempting) = Preempting::of(&store, plan) else { continue };
            preempting.check(|node| self.0.get(&node).is_some_and(|freed| *freed > plan.snapshot_index))?;
        }
        Ok(())
    }

    pub fn on_applied(&mut self, store: &Store, applied: &Applied) {
        for change in &applied.events {
            let Change::AllocEnded(slot) = change else { continue };
            let node = store.allocs().row(*slot).and_then(|row| store.nodes().row(row.node));
            self.0.extend(node.map(|node| (node.id, applied.index)));
        }
    }
}

/// A plan that preempts, and the state that it is applied to.
struct Preempting<'a> {
    store: &'a Store,
    plan: &'a PlanRecord,
    job: &'a Job,
}

impl<'a> Preempting<'a> {
    /// None for a plan of a job that has changed since: nothing of it is applied.
    fn of(store: &'a Store, plan: &'a PlanRecord) -> Option<Self> {
        let row = store.job(&plan.job)?;
        (row.current().version == plan.job_version).then(|| Self { store, plan, job: row.job() })
    }

    fn check(&self, has_more: impl Fn(NodeId) -> bool) -> Check {
        let stops = self.plan.stops.iter().filter(|stop| stop.reason == StopReason::Preempted);
        for id in stops.map(|stop| stop.alloc) {
            let Some((slot, row)) = self.store.alloc(id).filter(|(_, row)| row.is_wanted()) else { continue };
            let Some((victim, _)) = self.store.job_of(row) else { continue };
            let node = self.store.nodes().row(row.node).map(|node| node.id).unwrap_or_default();
            let what = if victim.priority.saturating_add(PRIORITY_GAP) > self.job.priority {
                format!(
                    "{id} of priority {} makes room for {} of {}",
                    victim.priority, self.job.key, self.job.priority
                )
            } else if !has_more(node) && !self.is_needed((slot, row), node) {
                format!("{id} makes room for {}, which had enough", self.job.key)
            } else {
                continue;
            };
            return Err((RULE, what));
        }
        Ok(())
    }

    fn placed_on(&self, node: NodeId) -> impl Iterator<Item = &Placement> {
        self.plan.placements.iter().filter(move |placement| placement.node == node)
    }

    /// Whether what is placed on a node would lack something without this one's end.
    fn is_needed(&self, (slot, row): (AllocSlot, &AllocRow), node: NodeId) -> bool {
        self.lacks_room(slot, row.node, node) || self.takes_over(slot, node)
    }

    fn lacks_room(&self, spared: AllocSlot, at: NodeSlot, node: NodeId) -> bool {
        let (Some(row), Some(detail)) = (self.store.nodes().row(at), self.store.nodes().detail(at)) else {
            return false;
        };
        let asked = self.placed_on(node).filter_map(|placement| {
            let row = self.store.job(&self.plan.job)?;
            let (_, group) = row.placed_by(placement, self.plan.job_version)?;
            Some(group.resources_on(&detail.node))
        });
        let asked = asked.fold(Resources::ZERO, Resources::plus);
        let ends: BTreeSet<AllocId> = self.plan.stops.iter().map(|stop| stop.alloc).collect();
        let others = self.store.nodes().live(row).filter(|slot| {
            *slot != spared && self.store.allocs().row(*slot).is_some_and(|row| ends.contains(&row.id))
        });
        let left = others.map(|slot| self.store.room_to_promise(slot)).fold(row.free(), Resources::plus);
        asked.exceeds(left).is_some()
    }

    /// Whether it has a port, a device or a core that is given to what is placed there.
    fn takes_over(&self, slot: AllocSlot, node: NodeId) -> bool {
        let Some(extra) = self.store.allocs().extra(slot) else { return false };
        let own = DevicesHeld::of(&extra.devices, &extra.cores);
        self.placed_on(node).any(|placement| {
            let given = DevicesHeld::of(&placement.devices, &placement.cores);
            placement.ports.iter().any(|port| extra.ports.contains(port))
                || given.milli.keys().any(|id| own.milli.contains_key(id))
                || given.cores.keys().any(|core| own.cores.contains_key(core))
        })
    }
}
