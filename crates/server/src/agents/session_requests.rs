//! The open requests of one session, in both directions.

use berth_model::NodeId;

use super::{execs::Execs, files::FileReads, requests::Asks, task_api::TaskApis, watches::Watches};

/// Requests of each kind. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub(crate) struct SessionRequests {
    pub files: FileReads,
    pub asks: Asks,
    pub execs: Execs,
    pub task_apis: TaskApis,
    pub watches: Watches,
}

impl SessionRequests {
    /// The session of this node is over: whoever waits is informed.
    pub fn end(&self, node: NodeId) {
        self.files.end(node);
        self.asks.end();
        self.execs.end(node);
        self.task_apis.end();
        self.watches.end();
    }
}
