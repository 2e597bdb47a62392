//! What a server keeps on its disk of what agents reported, as `server::checkpoint` does: written some seconds late and never synced,
//! so that a power cut leaves of each node what is new, what was there before, or nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use berth_controller::NodeCheckpoint;
use berth_model::NodeId;

use super::{Server, View, lock};
use crate::{executor::sleep_ns, random::Random};

/// Between two looks at what has changed, in nanoseconds.
const LOOK_NS: u64 = 2_000_000_000;
/// Nodes of which a power cut brings back what was there before, and those of which it leaves nothing, in percent.
const OLD_PERCENT: u64 = 25;
const GONE_PERCENT: u64 = 25;

/// Reports of nodes.
pub type NodeCheckpoints = BTreeMap<NodeId, NodeCheckpoint>;

/// The part of a server's disk that holds them. A clone is the same part.
#[derive(Clone, Default)]
pub struct CheckpointDisk(Arc<Mutex<CheckpointFiles>>);

/// What is in it.
#[derive(Clone, Default)]
struct CheckpointFiles {
    now: NodeCheckpoints,
    /// What was replaced last.
    before: NodeCheckpoints,
}

impl CheckpointDisk {
    /// All of it.
    pub fn read(&self) -> NodeCheckpoints {
        lock(&self.0).now.clone()
    }

    fn write(&self, reports: NodeCheckpoints) {
        let mut files = lock(&self.0);
        if files.now != reports {
            files.before = std::mem::replace(&mut files.now, reports);
        }
    }

    /// What the end of a server leaves: nobody writes to it any more.
    pub fn after_kill(&self) -> Self {
        Self(Arc::new(Mutex::new(lock(&self.0).clone())))
    }

    /// What a power cut leaves.
    pub fn after_power_cut(&self, random: &mut Random) -> Self {
        let CheckpointFiles { now, before } = lock(&self.0).clone();
        let left = now.into_iter().filter_map(|(node, report)| match random.below(100) {
            0..GONE_PERCENT => None,
            chance if chance < GONE_PERCENT + OLD_PERCENT => Some((node, before.get(&node)?.clone())),
            _ => Some((node, report)),
        });
        Self(Arc::new(Mutex::new(CheckpointFiles { now: left.collect(), before: NodeCheckpoints::new() })))
    }
}

/// Writes what changes, until the server ends.
pub async fn look_after(server: Server) {
    loop {
        sleep_ns(LOOK_NS).await;
        let view = server.view();
        if view.store.cluster().id == 0 {
            continue;
        }
        let mut found = lock(&server.0.found);
        found.retain(|node, report| is_needed(&view, *node, report));
        let mut reports = found.clone();
        drop(found);
        let nodes = view.store.nodes().iter();
        reports.extend(nodes.filter_map(|(slot, row)| {
            Some((row.id, NodeCheckpoint::of(&view.store, &view.observed, slot)?))
        }));
        server.env().checkpoint.write(reports);
    }
}

/// Whether what was found of a node when the server was started is still the best that there is.
fn is_needed(view: &View, node: NodeId, report: &NodeCheckpoint) -> bool {
    let View { store, observed, .. } = view;
    let is_of_this_state = (report.cluster, report.restored_at) == (store.cluster().id, store.restored_at());
    let node = store.node(node).filter(|(_, row)| row.create_index == report.created_at);
    is_of_this_state && node.is_some_and(|(slot, row)| observed.reported(slot, row.id).is_none())
}

impl Server {
    /// What was found of a node when this server was started, and nothing newer is known of since.
    pub fn checkpoint(&self, node: NodeId) -> Option<Box<NodeCheckpoint>> {
        lock(&self.0.found).get(&node).cloned().map(Box::new)
    }
}
