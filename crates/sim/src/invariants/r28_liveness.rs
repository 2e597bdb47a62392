//! R28: no node is declared down whose agent works and reaches the servers that do: whatever happens to servers costs no node.

use std::collections::BTreeMap;

use berth_model::{
    NodeId,
    event::{NodeChange, StateChange},
    node::NodeStatus,
    store::Store,
};

use super::{CheckResult, history::AppliedStep};
use crate::{
    executor::now_ns,
    node::{node_id, number_of},
};

const RULE: &str = "R28 no node that works is declared down";
/// After what kept an agent from its servers has ended, it may need so long to be heard of again, in nanoseconds: a pause
/// between two tries, the dial of a server that hangs, and the servers' own time until they look.
const BACK_NS: u64 = 40_000_000_000;

/// Until when each node, counted from 0, had troubles of its own, in nanoseconds.
#[derive(Default)]
pub struct Liveness {
    hindered_until_ns: BTreeMap<usize, u64>,
}

impl Liveness {
    pub fn on_hindered(&mut self, node: usize, until_ns: u64) {
        let known = self.hindered_until_ns.entry(node).or_default();
        *known = until_ns.max(*known);
    }

    pub fn on_entry(&self, store: &Store, step: &AppliedStep) -> CheckResult {
        for change in &step.applied.events {
            let StateChange::NodeChanged(slot, NodeChange::Status) = change else { continue };
            let Some(row) = store.nodes().row(*slot) else { continue };
            let is_lost = matches!(row.status, NodeStatus::Down | NodeStatus::Disconnected);
            let Some((node, until_ns)) = self.last_trouble(row.id).filter(|_| is_lost) else { continue };
            if until_ns + BACK_NS < now_ns() {
                let ago = (now_ns() - until_ns) / 1_000_000_000;
                let what =
                    format!("node {} is {:?}, its last trouble ended {ago} s ago", node + 1, row.status);
                return Err((RULE, what));
            }
        }
        Ok(())
    }

    /// Which node that is, and until when something was wrong with it.
    fn last_trouble(&self, id: NodeId) -> Option<(usize, u64)> {
        let node = number_of(id);
        (NodeId(u128::from_be_bytes(node_id(node))) == id)
            .then(|| (node, self.hindered_until_ns.get(&node).copied().unwrap_or_default()))
    }
}
