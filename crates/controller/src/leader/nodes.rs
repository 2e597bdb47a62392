//! The status of nodes.

use berth_model::{NodeId, command::Command, node::NodeStatus, store::Store};

use super::{Leader, Purpose, Replica};

impl Leader {
    /// What runs on a node is known: it takes work, unless it does already.
    pub(super) fn make_ready(&mut self, replica: &Replica, id: NodeId) {
        let ready = replica.store().node(id).is_some_and(|(_, row)| row.status == NodeStatus::Ready);
        if !ready || self.work.changing.contains_key(&id) {
            self.set_node_status(replica.store(), id, NodeStatus::Ready);
        }
    }

    /// A node's new status did not come about: it is decided anew at the next tick.
    pub(super) fn unsettle(&mut self, id: NodeId) {
        self.work.changing.remove(&id);
        self.work.unsettled.insert(id);
    }

    pub(super) fn set_node_status(&mut self, store: &Store, id: NodeId, status: NodeStatus) {
        if self.work.changing.insert(id, status) != Some(status) {
            let command = Command::SetNodeStatus(id, status, Some(store.index()));
            self.outbox.push_for(Purpose::NodeStatus(id), vec![command]).expect("it is a few bytes");
        }
    }
}
