//! What is kept of a node: what each placement asks, what users ask, and what a snapshot has of it.

use std::sync::Arc;

use minicbor::{Decode, Encode};

use crate::{
    device::DevicesHeld,
    ids::{Index, NodeId},
    node::{Drain, LastDrain, NODE_EVENTS_KEPT, Node, NodeEvent, NodeStatus},
    resources::{ResourceSums, Resources},
    store::postings::PostingList,
    time::Timestamp,
};

/// What is asked of a node on every placement.
#[derive(Debug, Clone)]
pub struct NodeRow {
    /// Its id.
    pub id: NodeId,
    /// Whether its agent is there.
    pub status: NodeStatus,
    /// Whether an operator lets new work in.
    pub eligible: bool,
    /// What allocations may have.
    pub capacity: Resources,
    /// What allocations hold that have not ended, promised capacity counted once.
    pub used: Resources,
    /// Allocations that have not ended.
    pub live: PostingList,
    /// Allocations that have ended and are not yet forgotten.
    pub ended: PostingList,
    /// The last change of the node itself.
    pub modify_index: Index,
    /// Its registration.
    pub create_index: Index,
    /// Nobody sees it any more but those who ask where an ended allocation ran: work that is done stays done. It has no
    /// capacity, and goes with the last of them.
    pub purged: bool,
}

impl NodeRow {
    /// Whether new allocations may be placed here.
    pub fn is_ready(&self) -> bool {
        self.status == NodeStatus::Ready && self.eligible
    }

    /// What is left for new allocations.
    pub fn free(&self) -> Resources {
        self.capacity.minus(self.used)
    }
}

/// Whether new work may be placed on a node, as operators have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulingEligibility {
    /// New work may be placed.
    Eligible,
    /// No new work; what runs stays.
    Ineligible,
    /// It may not, and what runs there is to leave.
    Draining,
}

impl SchedulingEligibility {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Eligible, Self::Ineligible, Self::Draining];

    /// As Nomad's metrics and commands have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Eligible => "eligible",
            Self::Ineligible => "ineligible",
            Self::Draining => "draining",
        }
    }
}

/// What all nodes that are there and not silent have together, counted as they change: nobody has to walk the table to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LiveTotals {
    /// Capacity available to allocations.
    pub capacity: ResourceSums,
    /// Held by allocations that have not ended.
    pub used: ResourceSums,
}

impl LiveTotals {
    fn counts(row: &NodeRow) -> bool {
        !row.purged && !row.status.is_silent()
    }

    pub(super) fn add(&mut self, row: &NodeRow) {
        if Self::counts(row) {
            self.capacity.add(row.capacity);
            self.used.add(row.used);
        }
    }

    pub(super) fn remove(&mut self, row: &NodeRow) {
        if Self::counts(row) {
            self.capacity.remove(row.capacity);
            self.used.remove(row.used);
        }
    }
}

/// What is rarely asked of a node.
#[derive(Debug, Clone)]
pub struct NodeDetail {
    /// As its agent described it.
    pub node: Arc<Node>,
    /// Ports held by allocations that have not ended, ascending.
    pub ports: Arc<Vec<u16>>,
    /// Devices and cores held by allocations that have not ended, promised ones counted once.
    pub devices: Arc<DevicesHeld>,
    /// When its status last changed.
    pub status_at: Timestamp,
    /// Its last drain.
    pub drain: Option<Arc<LastDrain>>,
    /// Its newest events, oldest first; none before the first.
    pub events: Option<Arc<Vec<NodeEvent>>>,
}

impl NodeDetail {
    /// Adds an event, if there is one, and forgets the oldest of those that it keeps for that.
    pub(in crate::store) fn note(&mut self, event: Option<NodeEvent>) {
        let Some(event) = event else { return };
        let events = Arc::make_mut(self.events.get_or_insert_default());
        let excess = (events.len() + 1).saturating_sub(NODE_EVENTS_KEPT);
        events.drain(..excess);
        events.push(event);
    }

    /// Its newest events, oldest first.
    pub fn events(&self) -> &[NodeEvent] {
        self.events.as_deref().map_or(&[], Vec::as_slice)
    }

    /// The drain that goes on.
    pub fn draining(&self) -> Option<&Drain> {
        self.drain.as_deref()?.drain.as_ref()
    }
}

/// A node as written to a snapshot; what its allocations hold is computed again from them.
#[derive(Debug, Clone, Encode, Decode)]
pub(in crate::store) struct NodeRecord {
    #[n(0)]
    #[cbor(with = "crate::codec::shared")]
    pub node: Arc<Node>,
    #[n(1)]
    pub status: NodeStatus,
    #[n(2)]
    pub eligible: bool,
    #[n(3)]
    pub create_index: Index,
    #[n(4)]
    pub modify_index: Index,
    #[n(5)]
    pub status_at: Timestamp,
    /// Since format 2.
    #[n(6)]
    #[cbor(default)]
    pub purged: bool,
    /// Since format 4.
    #[n(7)]
    #[cbor(default, with = "crate::codec::shared_option")]
    pub drain: Option<Arc<LastDrain>>,
    /// Since format 7.
    #[n(8)]
    #[cbor(with = "crate::codec::shared_option", has_nil)]
    pub events: Option<Arc<Vec<NodeEvent>>>,
}
