//! Whether the quotas that a job's namespace keeps to are kept: counted again from every allocation, in own code.

use std::collections::{BTreeMap, HashMap};

use berth_model::{
    AllocId,
    job::Group,
    quota::{Bounds, Usage},
    resources::Resources,
    store::{AllocRow, Store},
};

use super::{CheckedPlan, PlanFaults};

/// Amounts by what they are of: `cpu`, `memory`, `disk`, `device NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct QuotaAmounts(BTreeMap<String, u64>);

pub(super) fn check(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    let (store, namespace) = (checked.store, &*checked.plan.job.namespace);
    let quotas = store.namespaces().quotas(namespace);
    if checked.plan.placements.is_empty() || quotas.is_empty() {
        return;
    }
    let added = added(checked);
    if added != QuotaAmounts::from(&checked.plan.pledge) {
        faults.add(format!("it pledges another amount than {added:?}"));
    }
    for name in quotas {
        let Some(quota) = store.quotas().get(name).map(|row| &row.quota) else { continue };
        let mut held = QuotaAmounts::held(store, name, |_| true);
        held.add(&added);
        for (what, amount, limit) in held.against(&quota.limit).filter(|(_, amount, limit)| amount > limit) {
            faults.add(format!("quota {name} is exceeded: {amount} of {what}, at most {limit}"));
        }
    }
}

/// What the plan adds to what its namespace holds: what a predecessor of the namespace leaves was counted for that one.
fn added(checked: &CheckedPlan<'_>) -> QuotaAmounts {
    let (mut sum, mut left) = (QuotaAmounts::default(), HashMap::<AllocId, QuotaAmounts>::new());
    for placement in &checked.plan.placements {
        let node = checked.node(placement.node).and_then(|slot| checked.store.nodes().detail(slot));
        let Some((node, (_, group))) = node.zip(checked.spec(placement)) else { continue };
        let mut missing = QuotaAmounts::of(group.resources_on(&node.node), group);
        let mut own = missing.clone();
        for before in &placement.after {
            let Some(slot) = checked.store.allocs().find(*before) else { continue };
            let leaves = || QuotaAmounts::from(&checked.store.usage_to_promise(slot));
            let part = left.entry(*before).or_insert_with(leaves).hand_over(&mut missing);
            if is_living_of(checked.store, *before, &checked.plan.job.namespace) {
                own.remove(&part);
            }
        }
        sum.add(&own);
    }
    sum
}

fn namespace<'a>(store: &'a Store, row: &AllocRow) -> Option<&'a str> {
    store.jobs().row(row.job).map(|job| &*job.key.namespace)
}

fn is_living_of(store: &Store, id: AllocId, of: &str) -> bool {
    let row = store.alloc(id).map(|(_, row)| row).filter(|row| !row.is_terminal());
    row.and_then(|row| namespace(store, row)) == Some(of)
}

impl QuotaAmounts {
    /// What those of the living allocations hold that count, and whose namespaces keep to a quota.
    pub(super) fn held(store: &Store, quota: &str, counts: impl Fn(&AllocRow) -> bool) -> Self {
        let mut sum = Self::default();
        for (slot, row) in store.allocs().iter().filter(|(_, row)| !row.is_terminal() && counts(row)) {
            let Some(namespace) = namespace(store, row) else { continue };
            let mut above = store.namespaces().path(namespace).map(|row| &row.namespace.quota);
            if !above.any(|of| of.as_deref() == Some(quota)) {
                continue;
            }
            let mut own =
                store.job_of(row).map_or_else(Self::default, |(_, group)| Self::of(row.held, group));
            for (before, part) in store.allocs().extra(slot).into_iter().flat_map(|extra| &extra.after) {
                if is_living_of(store, *before, namespace) {
                    own.remove(&part.into());
                }
            }
            sum.add(&own);
        }
        sum
    }

    fn of(held: Resources, group: &Group) -> Self {
        let devices = group.devices().map(|ask| {
            let each = if ask.share_milli == 0 { 1000 } else { ask.share_milli };
            (format!("device {}", ask.name), u64::from(ask.count) * u64::from(each))
        });
        let mut amounts = Self::default();
        plain(held.cpu_mhz.into(), held.memory_mb.into(), held.disk_mb.into())
            .chain(devices)
            .for_each(|(what, amount)| amounts.add_one(what, amount));
        amounts
    }

    fn add_one(&mut self, what: String, amount: u64) {
        if amount > 0 {
            *self.0.entry(what).or_default() += amount;
        }
    }

    fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, amount)| self.add_one(what.clone(), *amount));
    }

    fn remove(&mut self, other: &Self) {
        for (what, amount) in &other.0 {
            self.0.entry(what.clone()).and_modify(|left| *left = left.saturating_sub(*amount));
        }
        self.0.retain(|_, left| *left > 0);
    }

    /// Takes out of both what both have.
    fn hand_over(&mut self, missing: &mut Self) -> Self {
        let both =
            self.0.iter().filter_map(|(what, left)| Some((what.clone(), *left.min(missing.0.get(what)?))));
        let part = Self(both.collect());
        self.remove(&part);
        missing.remove(&part);
        part
    }

    /// Each bound by what it is of, with what is held of that.
    pub(super) fn against<'a>(&'a self, limit: &'a Bounds) -> impl Iterator<Item = (String, u64, u64)> + 'a {
        let plain = [("cpu", limit.cpu_mhz), ("memory", limit.memory_mb), ("disk", limit.disk_mb)];
        let plain = plain.into_iter().filter_map(|(what, limit)| {
            Some((what.to_owned(), self.0.get(what).copied().unwrap_or(0), limit?))
        });
        let devices = limit.devices_milli.iter().map(|(name, limit)| {
            let counts = |(what, _): &(&String, &u64)| {
                what.strip_prefix("device ").is_some_and(|asked| may_be_one(asked, name))
            };
            let held = self.0.iter().filter(counts).map(|(_, amount)| amount).sum();
            (format!("device {name}"), held, *limit)
        });
        plain.chain(devices)
    }
}

impl From<&Usage> for QuotaAmounts {
    fn from(usage: &Usage) -> Self {
        let devices = usage.devices_milli.iter().map(|(name, milli)| (format!("device {name}"), *milli));
        let mut amounts = Self::default();
        plain(usage.cpu_mhz, usage.memory_mb, usage.disk_mb)
            .chain(devices)
            .for_each(|(what, amount)| amounts.add_one(what, amount));
        amounts
    }
}

fn plain(cpu: u64, memory: u64, disk: u64) -> impl Iterator<Item = (String, u64)> {
    [("cpu", cpu), ("memory", memory), ("disk", disk)]
        .map(|(what, amount)| (what.to_owned(), amount))
        .into_iter()
}

/// Whether one device can be called both: `type`, `vendor/type` or `vendor/type/model`, where each says no more than it
/// says.
fn may_be_one(a: &str, b: &str) -> bool {
    let full = |name: &str| match name.splitn(3, '/').map(str::to_owned).collect::<Vec<_>>().as_slice() {
        [kind] => (None, Some(kind.clone()), None),
        [vendor, kind] => (Some(vendor.clone()), Some(kind.clone()), None),
        [vendor, kind, model] => (Some(vendor.clone()), Some(kind.clone()), Some(model.clone())),
        _ => (None, None, None),
    };
    let agree = |a: Option<String>, b: Option<String>| a.is_none() || b.is_none() || a == b;
    let ((vendor_a, kind_a, model_a), (vendor_b, kind_b, model_b)) = (full(a), full(b));
    agree(vendor_a, vendor_b) && agree(kind_a, kind_b) && agree(model_a, model_b)
}
