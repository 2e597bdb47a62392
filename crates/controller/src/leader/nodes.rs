//! The status of nodes.

use berth_model::{
    JobKey, NodeId, alloc::MigrateAlloc, command::Command, eval::Trigger, node::NodeStatus, store::Store,
};

use super::{Leader, Purpose, Replica};
use crate::liveness::{SilenceVerdict, grace};

impl Leader {
    /// What runs on a node is known: it takes work, unless it does already.
    pub(super) fn make_ready(&mut self, replica: &Replica, id: NodeId) {
        let ready = replica.store().node(id).is_some_and(|(_, row)| row.status == NodeStatus::Ready);
        if !ready || self.work.changing.contains_key(&id) {
            self.set_node_status(replica.store(), id, NodeStatus::Ready);
        }
    }

    /// Declares nodes lost that have been silent for too long. A leader without a majority judges nobody: it sends agents away,
    /// and what it decides would be carried out once it is heard again.
    pub(super) fn judge_silence(&mut self, store: &Store) {
        if self.cut_off_since.is_some() {
            return;
        }
        let SilenceVerdict { lost, held } = self.liveness.judge(store, self.listening, self.time);
        lost.into_iter().for_each(|id| self.declare_silent(store, id));
        self.held = held;
    }

    /// Whether a majority is heard. Once it is again, the nodes that were heard before have the time to come back that they have
    /// after an election.
    pub fn on_majority(&mut self, store: &Store, heard: bool) {
        match (self.cut_off_since, heard) {
            (None, false) => {
                self.cut_off_since = Some(self.listening);
                self.held.clear();
            }
            (Some(since), true) => {
                self.cut_off_since = None;
                self.liveness.resume(self.listening.saturating_sub(since), store, self.listening);
                self.grace_until = self.time.after(grace(store));
                self.awaited_until = self.grace_until;
            }
            (None, true) | (Some(_), false) => {}
        }
    }

    /// A node has been silent for too long: it is disconnected while anything there waits for its return.
    pub(super) fn declare_silent(&mut self, store: &Store, id: NodeId) {
        // Servers that do not know the status would take it for damage.
        let is_known = Command::SetNodeStatus(id, NodeStatus::Disconnected, None).since();
        let is_known = is_known <= self.entry_version(store);
        let is_waited_for = is_known && store.nodes().find(id).is_some_and(|slot| store.is_waited_for(slot));
        let status = if is_waited_for { NodeStatus::Disconnected } else { NodeStatus::Down };
        self.set_node_status(store, id, status);
    }

    /// Something has changed on a node that was disconnected: once nothing waits for its return any more, it is down.
    pub(super) fn give_up(&mut self, store: &Store, id: NodeId) {
        let Some((slot, row)) = store.node(id) else { return };
        if row.status == NodeStatus::Disconnected && !store.is_waited_for(slot) {
            self.set_node_status(store, id, NodeStatus::Down);
        }
    }

    /// Tells what is to leave nodes that are drained, and ends the drains of those on which nothing is left.
    pub(super) fn judge_drains(&mut self, replica: &Replica) {
        let leaving = self.work.drains.judge(replica.store(), replica.observed(), self.time);
        let (allocs, jobs): (Vec<MigrateAlloc>, Vec<JobKey>) = leaving.allocs.into_iter().unzip();
        self.outbox.push_list(&allocs, &Command::MigrateAllocs);
        for job in jobs {
            self.work.wanting.entry(job).or_insert(Trigger::NodeDrain);
        }
        for (node, started_at) in leaving.emptied {
            self.outbox.push(Command::EndDrain(node, started_at));
        }
    }

    /// A node's new status did not come about: it is decided again at the next tick.
    pub(super) fn unsettle(&mut self, id: NodeId) {
        self.work.changing.remove(&id);
        self.work.unsettled.insert(id);
    }

    pub(super) fn set_node_status(&mut self, store: &Store, id: NodeId, status: NodeStatus) {
        if self.work.changing.insert(id, status) != Some(status) {
            let command = Command::SetNodeStatus(id, status, Some(store.index()));
            let as_before = Command::SetNodeStatus(id, status, None);
            let command = if command.since() > self.entry_version(store) { as_before } else { command };
            self.outbox.push_for(Purpose::NodeStatus(id), vec![command]).expect("it is a few bytes");
        }
    }
}
