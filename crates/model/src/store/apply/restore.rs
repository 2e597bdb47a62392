//! Putting a snapshot in the place of the state. It comes in many commands, since it is larger than an entry may be.

use std::sync::Arc;

use super::Store;
use crate::{
    command::{Outcome, Refusal, RestorePart},
    event::Event,
};

impl Store {
    /// Takes in a part; the first one begins anew, the last one replaces the state.
    pub(super) fn restore_part(&mut self, part: &RestorePart, events: &mut Vec<Event>) -> Outcome {
        if part.number == 0 {
            self.restoring = Some(Arc::default());
        }
        // Taken out: a part that is refused ends the restore, which would keep snapshots from being written for ever.
        let parts = self.restoring.take().filter(|parts| parts.next() == part.number);
        let out_of_turn = || Refusal::BadRestore(format!("part {} comes out of its turn", part.number));
        let mut parts = parts.ok_or_else(out_of_turn)?;
        let complete = Arc::make_mut(&mut parts).add(&part.bytes);
        match complete.map_err(|error| Refusal::BadRestore(error.to_string()))? {
            None => self.restoring = Some(parts),
            Some(store) => self.replace(store, events),
        }
        Ok(())
    }

    /// Another state takes the place of this one. Indexes go on from here, and whoever reads a table sees it changed.
    fn replace(&mut self, mut store: Store, events: &mut Vec<Event>) {
        store.at = store.at.max(self.at);
        store.granted = store.granted.max(self.granted);
        store.cluster = Arc::new(self.cluster.restoring(&store.cluster));
        (store.index, store.restored_at) = (self.index, self.index);
        store.set_table_indexes([self.index; 6]);
        *self = store;
        events.clear();
        events.push(Event::Restored);
    }
}
