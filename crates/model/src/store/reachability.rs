//! Which allocations are where they were placed, as far as the cluster knows: a node that goes silent takes what it runs
//! out of sight, and what that means is up to each group.

use std::time::Duration;

use super::{AllocRow, NodeSlot, Store};
use crate::{
    job::{Disconnect, Group},
    node::NodeStatus,
    time::Timestamp,
};

/// Where an allocation is that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reachability {
    /// On its node.
    Reachable,
    /// Its node is disconnected. It counts as lost from then on, if ever.
    Disconnected(Option<Timestamp>),
    /// Lost with its node.
    Lost,
}

impl Store {
    /// Where an allocation is that has not ended. Nothing that waits for the return of its node counts as lost before `awaited_until`.
    pub fn reachability(&self, row: &AllocRow, now: Timestamp, awaited_until: Timestamp) -> Reachability {
        let Some(node) = self.nodes.row(row.node) else { return Reachability::Lost };
        if node.status != NodeStatus::Disconnected {
            return if node.status.is_silent() { Reachability::Lost } else { Reachability::Reachable };
        }
        let since = self.nodes.detail(row.node).map_or(now, |detail| detail.status_at);
        match self.unknown_for(row) {
            None => Reachability::Lost,
            Some(None) => Reachability::Disconnected(None),
            Some(Some(span)) => {
                let lost_at = since.after(span).max(awaited_until);
                if lost_at <= now { Reachability::Lost } else { Reachability::Disconnected(Some(lost_at)) }
            }
        }
    }

    /// What happens to an allocation when its node goes silent, as its job says now.
    pub fn on_disconnect(&self, row: &AllocRow) -> Disconnect {
        self.newest_group(row).map_or_else(Disconnect::default, Group::on_disconnect)
    }

    /// Whether anything on a node waits for its return.
    pub fn is_waited_for(&self, slot: NodeSlot) -> bool {
        let Some(node) = self.nodes.row(slot) else { return false };
        let live = self.nodes.live(node).filter_map(|alloc| self.allocs.row(alloc));
        live.filter(|alloc| alloc.is_desired()).any(|alloc| self.unknown_for(alloc).is_some())
    }

    fn unknown_for(&self, row: &AllocRow) -> Option<Option<Duration>> {
        let group = self.newest_group(row)?;
        group.on_disconnect().unknown_for(group.ending_max())
    }

    /// Its group in the newest version of its job; in its own version where that has it no more.
    fn newest_group(&self, row: &AllocRow) -> Option<&Group> {
        let (_, own) = self.job_of(row)?;
        let newest = self.jobs.row(row.job)?.job();
        Some(newest.group(&own.name).map_or(own, |(_, group)| group))
    }
}
