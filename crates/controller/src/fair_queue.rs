//! A queue of evaluations by priority, then by their tenants' shares, then by age.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use berth_model::{EvalId, Index, eval::Eval, store::Store};

use crate::tenants::Tenants;

/// One tenant's evaluations of one priority, oldest first, with what is kept of each.
type Line<T> = BTreeMap<(Index, EvalId), T>;

/// The queue. However long one tenant's line is, it is one line.
#[derive(Debug)]
pub(crate) struct FairQueue<T>(BTreeMap<Reverse<u8>, BTreeMap<Arc<str>, Line<T>>>);

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> FairQueue<T> {
    /// Adds an evaluation; one that is here already is not added again.
    pub fn push(&mut self, eval: &Eval, of_it: T) {
        let lines = self.0.entry(Reverse(eval.priority)).or_default();
        let line = lines.entry(eval.job.namespace.clone()).or_default();
        line.insert((eval.create_index, eval.id), of_it);
    }

    /// Whether an evaluation is here.
    pub fn contains(&self, eval: &Eval) -> bool {
        let lines = self.0.get(&Reverse(eval.priority));
        let line = lines.and_then(|lines| lines.get(&eval.job.namespace));
        line.is_some_and(|line| line.contains_key(&(eval.create_index, eval.id)))
    }

    /// Takes the first: of the highest priority there is, the oldest of the tenant that goes first.
    pub fn pop(&mut self, store: &Store, tenants: &Tenants) -> Option<T> {
        let mut lines = self.0.first_entry()?;
        let age = |line: &Line<T>| line.first_key_value().map(|(age, _)| *age);
        let order = |(a, of_a): &(&Arc<str>, &Line<T>), (b, of_b): &(&Arc<str>, &Line<T>)| {
            tenants.compare(store, a, b).then_with(|| age(of_a).cmp(&age(of_b)))
        };
        let next = lines.get().iter().min_by(order).map(|(namespace, _)| namespace.clone())?;
        let line = lines.get_mut().get_mut(&next)?;
        let (_, first) = line.pop_first()?;
        if line.is_empty() {
            lines.get_mut().remove(&next);
        }
        if lines.get().is_empty() {
            lines.remove();
        }
        Some(first)
    }
}
