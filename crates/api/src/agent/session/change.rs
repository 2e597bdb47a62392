//! A changed node description that is not sent yet: only the latest one, rate-limited.

use crate::agent::{NODE_CHANGED_BY_OPERATOR_EVERY_MS, NODE_CHANGED_EVERY_MS, NodeChanged, NodeSpec};

#[derive(Debug, Default)]
pub(super) struct NodeChange {
    // Boxed: a process may hold thousands of sessions, whose nodes never change.
    unsaid: Option<Box<NodeSpec>>,
    /// An operator waits for it.
    is_urgent: bool,
    /// When the last one was sent, in nanoseconds; none before the first.
    said_at_ns: Option<u64>,
}

impl NodeChange {
    /// The node is this now. An urgent change stays urgent until it is sent.
    pub(super) fn set(&mut self, node: NodeSpec, is_urgent: bool) {
        self.is_urgent = is_urgent || (self.is_urgent && self.unsaid.is_some());
        self.unsaid = Some(Box::new(node));
    }

    /// A hello says what the node is.
    pub(super) fn is_said(&mut self) {
        self.unsaid = None;
    }

    /// When there is something to say.
    pub(super) fn due_at(&self) -> Option<u64> {
        let every_ms = if self.is_urgent { NODE_CHANGED_BY_OPERATOR_EVERY_MS } else { NODE_CHANGED_EVERY_MS };
        let next_ns = self.said_at_ns.map_or(0, |said_at_ns| said_at_ns.saturating_add(every_ms * 1_000_000));
        self.unsaid.as_ref().map(|_| next_ns)
    }

    /// What there is to say by now.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<NodeChanged> {
        self.due_at().filter(|due_at| *due_at <= now_ns)?;
        let node = self.unsaid.take()?;
        self.said_at_ns = Some(now_ns);
        Some(NodeChanged { node: *node })
    }
}
