//! Tenants' shares of the cluster, kept in step with the state: they decide whose waiting work is next.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use berth_model::{
    EvalId, JobKey, Timestamp,
    event::StateChange,
    quota::Usage,
    resources::Resources,
    store::{NodeSlot, Store},
};
use berth_scheduler::fairness::{Amounts, TenantTree, capacity};

use crate::follow::Follower;

/// Shares of namespaces. What an evaluation will probably take counts while it is being planned, so that tenants of equal
/// shares take turns.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    tree: TenantTree,
    /// What each namespace was last charged for.
    held: BTreeMap<Arc<str>, Amounts>,
    planning: BTreeMap<EvalId, (Arc<str>, Amounts)>,
    /// Namespaces whose allocations have changed.
    changed: BTreeSet<Arc<str>>,
    /// Namespaces were made, moved or taken away.
    moved: bool,
    nodes: HashMap<NodeSlot, Amounts>,
    total: Amounts,
}

impl Follower for Tenants {
    fn of(store: &Store) -> Self {
        let mut tenants = Self { moved: true, ..Self::default() };
        store.nodes().iter().for_each(|(slot, _)| tenants.node_changed(store, slot));
        tenants.follow(store);
        tenants
    }

    fn on_change(&mut self, store: &Store, change: &StateChange, _at: Timestamp) {
        match change {
            StateChange::AllocPlaced(slot) | StateChange::AllocEnded(slot) => {
                let job = store.allocs().row(*slot).and_then(|row| store.jobs().row(row.job));
                self.changed.extend(job.map(|job| job.key.namespace.clone()));
            }
            StateChange::NodeRegistered(slot)
            | StateChange::NodeChanged(slot, _)
            | StateChange::NodeCollected(slot, _) => {
                self.node_changed(store, *slot);
            }
            StateChange::NamespaceChanged(_) => self.moved = true,
            _ => {}
        }
    }
}

impl Tenants {
    fn node_changed(&mut self, store: &Store, slot: NodeSlot) {
        let now = capacity(store, slot);
        let before = match now {
            Amounts::ZERO => self.nodes.remove(&slot),
            now => self.nodes.insert(slot, now),
        };
        self.total = self.total.minus(before.unwrap_or_default()).plus(now);
    }

    /// What each namespace is charged for, and what there is.
    #[cfg(test)]
    pub fn shares(&self) -> (BTreeMap<Arc<str>, Amounts>, Amounts) {
        let held = self.held.iter().map(|(name, amounts)| (name.clone(), *amounts));
        (held.filter(|(_, amounts)| *amounts != Amounts::ZERO).collect(), self.total)
    }

    /// Catches up with what has changed.
    pub fn follow(&mut self, store: &Store) {
        if std::mem::take(&mut self.moved) {
            self.rebuild(store);
        }
        for namespace in std::mem::take(&mut self.changed) {
            let now = held(store, &namespace);
            let before = self.held.insert(namespace.clone(), now).unwrap_or_default();
            self.tree.discharge(&namespace, before);
            self.tree.charge(&namespace, now);
        }
        self.tree.set_total(self.total);
    }

    fn rebuild(&mut self, store: &Store) {
        self.tree = TenantTree::of(store, self.total);
        let names = store.namespaces().iter().map(|row| Arc::from(row.namespace.name.as_str()));
        self.held = names.map(|name: Arc<str>| (name.clone(), held(store, &name))).collect();
        self.changed.clear();
        for (namespace, amounts) in self.planning.values() {
            self.tree.charge(namespace, *amounts);
        }
    }

    /// An evaluation is about to be planned.
    pub fn begin(&mut self, store: &Store, eval: EvalId, job: &JobKey) {
        if self.planning.contains_key(&eval) {
            return;
        }
        // Even work that takes nothing takes its turn.
        let mut amounts = missing(store, job);
        amounts.0[Amounts::CPU] = amounts.0[Amounts::CPU].max(1);
        self.tree.charge(&job.namespace, amounts);
        self.planning.insert(eval, (job.namespace.clone(), amounts));
    }

    /// An evaluation has been planned.
    pub fn end(&mut self, eval: EvalId) {
        if let Some((namespace, amounts)) = self.planning.remove(&eval) {
            self.tree.discharge(&namespace, amounts);
        }
    }

    /// Whose work goes first.
    pub fn compare(&self, store: &Store, a: &str, b: &str) -> Ordering {
        self.tree.compare(store, a, b)
    }
}

fn held(store: &Store, namespace: &str) -> Amounts {
    store.namespaces().get(namespace).map_or(Amounts::ZERO, |row| Amounts::of_usage(&row.used))
}

/// What the allocations would hold that a job wants and does not have.
fn missing(store: &Store, job: &JobKey) -> Amounts {
    let Some(row) = store.job(job).filter(|row| !row.job().stop) else { return Amounts::ZERO };
    let mut sum = Usage::default();
    for group in &row.job().groups {
        let live =
            row.counts.iter().find(|counts| *counts.group == *group.name).map_or(0, |counts| counts.live);
        // How many nodes a job of one allocation a node will find is not known yet.
        let desired = if row.job().job_type.is_per_node() { live } else { group.count };
        let count = u64::from(desired.saturating_sub(live));
        let Resources { cpu_mhz, memory_mb, disk_mb } = group.resources();
        let devices = Usage::of(Resources::ZERO, group).devices_milli.into_iter();
        sum.add(&Usage {
            cpu_mhz: count * u64::from(cpu_mhz),
            memory_mb: count * u64::from(memory_mb),
            disk_mb: count * u64::from(disk_mb),
            devices_milli: devices.map(|(name, milli)| (name, count * milli)).collect(),
        });
    }
    Amounts::of_usage(&sum)
}
