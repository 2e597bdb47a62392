//! Namespaces as claimants on the cluster: whose waiting work goes first, and where a waiting job stands.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use berth_model::{
    JobKey,
    eval::Eval,
    node::NodeStatus,
    store::{NodeSlot, Store},
};

use super::{Amounts, NodeIx, Share, Tree, Weight};

/// Where namespaces stand in a tree of shares.
#[derive(Debug)]
pub struct TenantTree {
    tree: Tree<()>,
    /// Of each namespace, where its own jobs stand: beside the namespaces below it.
    tree_nodes: HashMap<Arc<str>, NodeIx>,
}

impl Default for TenantTree {
    fn default() -> Self {
        Self { tree: Tree::new(()), tree_nodes: HashMap::new() }
    }
}

impl TenantTree {
    /// The namespaces of a state, with what their allocations hold, of a total.
    pub fn of(store: &Store, total: Amounts) -> Self {
        let mut tenants = Self::default();
        let mut groups: HashMap<&str, NodeIx> = HashMap::new();
        let mut rows: Vec<_> = store.namespaces().iter().collect();
        rows.sort_by_key(|row| store.namespaces().path(&row.namespace.name).count());
        for row in rows {
            let namespace = &row.namespace;
            let above = namespace.parent.as_deref().and_then(|parent| groups.get(parent).copied());
            let weight = Weight::from_milli(namespace.weight_milli).unwrap_or_default();
            let group = tenants.tree.add(above.unwrap_or(tenants.tree.root()), (), weight);
            groups.insert(&namespace.name, group);
            let tree_node = tenants.tree.add(group, (), Weight::ONE);
            tenants.tree.charge(tree_node, Amounts::of_usage(&row.used));
            tenants.tree_nodes.insert(namespace.name.as_str().into(), tree_node);
        }
        tenants.set_total(total);
        tenants
    }

    /// What all of them share.
    pub fn set_total(&mut self, total: Amounts) {
        self.tree.set_total(total);
        self.tree.refresh();
    }

    /// A namespace holds more; one that is not there is let go.
    pub fn charge(&mut self, namespace: &str, amounts: Amounts) {
        if let Some(tree_node) = self.tree_nodes.get(namespace) {
            self.tree.charge(*tree_node, amounts);
        }
    }

    /// A namespace holds less.
    pub fn discharge(&mut self, namespace: &str, amounts: Amounts) {
        if let Some(tree_node) = self.tree_nodes.get(namespace) {
            self.tree.discharge(*tree_node, amounts);
        }
    }

    /// The dominant share of a namespace, together with all below it; by weight.
    pub fn share(&self, namespace: &str) -> Option<Share> {
        let tree_node = self.tree_nodes.get(namespace)?;
        Some(self.tree.share(self.tree.parent(*tree_node)?))
    }

    /// Whose work goes first: whoever holds less than is guaranteed, then whoever has the smaller share.
    pub fn compare(&self, store: &Store, a: &str, b: &str) -> Ordering {
        let first = is_short(store, b).cmp(&is_short(store, a));
        first.then_with(|| match (self.tree_nodes.get(a), self.tree_nodes.get(b)) {
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
    let mut rows = quotas.into_iter().filter_map(|quota| store.quotas().get(quota));
    rows.any(|row| row.quota.guarantee.is_above(&row.used))
}

/// What allocations may have of a node; nothing while it is not ready.
pub fn capacity(store: &Store, slot: NodeSlot) -> Amounts {
    let ready = store.nodes().row(slot).is_some_and(|row| row.status == NodeStatus::Ready);
    let detail = store.nodes().detail(slot).filter(|_| ready);
    detail.map_or(Amounts::ZERO, |detail| Amounts::of_node(&detail.node))
}

/// Where a job that waits for capacity stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FairPosition {
    /// The dominant share of its tenant, together with all below it, by weight: 0.25 for a quarter of the cluster.
    pub share: f64,
    /// Tenants whose waiting work of the same or a higher priority is tried before this tenant's.
    pub tenants_ahead: usize,
    /// Waiting jobs of its own tenant that are tried before it.
    pub jobs_ahead: usize,
}

impl FairPosition {
    /// Of a job; none when it does not wait for capacity.
    pub fn of(store: &Store, job: &JobKey) -> Option<Self> {
        let mine = store.evals().blocked().find(|eval| eval.job == *job)?;
        let slots = store.nodes().iter().map(|(slot, _)| slot);
        let total = slots.fold(Amounts::ZERO, |sum, slot| sum.plus(capacity(store, slot)));
        let tenants = TenantTree::of(store, total);
        let mut ahead: BTreeMap<&str, bool> = BTreeMap::new();
        let mut jobs_ahead = 0;
        for other in store.evals().blocked().filter(|other| other.id != mine.id) {
            let namespace = &*other.job.namespace;
            if *namespace == *job.namespace {
                jobs_ahead += usize::from(age(other) < age(mine));
            } else if other.priority >= mine.priority {
                let before = || {
                    other.priority > mine.priority
                        || tenants.compare(store, namespace, &job.namespace).is_lt()
                };
                let known = ahead.entry(namespace).or_insert(false);
                *known = *known || before();
            }
        }
        let share = tenants.share(&job.namespace).unwrap_or_default().to_f64();
        Some(Self { share, tenants_ahead: ahead.into_values().filter(|ahead| *ahead).count(), jobs_ahead })
    }
}

fn age(eval: &Eval) -> impl Ord {
    (std::cmp::Reverse(eval.priority), eval.create_index, eval.id)
}

#[cfg(test)]
mod tests {
    use berth_model::{
        EvalId, Index, Timestamp,
        command::{Command, Entry, RegisterJob},
        eval::{EvalStatus, Trigger},
        job::{Job, JobType},
        namespace::Namespace,
        quota::{Bounds, Quota},
    };

    use super::*;

    #[derive(Default)]
    struct World(Store);

    impl World {
        fn apply(&mut self, command: Command) {
            let index = Index(self.0.index().0 + 1);
            let outcomes = self.0.apply(Entry::new(index, Timestamp(index.0), vec![command])).outcomes;
            assert_eq!(outcomes, [Ok(())]);
        }

        fn tenant(&mut self, name: &str, quota: Option<&str>) {
            let quota = quota.map(str::to_owned);
            self.apply(Command::PutNamespace(Box::new(Namespace { quota, ..Namespace::new(name) })));
        }

        fn waits(&mut self, tenant: &str, id: &str, priority: u8) {
            let key = JobKey::new(tenant, id);
            let eval = EvalId(u128::from(self.0.index().0) + 1);
            let job = Arc::new(Job { priority, ..Job::new(key.clone(), JobType::Batch) });
            self.apply(Command::RegisterJob(Box::new(RegisterJob {
                job,
                eval,
                only_if: None,
                submission: None,
            })));
            let mut blocked =
                Eval::pending(EvalId(eval.0 << 64), key, JobType::Batch, priority, Trigger::QueuedAllocs);
            blocked.status = EvalStatus::Blocked;
            self.apply(Command::CreateEvals(vec![blocked]));
        }

        fn standing(&self, tenant: &str, id: &str) -> Option<(usize, usize)> {
            let standing = FairPosition::of(&self.0, &JobKey::new(tenant, id))?;
            Some((standing.tenants_ahead, standing.jobs_ahead))
        }
    }

    #[test]
    fn a_waiting_job_knows_who_goes_before_it() {
        let mut world = World::default();
        let guarantee = Bounds { memory_mb: Some(100), ..Bounds::default() };
        world.apply(Command::PutQuota(Box::new(Quota {
            name: "sure".into(),
            guarantee,
            ..Quota::default()
        })));
        world.tenant("a", None);
        world.tenant("b", Some("sure"));
        world.waits("a", "old", 50);
        world.waits("a", "new", 50);
        world.waits("b", "one", 50);
        assert_eq!(world.standing("b", "one"), Some((0, 0)), "it holds less than is guaranteed");
        assert_eq!([world.standing("a", "old"), world.standing("a", "new")], [Some((1, 0)), Some((1, 1))]);
        world.waits("a", "urgent", 80);
        assert_eq!([world.standing("a", "urgent"), world.standing("b", "one")], [Some((0, 0)), Some((1, 0))]);
        assert_eq!(world.standing("a", "nothing"), None);
    }
}
