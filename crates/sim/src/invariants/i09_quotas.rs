//! I9: a quota is never exceeded, at any index, by what its namespaces are counted to hold or by what may run.

use std::collections::BTreeSet;

use berth_model::{event::StateChange, quota::Usage, store::Store};

use super::{CheckResult, history::AppliedStep};

const RULE: &str = "I9 quotas are kept";

/// What namespaces hold is within what they may hold. No operator lowers that here.
pub fn check(store: &Store, step: &AppliedStep) -> CheckResult {
    let may_add = |change: &StateChange| {
        matches!(
            change,
            StateChange::AllocPlaced(_)
                | StateChange::AllocEnded(_)
                | StateChange::AllocUpdated(..)
                | StateChange::Restored
        )
    };
    let is_due = step.applied.events.iter().any(may_add);
    for row in store.quotas().iter() {
        let limit = &row.quota.limit;
        let wrong = limit.exceeded_by(&row.used).map(|excess| ("counted to hold", excess));
        let runs = || limit.exceeded_by(&running(store, &row.quota.name)).map(|excess| ("to run", excess));
        if let Some((what, excess)) = wrong.or_else(|| is_due.then(runs).flatten()) {
            let what = format!("of quota {} is {what} at {}: {excess}", row.quota.name, step.entry.index);
            return Err((RULE, what));
        }
    }
    Ok(())
}

/// What of a quota's namespaces may run now, added up anew: what waits for nobody.
fn running(store: &Store, quota: &str) -> Usage {
    let namespaces = store.namespaces();
    let names = namespaces.iter().map(|row| &*row.namespace.name);
    let of_quota: BTreeSet<&str> = names.filter(|name| namespaces.quotas(name).contains(quota)).collect();
    let mut sum = Usage::default();
    for (slot, row) in store.allocs().iter().filter(|(_, row)| !row.is_terminal()) {
        let job = store.jobs().row(row.job).filter(|job| of_quota.contains(&*job.key.namespace));
        if job.is_some() && store.waits_for(slot).is_empty() {
            let group = store.job_of(row).map(|(_, group)| group);
            sum.add(&group.map_or_else(|| Usage::from(row.held), |group| Usage::of(row.held, group)));
        }
    }
    sum
}
