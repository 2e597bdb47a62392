//! What quotas leave a namespace to take.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{
    AllocId,
    eval::Funnel,
    job::Group,
    quota::{Quota, Usage},
    store::{NodeSlot, Store},
};

/// What plans on their way into the store add to what namespaces hold, as a state shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pledges {
    by_namespace: BTreeMap<Arc<str>, Usage>,
    /// What allocations that are to end have given to successors on their way.
    inherited: BTreeMap<AllocId, Usage>,
}

impl Pledges {
    /// That much more of a namespace.
    pub fn add(&mut self, namespace: &Arc<str>, usage: &Usage) {
        self.by_namespace.entry(namespace.clone()).or_default().add(usage);
    }

    /// An allocation of a namespace that holds so much and comes `after` others.
    pub fn add_successor(&mut self, store: &Store, namespace: &Arc<str>, holds: &Usage, after: &[AllocId]) {
        let charge = Charge::of(store, namespace, holds.clone(), after, &self.inherited);
        self.add(namespace, &charge.usage);
        charge.inherit(&mut self.inherited);
    }
}

/// What a namespace may still take: its quotas, with what counts for each.
#[derive(Debug, Clone)]
pub struct Headroom {
    namespace: Arc<str>,
    quotas: Vec<(Arc<Quota>, Usage)>,
    /// What placements on their way and earlier ones of the plan have had of their predecessors.
    inherited: BTreeMap<AllocId, Usage>,
}

/// What a placement takes of what its namespace may hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Charge {
    /// What it adds to what the namespace holds.
    pub usage: Usage,
    /// What it has of its predecessors, of any namespace.
    inherited: Vec<(AllocId, Usage)>,
}

impl Headroom {
    /// Of a namespace, in a state and with what the state does not show yet.
    pub fn of(store: &Store, namespace: &Arc<str>, pledges: &Pledges) -> Self {
        let mut quotas = Vec::new();
        if !store.quotas().is_empty() {
            for name in store.namespaces().quotas(namespace) {
                let Some(row) = store.quotas().get(name) else { continue };
                let mut used = row.used.clone();
                let counts = |of: &Arc<str>| store.namespaces().quotas(of).contains(name);
                pledges
                    .by_namespace
                    .iter()
                    .filter(|(of, _)| counts(of))
                    .for_each(|(_, usage)| used.add(usage));
                quotas.push((row.quota.clone(), used));
            }
        }
        Self { namespace: namespace.clone(), quotas, inherited: pledges.inherited.clone() }
    }

    /// Whether nothing limits it.
    pub fn is_unlimited(&self) -> bool {
        self.quotas.is_empty()
    }

    /// The quotas of which less is held than they guarantee.
    pub fn short(&self) -> Vec<String> {
        let short = self.quotas.iter().filter(|(quota, used)| quota.guarantee.is_above(used));
        short.map(|(quota, _)| quota.name.clone()).collect()
    }

    /// Whether that much more can be held.
    ///
    /// # Errors
    /// When a limit would be exceeded: a funnel in which no node is considered, with each quota and its dimension.
    pub fn check(&self, charge: &Usage) -> Result<(), Funnel> {
        let mut funnel = Funnel::default();
        for (quota, used) in &self.quotas {
            let mut held = used.clone();
            held.add(charge);
            if let Some(excess) = quota.limit.exceeded_by(&held) {
                funnel.quota.insert(quota.name.clone(), excess.to_string());
            }
        }
        if funnel.quota.is_empty() { Ok(()) } else { Err(funnel) }
    }

    /// How much more of cpu can be held, in MHz; none where no quota limits that.
    pub fn cpu_left(&self) -> Option<u64> {
        let left =
            |(quota, used): &(Arc<Quota>, Usage)| Some(quota.limit.cpu_mhz?.saturating_sub(used.cpu_mhz));
        self.quotas.iter().filter_map(left).min()
    }

    /// That much more is held.
    pub fn take(&mut self, charge: Charge) {
        self.quotas.iter_mut().for_each(|(_, used)| used.add(&charge.usage));
        charge.inherit(&mut self.inherited);
    }

    /// What an allocation of a group on a node adds to what its namespace holds: not what predecessors of the namespace
    /// leave it there.
    pub fn charge_of(&self, store: &Store, group: &Group, node: NodeSlot, after: &[AllocId]) -> Charge {
        let Some(detail) = store.nodes().detail(node) else { return Charge::default() };
        let holds = Usage::of(group.resources_on(&detail.node), group);
        Charge::of(store, &self.namespace, holds, after, &self.inherited)
    }
}

impl Charge {
    fn of(
        store: &Store,
        namespace: &str,
        holds: Usage,
        after: &[AllocId],
        inherited: &BTreeMap<AllocId, Usage>,
    ) -> Self {
        let mut left = holds.clone();
        let mut charge = Self { usage: holds, inherited: Vec::new() };
        for id in after {
            let Some((slot, row)) = store.alloc(*id) else { continue };
            let mut leaves = store.usage_to_promise(slot);
            inherited.get(id).into_iter().for_each(|usage| leaves.remove(usage));
            let part = leaves.common(&left);
            left.remove(&part);
            if store.jobs().row(row.job).is_some_and(|job| &*job.key.namespace == namespace) {
                charge.usage.remove(&part);
            }
            charge.inherited.push((*id, part));
        }
        charge
    }

    fn inherit(&self, inherited: &mut BTreeMap<AllocId, Usage>) {
        self.inherited.iter().for_each(|(id, part)| inherited.entry(*id).or_default().add(part));
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{
        Index, Timestamp,
        command::{Command, Entry},
        namespace::Namespace,
        quota::Bounds,
    };

    use super::*;

    /// `dev` below `eng`; `eng` has a quota of 1000 MiB, `dev` one of 600.
    fn store() -> Store {
        let quota = |name: &str, memory_mb| {
            let limit = Bounds { memory_mb: Some(memory_mb), ..Bounds::default() };
            Command::PutQuota(Box::new(Quota { name: name.to_owned(), limit, ..Quota::default() }))
        };
        let namespace = |name: &str, parent: Option<&str>, quota: &str| {
            let parent = parent.map(str::to_owned);
            let quota = Some(quota.to_owned());
            Command::PutNamespace(Box::new(Namespace { parent, quota, ..Namespace::new(name) }))
        };
        let commands = vec![
            quota("large", 1000),
            quota("small", 600),
            namespace("eng", None, "large"),
            namespace("dev", Some("eng"), "small"),
        ];
        let mut store = Store::default();
        let outcomes = store.apply(Entry::new(Index(1), Timestamp(1), commands)).outcomes;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        store
    }

    fn memory(memory_mb: u64) -> Usage {
        Usage { memory_mb, ..Usage::default() }
    }

    fn pledged(namespace: &str, usage: Usage) -> Pledges {
        let mut pledges = Pledges::default();
        pledges.add(&namespace.into(), &usage);
        pledges
    }

    #[test]
    fn every_quota_on_the_way_up_counts_and_is_named() {
        let store = store();
        let pledges = pledged("eng", memory(500));
        let mut headroom = Headroom::of(&store, &"dev".into(), &pledges);
        assert_eq!(headroom.check(&memory(500)), Ok(()));
        let refused = headroom.check(&memory(601)).unwrap_err();
        assert_eq!(refused.quota["small"], "memory (601/600)");
        assert_eq!(refused.quota["large"], "memory (1101/1000)");
        headroom.take(Charge { usage: memory(500), inherited: Vec::new() });
        let refused = headroom.check(&memory(1)).unwrap_err();
        assert_eq!(
            refused.quota.into_iter().collect::<Vec<_>>(),
            [("large".into(), "memory (1001/1000)".into())]
        );
    }

    #[test]
    fn a_namespace_without_quotas_takes_what_it_likes() {
        let headroom = Headroom::of(&store(), &"default".into(), &Pledges::default());
        assert!(headroom.is_unlimited());
        assert_eq!(headroom.check(&memory(u64::MAX / 2)), Ok(()));
    }
}
