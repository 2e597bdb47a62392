//! What a session has yet to say of its node: the latest, and not too often.

use crate::agent::{NODE_CHANGED_EVERY_MS, NodeChanged, NodeSpec};

#[derive(Debug, Default)]
pub(super) struct Change {
    // Boxed: a process may hold thousands of sessions, whose nodes never change.
    unsaid: Option<Box<NodeSpec>>,
    /// Before this nothing more is said, in nanoseconds.
    not_before_ns: u64,
}

impl Change {
    /// The node is this now.
    pub(super) fn set(&mut self, node: NodeSpec) {
        self.unsaid = Some(Box::new(node));
    }

    /// A hello says what the node is.
    pub(super) fn is_said(&mut self) {
        self.unsaid = None;
    }

    /// When there is something to say.
    pub(super) fn due_at(&self) -> Option<u64> {
        self.unsaid.as_ref().map(|_| self.not_before_ns)
    }

    /// What there is to say by now.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<NodeChanged> {
        let node = self.unsaid.take_if(|_| self.not_before_ns <= now_ns)?;
        self.not_before_ns = now_ns.saturating_add(NODE_CHANGED_EVERY_MS * 1_000_000);
        Some(NodeChanged { node: *node })
    }
}
