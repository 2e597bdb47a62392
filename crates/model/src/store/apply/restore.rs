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
        let refused = |what: String| Refusal::BadRestore(what);
        let parts = self.restoring.as_mut().filter(|parts| parts.next() == part.number);
        let parts = parts.ok_or_else(|| refused(format!("part {} comes out of its turn", part.number)))?;
        match Arc::make_mut(parts).add(&part.bytes) {
            Ok(None) => {}
            Ok(Some(store)) => self.replace(store, events),
            Err(error) => {
                self.restoring = None;
                return Err(refused(error.to_string()));
            }
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
