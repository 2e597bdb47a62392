//! What was asked of one session's agent and is not done yet.

use berth_model::NodeId;

use super::{asks::Asks, execs::Execs, files::FileReads};

/// All of it. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Pending {
    pub files: FileReads,
    pub asks: Asks,
    pub execs: Execs,
}

impl Pending {
    /// The session of this node is over: whoever waits is told.
    pub fn end(&self, node: NodeId) {
        self.files.end(node);
        self.asks.end();
        self.execs.end(node);
    }
}
