//! Guaranteed capacity is used by others while its owner does not need it, and reclaimed when it does.
//!
//! A namespace that holds less than one of its quotas guarantees may preempt what others have borrowed: allocations of
//! namespaces that do not keep to that quota, and that hold more than is guaranteed to themselves, also without them.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_model::{
    quota::Usage,
    store::{AllocRow, Store},
};

/// What one namespace may take back.
#[derive(Debug)]
pub struct Reclaim {
    /// The quotas that it keeps to.
    own: BTreeSet<String>,
    /// Those of them of which less is held than they guarantee.
    short: Vec<String>,
    /// Of each quota that guarantees something, what will be held once all has ended that is to end. Counted when it is
    /// first asked for: nobody is preempted as long as there is capacity.
    usage_by_quota: OnceCell<BTreeMap<String, Usage>>,
    /// What was taken back so far, by quota.
    gone: ReclaimedUsage,
}

/// What is preempted, by the quota for which it counted.
pub type ReclaimedUsage = BTreeMap<String, Usage>;

impl Reclaim {
    /// What a namespace may reclaim.
    pub fn of(store: &Store, namespace: &Arc<str>) -> Self {
        let own = store.namespaces().quotas(namespace).into_iter().map(str::to_owned).collect();
        Self { own, short: Vec::new(), usage_by_quota: OnceCell::new(), gone: ReclaimedUsage::new() }
    }

    /// These of its quotas guarantee more than is held of them now.
    pub fn set_short(&mut self, short: Vec<String>) {
        self.short = short;
    }

    /// Whether anything may be taken back.
    pub fn is_due(&self) -> bool {
        !self.short.is_empty()
    }

    /// What has been taken back so far.
    pub fn gone(&self) -> ReclaimedUsage {
        self.gone.clone()
    }

    /// Whether an allocation lives on borrowed capacity, once what is in `gone` is gone; then it is added to that.
    pub fn may_take(&self, store: &Store, alloc: &AllocRow, gone: &mut ReclaimedUsage) -> bool {
        let Some(namespace) = store.jobs().row(alloc.job).map(|job| &job.key.namespace) else { return false };
        let theirs = store.namespaces().quotas(namespace);
        if self.short.iter().all(|short| theirs.contains(&**short)) {
            return false;
        }
        let usage = usage(store, alloc);
        let others = || theirs.iter().filter(|quota| !self.own.contains(**quota));
        let is_spared = |quota: &&str| {
            let Some(row) = store.quotas().get(quota).filter(|row| !row.quota.guarantee.is_empty()) else {
                return false;
            };
            let mut left = self.usage_by_quota(store).get(*quota).cloned().unwrap_or_default();
            gone.get(*quota).into_iter().chain([&usage]).for_each(|part| left.remove(part));
            row.quota.guarantee.is_above(&left)
        };
        if others().any(is_spared) {
            return false;
        }
        for quota in others() {
            gone.entry((*quota).to_owned()).or_default().add(&usage);
        }
        true
    }

    /// An allocation is preempted.
    pub fn take(&mut self, store: &Store, alloc: &AllocRow) {
        let Some(job) = store.jobs().row(alloc.job) else { return };
        let usage = usage(store, alloc);
        for quota in store.namespaces().quotas(&job.key.namespace) {
            self.gone.entry(quota.to_owned()).or_default().add(&usage);
        }
    }

    fn usage_by_quota(&self, store: &Store) -> &BTreeMap<String, Usage> {
        self.usage_by_quota.get_or_init(|| {
            let mut by_namespace: BTreeMap<&str, Usage> = BTreeMap::new();
            for (_, alloc) in store.allocs().iter().filter(|(_, alloc)| alloc.is_desired()) {
                let Some(job) = store.jobs().row(alloc.job) else { continue };
                by_namespace.entry(&job.key.namespace).or_default().add(&usage(store, alloc));
            }
            let mut by_quota: BTreeMap<String, Usage> = BTreeMap::new();
            for (namespace, usage) in by_namespace {
                let quotas = store.namespaces().quotas(namespace);
                quotas
                    .into_iter()
                    .for_each(|quota| by_quota.entry(quota.to_owned()).or_default().add(&usage));
            }
            by_quota
        })
    }
}

fn usage(store: &Store, alloc: &AllocRow) -> Usage {
    let group = store.job_of(alloc).map(|(_, group)| group);
    group.map_or_else(|| Usage::from(alloc.held), |group| Usage::of(alloc.held, group))
}
