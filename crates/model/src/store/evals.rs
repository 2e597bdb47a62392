//! The table of evaluations.

use std::{ops::RangeBounds, sync::Arc};

use imbl::{OrdMap, OrdSet};

use super::{
    digest::{TableDigest, hash_encoded},
    slab::{Slab, slot},
};
use crate::{
    eval::{Eval, EvalStatus},
    ids::{EvalId, Index},
};

slot!(
    /// Where an evaluation is in the store.
    EvalSlot
);

/// All evaluations.
#[derive(Debug, Clone, Default)]
pub struct Evals {
    rows: Slab<EvalSlot, Arc<Eval>>,
    by_id: OrdMap<EvalId, EvalSlot>,
    by_age: OrdSet<(Index, EvalId)>,
    /// Those that wait for room, by id.
    blocked: OrdMap<EvalId, EvalSlot>,
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
        self.rows.get(*self.by_id.get(&id)?)
    }

    /// An evaluation by its slot.
    pub fn row(&self, slot: EvalSlot) -> Option<&Arc<Eval>> {
        self.rows.get(slot)
    }

    /// The evaluations whose ids are in a range, by id.
    pub fn range(&self, ids: impl RangeBounds<EvalId>) -> impl DoubleEndedIterator<Item = &Arc<Eval>> {
        self.by_id.range(ids).filter_map(|(_, slot)| self.rows.get(*slot))
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

    /// Those that wait for room, by id.
    pub fn blocked(&self) -> impl Iterator<Item = &Arc<Eval>> {
        self.blocked.values().filter_map(|slot| self.rows.get(*slot))
    }

    pub(super) fn digest(&self) -> u128 {
        self.digest.value()
    }

    pub(super) fn copied_bytes(&self) -> u64 {
        self.rows.copied_bytes()
    }

    pub(super) fn find(&self, id: EvalId) -> Option<EvalSlot> {
        self.by_id.get(&id).copied()
    }

    pub(super) fn insert(&mut self, eval: Arc<Eval>) -> EvalSlot {
        self.digest.add(hash_encoded(b'e', &*eval));
        self.modify_index = self.modify_index.max(eval.modify_index);
        let (id, blocked) = (eval.id, eval.status == EvalStatus::Blocked);
        self.by_age.insert((eval.create_index, id));
        let slot = self.rows.insert(eval);
        self.by_id.insert(id, slot);
        if blocked {
            self.blocked.insert(id, slot);
        }
        slot
    }

    pub(super) fn update(&mut self, slot: EvalSlot, change: impl FnOnce(&mut Eval)) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        self.digest.remove(hash_encoded(b'e', &**row));
        let eval = Arc::make_mut(row);
        change(eval);
        self.modify_index = self.modify_index.max(eval.modify_index);
        if eval.status == EvalStatus::Blocked {
            self.blocked.insert(eval.id, slot);
        } else {
            self.blocked.remove(&eval.id);
        }
        self.digest.add(hash_encoded(b'e', &**row));
    }

    pub(super) fn remove(&mut self, slot: EvalSlot, index: Index) -> Option<Arc<Eval>> {
        let eval = self.rows.remove(slot)?;
        self.digest.remove(hash_encoded(b'e', &*eval));
        self.by_id.remove(&eval.id);
        self.by_age.remove(&(eval.create_index, eval.id));
        self.blocked.remove(&eval.id);
        self.modify_index = index;
        Some(eval)
    }
}
