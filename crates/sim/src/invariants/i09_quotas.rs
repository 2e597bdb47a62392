//! I9: a quota is never exceeded, at any index.

use berth_model::store::Store;

use super::{Check, history::Step};

/// What namespaces hold is within what they may hold, unless an operator has just lowered that.
pub fn check(store: &Store, step: &Step) -> Check {
    for row in store.quotas().iter() {
        let (limit, used) = (&row.quota.limit, &row.used);
        let memory = limit.memory_mb.is_some_and(|max| used.memory_mb > max);
        let cpu = limit.cpu_mhz.is_some_and(|max| used.cpu_mhz > max);
        if memory || cpu {
            let what = format!("quota {} at {}: {used:?} of {limit:?}", row.quota.name, step.entry.index);
            return Err(("I9 quotas are kept", what));
        }
    }
    Ok(())
}
