//! Evaluations.

use std::{ops::RangeBounds, sync::Arc};

use berth_model::{EvalId, Index, eval::Eval, store::EvalSlot};

use super::CallerView;

impl CallerView {
    /// An evaluation.
    pub fn eval(&self, id: EvalId) -> Option<&Arc<Eval>> {
        self.view.store.eval(id).filter(|eval| self.sees_eval(eval))
    }

    /// The evaluation of a slot.
    pub fn eval_in(&self, slot: EvalSlot) -> Option<&Arc<Eval>> {
        self.view.store.evals().row(slot).filter(|eval| self.sees_eval(eval))
    }

    /// The evaluations whose ids are in a range, by id.
    pub fn evals_by_id(&self, ids: impl RangeBounds<EvalId>) -> impl DoubleEndedIterator<Item = &Eval> {
        self.evals_of_ids(ids).filter_map(|(_, eval)| eval)
    }

    /// The evaluations that were made in a range of indexes, oldest first; of one index by id. None for those that the caller may not
    /// see: a list looks at so many rows at a time, whether or not they are in it.
    pub fn evals_by_age(
        &self,
        ages: impl RangeBounds<(Index, EvalId)>,
    ) -> impl DoubleEndedIterator<Item = ((Index, EvalId), Option<&Eval>)> {
        let evals = self.view.store.evals().by_age(ages);
        evals.map(|eval| ((eval.create_index, eval.id), self.visible_eval(eval)))
    }

    /// The same for those whose ids are in a range, by id.
    pub fn evals_of_ids(
        &self,
        ids: impl RangeBounds<EvalId>,
    ) -> impl DoubleEndedIterator<Item = (EvalId, Option<&Eval>)> {
        let evals = self.view.store.evals().range(ids);
        evals.map(|eval| (eval.id, self.visible_eval(eval)))
    }

    /// Where any evaluation last changed.
    pub fn evals_index(&self) -> Index {
        self.view.store.evals().modify_index()
    }

    fn visible_eval<'v>(&self, eval: &'v Arc<Eval>) -> Option<&'v Eval> {
        Some(&**eval).filter(|eval| self.sees_eval(eval))
    }

    fn sees_eval(&self, eval: &Eval) -> bool {
        self.access.reaches(&eval.job.namespace)
    }
}
