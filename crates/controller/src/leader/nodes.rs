//! What reports of agents lead to.

use berth_model::{NodeId, command::Command, node::NodeStatus, store::Store};

use super::{Leader, Purpose, Replica, Report};

impl Leader {
    /// Takes in what a replica reports.
    pub fn on_report(&mut self, replica: &mut Replica, report: Report) {
        match report {
            Report::Heard(node) => self.liveness.heard(node, self.listening),
            Report::Introduced(node) => {
                let purpose = Purpose::Introduction(node.id);
                let id = node.id;
                if self.outbox.push_for(purpose, vec![Command::RegisterNode(node)]).is_err() {
                    // The border lets no such node in.
                    replica.close_session_of(id);
                }
            }
            Report::Confirmed(node) => self.make_ready(replica, node),
            Report::Observed(allocs) => {
                let store = replica.store();
                allocs.into_iter().for_each(|(slot, row, alloc)| self.on_observed(store, slot, &row, alloc));
            }
        }
    }

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
