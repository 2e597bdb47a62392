//! What of a plan came too late.

use berth_model::NodeId;

/// Nodes listed of one plan that was refused.
const REFUSED_NODES_MAX: usize = 16;

/// What of a plan was refused, because the state on which it rests had been overtaken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RefusedPlacements {
    /// Number of placements.
    pub count: usize,
    /// Where they were to be, the first few of them; none when the job itself had changed.
    pub nodes: Vec<NodeId>,
}

impl RefusedPlacements {
    /// Another placement, that was to be on this node.
    pub(super) fn add(&mut self, node: NodeId) {
        self.count += 1;
        if self.nodes.len() < REFUSED_NODES_MAX && !self.nodes.contains(&node) {
            self.nodes.push(node);
        }
    }
}
