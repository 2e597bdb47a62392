//! The table of evaluations.

use std::{ops::RangeBounds, sync::Arc};

use imbl::{OrdMap, OrdSet};

use super::{
    digest::{TableDigest, hash_encoded},
    id_map::IdMap,
    slab::{Slab, slot},
    tally::Tally,
};
use crate::{
    eval::{Eval, EvalStatus},
    ids::{EvalId, Index},
    time::Timestamp,
};

slot!(
    /// Where an evaluation is in the store.
    EvalSlot
);

/// What is counted of an evaluation.
#[derive(Clone, Copy)]
struct CountedEval {
    id: EvalId,
    status: EvalStatus,
    created_at: Timestamp,
    /// When it was or will be due: at once, unless it waits for a time.
    due: Timestamp,
}

impl CountedEval {
    fn of(eval: &Eval) -> Self {
        let due = eval.created_at.max(eval.wait_until);
        Self { id: eval.id, status: eval.status, created_at: eval.created_at, due }
    }
}

/// All evaluations.
#[derive(Debug, Clone, Default)]
pub struct Evals {
    rows: Slab<EvalSlot, Arc<Eval>>,
    by_id: IdMap<EvalId, EvalSlot>,
    by_age: OrdSet<(Index, EvalId)>,
    /// Those that wait for capacity, by id.
    blocked: OrdMap<EvalId, EvalSlot>,
    /// The same ones by when they were made.
    blocked_by_time: OrdSet<(Timestamp, EvalId)>,
    /// Those to be planned, by when they were or will be due.
    pending: OrdSet<(Timestamp, EvalId)>,
    by_status: Tally<{ EvalStatus::ALL.len() }>,
    digest: TableDigest,
    pub(super) modify_index: Index,
}

impl Evals {
    /// How many evaluations there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Where the last change of any evaluation is.
    pub fn modify_index(&self) -> Index {
        self.modify_index
    }

    /// An evaluation by its id.
    pub fn get(&self, id: EvalId) -> Option<&Arc<Eval>> {
        self.rows.get(self.by_id.get(id)?)
    }

    /// An evaluation by its slot.
    pub fn row(&self, slot: EvalSlot) -> Option<&Arc<Eval>> {
        self.rows.get(slot)
    }

    /// The evaluations whose ids are in a range, by id.
    pub fn range(&self, ids: impl RangeBounds<EvalId>) -> impl DoubleEndedIterator<Item = &Arc<Eval>> {
        self.by_id.range(ids).filter_map(|(_, slot)| self.rows.get(slot))
    }

    /// The evaluations that were made in a range of indexes, oldest first; of one index by id.
    pub fn by_age(
        &self,
        ages: impl RangeBounds<(Index, EvalId)>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Eval>> {
        self.by_age.range(ages).filter_map(|(_, id)| self.get(*id))
    }

    /// All evaluations, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (EvalSlot, &Arc<Eval>)> {
        self.rows.iter()
    }

    /// Those that wait for capacity, by id.
    pub fn blocked(&self) -> impl Iterator<Item = &Arc<Eval>> {
        self.blocked.values().filter_map(|slot| self.rows.get(*slot))
    }

    /// How many have a status.
    pub fn with_status(&self, status: EvalStatus) -> usize {
        self.by_status.of(status as usize)
    }

    /// How many of those that are to be planned wait for a time after this. Walks these.
    pub fn delayed(&self, now: Timestamp) -> usize {
        let after_now = (Timestamp(now.0.saturating_add(1)), EvalId(0));
        self.pending.range(after_now..).count()
    }

    /// Since when the first of those that are to be planned is due, or will be; none when there are none.
    pub fn pending_since(&self) -> Option<Timestamp> {
        self.pending.get_min().map(|(since, _)| *since)
    }

    /// Since when the first of those waits that wait for capacity; none when there are none.
    pub fn blocked_since(&self) -> Option<Timestamp> {
        self.blocked_by_time.get_min().map(|(since, _)| *since)
    }

    /// An evaluation is in the table, as it is now.
    fn count(&mut self, eval: CountedEval, slot: EvalSlot) {
        self.by_status.add(eval.status as usize);
        match eval.status {
            EvalStatus::Blocked => {
                self.blocked.insert(eval.id, slot);
                self.blocked_by_time.insert((eval.created_at, eval.id));
            }
            EvalStatus::Pending => {
                self.pending.insert((eval.due, eval.id));
            }
            _ => {}
        }
    }

    /// An evaluation is gone from the table, or not as it was.
    fn discount(&mut self, eval: CountedEval) {
        self.by_status.remove(eval.status as usize);
        match eval.status {
            EvalStatus::Blocked => {
                self.blocked.remove(&eval.id);
                self.blocked_by_time.remove(&(eval.created_at, eval.id));
            }
            EvalStatus::Pending => {
                self.pending.remove(&(eval.due, eval.id));
            }
            _ => {}
        }
    }

    pub(super) fn digest(&self) -> u128 {
        self.digest.value()
    }

    pub(super) fn copied_bytes(&self) -> u64 {
        self.rows.copied_bytes()
    }

    pub(super) fn find(&self, id: EvalId) -> Option<EvalSlot> {
        self.by_id.get(id)
    }

    pub(super) fn insert(&mut self, eval: Arc<Eval>) -> EvalSlot {
        self.digest.add(hash_encoded(b'e', &*eval));
        self.modify_index = self.modify_index.max(eval.modify_index);
        self.by_age.insert((eval.create_index, eval.id));
        let counted = CountedEval::of(&eval);
        let slot = self.rows.insert(eval);
        self.by_id.insert(counted.id, slot);
        self.count(counted, slot);
        slot
    }

    pub(super) fn update(&mut self, slot: EvalSlot, change: impl FnOnce(&mut Eval)) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        self.digest.remove(hash_encoded(b'e', &**row));
        let before = CountedEval::of(row);
        let eval = Arc::make_mut(row);
        change(eval);
        self.modify_index = self.modify_index.max(eval.modify_index);
        let after = CountedEval::of(eval);
        self.digest.add(hash_encoded(b'e', &**row));
        self.discount(before);
        self.count(after, slot);
    }

    pub(super) fn remove(&mut self, slot: EvalSlot, index: Index) -> Option<Arc<Eval>> {
        let eval = self.rows.remove(slot)?;
        self.digest.remove(hash_encoded(b'e', &*eval));
        self.by_id.remove(eval.id);
        self.by_age.remove(&(eval.create_index, eval.id));
        self.discount(CountedEval::of(&eval));
        self.modify_index = index;
        Some(eval)
    }
}
