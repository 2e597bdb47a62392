//! What was asked of one session's agent and is not done yet, and what its tasks ask.

use berth_model::NodeId;

use super::{asks::Asks, execs::Execs, files::FileReads, task_api::TaskApis, watches::Watches};

/// All of it. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Pending {
    pub files: FileReads,
    pub asks: Asks,
    pub execs: Execs,
    pub task_apis: TaskApis,
    pub watches: Watches,
}

impl Pending {
    /// The session of this node is over: whoever waits is informed.
    pub fn end(&self, node: NodeId) {
        self.files.end(node);
        self.asks.end();
        self.execs.end(node);
        self.task_apis.end();
        self.watches.end();
    }
}
