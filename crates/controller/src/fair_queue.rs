//! A queue of evaluations by priority, then by their tenants' shares, then by age.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use berth_model::{EvalId, Index, eval::Eval, store::Store};

use crate::tenants::Tenants;

/// One tenant's evaluations of one priority, oldest first.
type Line = BTreeMap<(Index, EvalId), Arc<Eval>>;

/// The queue. However long one tenant's line is, it is one line.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    lines: BTreeMap<Reverse<u8>, BTreeMap<Arc<str>, Line>>,
    len: usize,
}

impl FairQueue {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an evaluation; one that is here already is not added again.
    pub fn push(&mut self, eval: Arc<Eval>) {
        let lines = self.lines.entry(Reverse(eval.priority)).or_default();
        let line = lines.entry(eval.job.namespace.clone()).or_default();
        self.len += usize::from(line.insert((eval.create_index, eval.id), eval).is_none());
    }

    /// Whether an evaluation is here.
    pub fn contains(&self, eval: &Eval) -> bool {
        let lines = self.lines.get(&Reverse(eval.priority));
        let line = lines.and_then(|lines| lines.get(&eval.job.namespace));
        line.is_some_and(|line| line.contains_key(&(eval.create_index, eval.id)))
    }

    /// Takes the first: of the highest priority there is, the oldest of the tenant that goes first.
    pub fn pop(&mut self, store: &Store, tenants: &Tenants) -> Option<Arc<Eval>> {
        let mut lines = self.lines.first_entry()?;
        let age = |line: &Line| line.first_key_value().map(|(age, _)| *age);
        let order = |(a, of_a): &(&Arc<str>, &Line), (b, of_b): &(&Arc<str>, &Line)| {
            tenants.compare(store, a, b).then_with(|| age(of_a).cmp(&age(of_b)))
        };
        let next = lines.get().iter().min_by(order).map(|(namespace, _)| namespace.clone())?;
        let line = lines.get_mut().get_mut(&next)?;
        let (_, eval) = line.pop_first()?;
        if line.is_empty() {
            lines.get_mut().remove(&next);
        }
        if lines.get().is_empty() {
            lines.remove();
        }
        self.len -= 1;
        Some(eval)
    }
}
