//! A queue of evaluations by priority, then by their tenants' shares, then by age.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use berth_model::{EvalId, Index, eval::Eval, store::Store};

use crate::tenants::Tenants;

/// One tenant's evaluations of one priority, oldest first, with what is kept of each.
type TenantQueue<T> = BTreeMap<(Index, EvalId), T>;

/// The fair queue: a tenant has one queue, however long it is.
#[derive(Debug)]
pub(crate) struct FairQueue<T>(BTreeMap<Reverse<u8>, BTreeMap<Arc<str>, TenantQueue<T>>>);

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> FairQueue<T> {
    /// Adds an evaluation; one that is here already is not added again.
    pub fn push(&mut self, eval: &Eval, of_it: T) {
        let queues = self.0.entry(Reverse(eval.priority)).or_default();
        let tenant_queue = queues.entry(eval.job.namespace.clone()).or_default();
        tenant_queue.insert((eval.create_index, eval.id), of_it);
    }

    /// Whether an evaluation is here.
    pub fn contains(&self, eval: &Eval) -> bool {
        let queues = self.0.get(&Reverse(eval.priority));
        let tenant_queue = queues.and_then(|queues| queues.get(&eval.job.namespace));
        tenant_queue.is_some_and(|tenant_queue| tenant_queue.contains_key(&(eval.create_index, eval.id)))
    }

    /// Takes the first: of the highest priority there is, the oldest of the tenant that goes first.
    pub fn pop(&mut self, store: &Store, tenants: &Tenants) -> Option<T> {
        let mut queues = self.0.first_entry()?;
        let age = |tenant_queue: &TenantQueue<T>| tenant_queue.first_key_value().map(|(age, _)| *age);
        let order = |(a, of_a): &(&Arc<str>, &TenantQueue<T>), (b, of_b): &(&Arc<str>, &TenantQueue<T>)| {
            tenants.compare(store, a, b).then_with(|| age(of_a).cmp(&age(of_b)))
        };
        let next = queues.get().iter().min_by(order).map(|(namespace, _)| namespace.clone())?;
        let tenant_queue = queues.get_mut().get_mut(&next)?;
        let (_, first) = tenant_queue.pop_first()?;
        if tenant_queue.is_empty() {
            queues.get_mut().remove(&next);
        }
        if queues.get().is_empty() {
            queues.remove();
        }
        Some(first)
    }
}
