//! Tenants' shares of the cluster, kept in step with the state: they decide whose waiting work is next.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use berth_model::{
    EvalId, JobKey,
    quota::Usage,
    resources::Resources,
    store::{NodeSlot, Store},
};
use berth_scheduler::fairness::{Amounts, NodeIx, Tree, Weight};

/// Shares of namespaces. What an evaluation will probably take counts while it is being planned, so that the tenants of
/// two equal shares take turns.
#[derive(Debug)]
pub(crate) struct Tenants {
    tree: Tree<()>,
    /// Of each namespace, where its own jobs stand: beside the namespaces below it.
    places: HashMap<Arc<str>, NodeIx>,
    /// What each place was last charged for.
    held: HashMap<NodeIx, Amounts>,
    planning: HashMap<EvalId, (Arc<str>, Amounts)>,
    /// Namespaces whose allocations have changed.
    changed: BTreeSet<Arc<str>>,
    /// Namespaces were made, moved or taken away.
    moved: bool,
    nodes: HashMap<NodeSlot, Amounts>,
    capacity: Amounts,
}

impl Default for Tenants {
    fn default() -> Self {
        Self {
            tree: Tree::new(()),
            places: HashMap::new(),
            held: HashMap::new(),
            planning: HashMap::new(),
            changed: BTreeSet::new(),
            moved: true,
            nodes: HashMap::new(),
            capacity: Amounts::ZERO,
        }
    }
}

impl Tenants {
    /// Those of a state.
    pub fn of(store: &Store) -> Self {
        let mut tenants = Self::default();
        store.nodes().iter().for_each(|(slot, _)| tenants.node_changed(store, slot));
        tenants.follow(store);
        tenants
    }

    /// A node came, changed or went.
    pub fn node_changed(&mut self, store: &Store, slot: NodeSlot) {
        let detail = store.nodes().detail(slot);
        let ready =
            store.nodes().row(slot).is_some_and(|row| row.status == berth_model::node::NodeStatus::Ready);
        let now = detail.filter(|_| ready).map_or(Amounts::ZERO, |detail| Amounts::of_node(&detail.node));
        let before = self.nodes.insert(slot, now).unwrap_or_default();
        if now.is_zero() {
            self.nodes.remove(&slot);
        }
        self.capacity = self.capacity.minus(before).plus(now);
    }

    /// What the allocations of a namespace hold has changed.
    pub fn usage_changed(&mut self, namespace: &Arc<str>) {
        self.changed.insert(namespace.clone());
    }

    /// Namespaces were made, moved or taken away.
    pub fn namespaces_changed(&mut self) {
        self.moved = true;
    }

    /// Catches up with what has changed.
    pub fn follow(&mut self, store: &Store) {
        if std::mem::take(&mut self.moved) {
            self.rebuild(store);
        }
        for namespace in std::mem::take(&mut self.changed) {
            let Some(row) = store.namespaces().get(&namespace) else { continue };
            let Some(place) = self.places.get(&namespace).copied() else { continue };
            let now = Amounts::of_usage(&row.used);
            let before = self.held.insert(place, now).unwrap_or_default();
            self.tree.discharge(place, before);
            self.tree.charge(place, now);
        }
        self.tree.set_total(self.capacity);
        self.tree.refresh();
    }

    fn rebuild(&mut self, store: &Store) {
        (self.tree, self.places, self.held) = (Tree::new(()), HashMap::new(), HashMap::new());
        let mut groups: HashMap<&str, NodeIx> = HashMap::new();
        let depth = |name: &str| store.namespaces().path(name).count();
        let mut rows: Vec<_> = store.namespaces().iter().collect();
        rows.sort_by_key(|row| depth(&row.namespace.name));
        for row in rows {
            let namespace = &row.namespace;
            let above = namespace.parent.as_deref().and_then(|parent| groups.get(parent).copied());
            let weight = Weight::from_milli(namespace.weight_milli).unwrap_or_default();
            let group = self.tree.add(above.unwrap_or(self.tree.root()), (), weight);
            groups.insert(&namespace.name, group);
            let name: Arc<str> = namespace.name.as_str().into();
            self.places.insert(name.clone(), self.tree.add(group, (), Weight::ONE));
            self.changed.insert(name);
        }
        for (namespace, amounts) in self.planning.values() {
            if let Some(place) = self.places.get(namespace) {
                self.tree.charge(*place, *amounts);
            }
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
        if let Some(place) = self.places.get(&job.namespace) {
            self.tree.charge(*place, amounts);
        }
        self.planning.insert(eval, (job.namespace.clone(), amounts));
    }

    /// An evaluation has been planned.
    pub fn end(&mut self, eval: EvalId) {
        let Some((namespace, amounts)) = self.planning.remove(&eval) else { return };
        if let Some(place) = self.places.get(&namespace) {
            self.tree.discharge(*place, amounts);
        }
    }

    /// Whose work goes first: whoever holds less than is guaranteed, then whoever has the smaller share.
    pub fn compare(&self, store: &Store, a: &Arc<str>, b: &Arc<str>) -> Ordering {
        let first = is_short(store, b).cmp(&is_short(store, a));
        first.then_with(|| match (self.places.get(a), self.places.get(b)) {
            (Some(a), Some(b)) => self.tree.compare(*a, *b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        })
    }
}

/// Whether a namespace holds less than one of its quotas guarantees.
fn is_short(store: &Store, namespace: &str) -> bool {
    if store.quotas().is_empty() {
        return false;
    }
    let quotas = store.namespaces().quotas(namespace);
    let rows = quotas.into_iter().filter_map(|quota| store.quotas().get(quota));
    rows.into_iter().any(|row| row.quota.guarantee.is_above(&row.used))
}

/// What the allocations would hold that a job wants and does not have.
fn missing(store: &Store, job: &JobKey) -> Amounts {
    let Some(row) = store.job(job).filter(|row| !row.job().stop) else { return Amounts::ZERO };
    let mut sum = Usage::default();
    for group in &row.job().groups {
        let live =
            row.counts.iter().find(|counts| counts.group == group.name).map_or(0, |counts| counts.live);
        let wanted = if row.job().job_type.is_per_node() { live } else { group.count };
        let one = Usage::of(Resources::ZERO, group);
        let held = group.resources();
        let count = u64::from(wanted.saturating_sub(live));
        sum.add(&Usage {
            cpu_mhz: count * u64::from(held.cpu_mhz),
            memory_mb: count * u64::from(held.memory_mb),
            disk_mb: count * u64::from(held.disk_mb),
            devices_milli: one.devices_milli.into_iter().map(|(name, milli)| (name, count * milli)).collect(),
        });
    }
    Amounts::of_usage(&sum)
}
