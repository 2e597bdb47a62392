//! Putting a snapshot in place of the state. It comes in many commands, since it is larger than an entry may be.

use std::sync::Arc;

use super::{NodeSlot, Store, rules::Rules};
use crate::{
    command::{Outcome, Refusal, RestorePart},
    event::StateChange,
    ids::Index,
    node::NodeStatus,
};

impl Store {
    /// Takes in a part; the first one begins again, the last one replaces the state.
    pub(super) fn restore_part(
        &mut self,
        part: &RestorePart,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        if part.number == 0 {
            self.restoring = Some(Arc::default());
        }
        // Taken out: a part that is refused ends the restore, which would keep snapshots from being written forever.
        let parts = self.restoring.take().filter(|parts| parts.next() == part.number);
        let mut parts = parts.ok_or_else(|| Refusal::restore_out_of_order(part.number))?;
        let complete = Arc::make_mut(&mut parts).add(&part.bytes);
        match complete.map_err(|error| Refusal::BadRestore(error.to_string()))? {
            None => self.restoring = Some(parts),
            Some(store) => self.replace(store, part.revives_tokens == Some(true), rules, events),
        }
        Ok(())
    }

    /// Another state replaces this one. Indexes go on from here, and whoever reads a table sees it changed.
    fn replace(
        &mut self,
        mut store: Store,
        revives_tokens: bool,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) {
        store.at = store.at.max(self.at);
        store.granted = store.granted.max(self.granted);
        store.cluster = Arc::new(self.cluster.restoring(&store.cluster));
        (store.index, store.restored_at) = (self.index, self.index);
        store.version = self.version;
        if rules.restored_nodes_are_unconfirmed() {
            store.doubt_nodes(self.index);
        }
        store.set_table_indexes([self.index; 6]);
        if rules.revoked_tokens_are_remembered() {
            store.acl.retain_revoked(&self.acl, revives_tokens, self.at);
        }
        store.acl.restored_at(self.index, &self.acl);
        store.keyring.restored_at(self.index, &self.keyring);
        store.variables.restored_at(self.index, &self.variables);
        *self = store;
        events.clear();
        events.push(StateChange::Restored);
    }

    /// What a restored state says of nodes was true once. What runs there now may hold capacity and ports that it takes for
    /// free: no node takes work before its agent has reported again.
    fn doubt_nodes(&mut self, index: Index) {
        let up = self.nodes.iter().filter(|(_, row)| row.status == NodeStatus::Ready);
        let (up, at): (Vec<NodeSlot>, _) = (up.map(|(slot, _)| slot).collect(), self.at);
        for slot in up {
            self.nodes.update(slot, index, |row, detail| {
                row.status = NodeStatus::Initializing;
                detail.status_at = at;
            });
        }
    }
}
