//! The table of nodes: what is asked on every placement apart from what is asked by users.

mod row;

use std::{ops::RangeBounds, sync::Arc};

use imbl::OrdSet;

use super::{
    digest::{TableDigest, hash_encoded},
    id_map::IdMap,
    page_tree::PageTree,
    postings::{PostingList, Postings},
    slab::{Slab, slot},
    tally::{NamedTally, Tally},
};
use crate::{
    device::DevicesHeld,
    ids::{Index, NodeId},
    node::{Node, NodeEvent, NodeStatus},
    resources::Resources,
    time::Timestamp,
};

pub(super) use row::NodeRecord;
pub use row::{LiveTotals, NodeDetail, NodeRow, SchedulingEligibility};

slot!(
    /// Where a node is in the store.
    NodeSlot
);

/// Changes of nodes that a follower of the table can be behind before it must read the table whole.
const CHANGES_MAX: u64 = 1 << 16;

/// All nodes.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    rows: Slab<NodeSlot, NodeRow>,
    details: PageTree<Option<NodeDetail>>,
    /// Those that can be seen.
    by_id: IdMap<NodeId, NodeSlot>,
    /// Those that are disconnected.
    disconnected: OrdSet<NodeSlot>,
    /// Those that were purged, and on which something ended that is still kept.
    purged: IdMap<NodeId, NodeSlot>,
    lists: Postings,
    /// A ring of the slots that changed, in order; `changes_end` counts all changes ever.
    changes: PageTree<u32>,
    changes_end: u64,
    /// By status and [`SchedulingEligibility`], of those that can be seen.
    by_state: Tally<{ NodeStatus::ALL.len() * SchedulingEligibility::ALL.len() }>,
    live_totals: LiveTotals,
    by_pool: NamedTally,
    digest: TableDigest,
    pub(super) modify_index: Index,
}

/// The pool in which a node is counted; none for one that was purged.
fn pool<'d>(row: &NodeRow, detail: &'d NodeDetail) -> Option<&'d str> {
    (!row.purged).then_some(&*detail.node.pool)
}

/// Where a node is counted; none for one that was purged.
fn counted(row: &NodeRow, detail: &NodeDetail) -> Option<usize> {
    let scheduling = match (detail.draining(), row.eligible) {
        (Some(_), _) => SchedulingEligibility::Draining,
        (None, true) => SchedulingEligibility::Eligible,
        (None, false) => SchedulingEligibility::Ineligible,
    };
    (!row.purged).then(|| place_of(row.status, scheduling))
}

fn place_of(status: NodeStatus, scheduling: SchedulingEligibility) -> usize {
    status as usize * SchedulingEligibility::ALL.len() + scheduling as usize
}

impl Nodes {
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// How many are in a state.
    pub fn with_state(&self, status: NodeStatus, scheduling: SchedulingEligibility) -> usize {
        self.by_state.of(place_of(status, scheduling))
    }

    /// What the nodes that are not silent have together, and what allocations hold there.
    pub fn live_totals(&self) -> LiveTotals {
        self.live_totals
    }

    /// The pools that any node is in, by name.
    pub fn pools(&self) -> impl Iterator<Item = &str> {
        self.by_pool.names()
    }

    /// Whether any node is in a pool.
    pub fn has_pool(&self, name: &str) -> bool {
        self.by_pool.has(name)
    }

    /// One more than the highest slot ever used.
    pub fn slots(&self) -> usize {
        self.rows.slots()
    }

    /// Where the last change of any node is.
    pub fn modify_index(&self) -> Index {
        self.modify_index
    }

    /// Where a node is.
    #[inline]
    pub fn find(&self, id: NodeId) -> Option<NodeSlot> {
        self.by_id.get(id)
    }

    /// The nodes whose ids are in a range, by id.
    pub fn range(
        &self,
        ids: impl RangeBounds<NodeId>,
    ) -> impl DoubleEndedIterator<Item = (NodeId, NodeSlot)> {
        self.by_id.range(ids)
    }

    /// What is asked on every placement. Nodes that were purged can be read here as long as an allocation that ended on
    /// them is kept; nothing else finds them.
    #[inline]
    pub fn row(&self, slot: NodeSlot) -> Option<&NodeRow> {
        self.rows.get(slot)
    }

    /// What is rarely asked.
    #[inline]
    pub fn detail(&self, slot: NodeSlot) -> Option<&NodeDetail> {
        self.details.get(slot.0 as usize)?.as_ref()
    }

    /// All nodes, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (NodeSlot, &NodeRow)> {
        self.rows.iter().filter(|(_, row)| !row.purged)
    }

    /// Whether any node is disconnected.
    pub fn any_disconnected(&self) -> bool {
        !self.disconnected.is_empty()
    }

    /// The nodes that are disconnected.
    pub fn disconnected(&self) -> impl Iterator<Item = &NodeRow> {
        self.disconnected.iter().filter_map(|slot| self.row(*slot))
    }

    /// Allocations on the node that have not ended.
    pub fn live(&self, row: &NodeRow) -> impl Iterator<Item = super::AllocSlot> {
        self.lists.iter(&row.live).map(super::AllocSlot)
    }

    /// Allocations on the node that have ended.
    pub fn ended(&self, row: &NodeRow) -> impl Iterator<Item = super::AllocSlot> {
        self.lists.iter(&row.ended).map(super::AllocSlot)
    }

    /// The position after the last change; pass it to [`Self::changes_since`] later.
    pub fn changes_end(&self) -> u64 {
        self.changes_end
    }

    /// The nodes that changed since a position, some perhaps more than once; none when that is too long ago, and the
    /// whole table must be read.
    pub fn changes_since(&self, position: u64) -> Option<impl Iterator<Item = NodeSlot>> {
        let behind = self.changes_end.checked_sub(position)?;
        (behind <= CHANGES_MAX).then(|| {
            (position..self.changes_end)
                .filter_map(|at| self.changes.get(usize::try_from(at % CHANGES_MAX).ok()?))
                .map(|slot| NodeSlot(*slot))
        })
    }

    pub(super) fn digest(&self) -> u128 {
        self.digest.value()
    }

    pub(super) fn copied_bytes(&self) -> u64 {
        self.rows.copied_bytes()
            + self.details.copied_bytes()
            + self.lists.copied_bytes()
            + self.changes.copied_bytes()
    }

    pub(super) fn record(&self, slot: NodeSlot) -> Option<NodeRecord> {
        let (row, detail) = (self.row(slot)?, self.detail(slot)?);
        Some(NodeRecord {
            node: detail.node.clone(),
            status: row.status,
            eligible: row.eligible,
            create_index: row.create_index,
            modify_index: row.modify_index,
            status_at: detail.status_at,
            purged: row.purged,
            drain: detail.drain.clone(),
            events: detail.events.clone(),
        })
    }

    /// As in a snapshot, purged ones too.
    pub(super) fn records(&self) -> impl Iterator<Item = NodeRecord> {
        self.rows.iter().filter_map(|(slot, _)| self.record(slot))
    }

    /// Where a node is that may have been purged.
    pub(super) fn find_purged(&self, id: NodeId) -> Option<NodeSlot> {
        self.find(id).or_else(|| self.purged.get(id))
    }

    pub(super) fn insert(&mut self, record: NodeRecord) -> NodeSlot {
        self.digest.add(hash_encoded(b'n', &record));
        let NodeRecord {
            node,
            status,
            eligible,
            create_index,
            modify_index,
            status_at,
            purged,
            drain,
            events,
        } = record;
        let slot = self.rows.insert(NodeRow {
            id: node.id,
            status,
            eligible,
            capacity: if purged { Resources::ZERO } else { node.capacity() },
            used: Resources::ZERO,
            live: PostingList::default(),
            ended: PostingList::default(),
            modify_index,
            create_index,
            purged,
        });
        if purged { &mut self.purged } else { &mut self.by_id }.insert(node.id, slot);
        while self.details.len() <= slot.0 as usize {
            self.details.push(None);
        }
        let (ports, devices) = (Arc::default(), Arc::default());
        let detail = NodeDetail { node, ports, devices, status_at, drain, events };
        let row = self.rows.get(slot).expect("just made");
        self.by_state.add(counted(row, &detail));
        self.live_totals.add(row);
        self.by_pool.add(pool(row, &detail));
        *self.details.get_mut(slot.0 as usize).expect("just made") = Some(detail);
        self.modify_index = self.modify_index.max(modify_index);
        self.note_status(slot);
        self.note_change(slot);
        slot
    }

    fn note_status(&mut self, slot: NodeSlot) {
        if self.row(slot).is_some_and(|row| row.status == NodeStatus::Disconnected) {
            self.disconnected.insert(slot);
        } else {
            self.disconnected.remove(&slot);
        }
    }

    /// Changes what the node itself is; not what its allocations hold.
    pub(super) fn update(
        &mut self,
        slot: NodeSlot,
        index: Index,
        change: impl FnOnce(&mut NodeRow, &mut NodeDetail),
    ) -> Option<()> {
        self.digest.remove(hash_encoded(b'n', &self.record(slot)?));
        let row = self.rows.get_mut(slot)?;
        let detail = self.details.get_mut(slot.0 as usize)?.as_mut()?;
        self.by_state.remove(counted(row, detail));
        self.live_totals.remove(row);
        self.by_pool.remove(pool(row, detail));
        change(row, detail);
        self.by_state.add(counted(row, detail));
        self.live_totals.add(row);
        self.by_pool.add(pool(row, detail));
        row.modify_index = index;
        self.modify_index = index;
        self.digest.add(hash_encoded(b'n', &self.record(slot)?));
        self.note_status(slot);
        self.note_change(slot);
        Some(())
    }

    /// Takes a node away on which nothing lives. It stays for those who ask where an allocation ended that is still kept.
    pub(super) fn purge(&mut self, slot: NodeSlot, index: Index) {
        let Some((id, in_use)) = self.rows.get(slot).map(|row| (row.id, !row.ended.is_empty())) else {
            return;
        };
        self.by_id.remove(id);
        if !in_use {
            return self.remove(slot, index);
        }
        self.purged.insert(id, slot);
        self.update(slot, index, |row, _| {
            row.purged = true;
            row.eligible = false;
            row.capacity = Resources::ZERO;
        });
    }

    /// A node that was purged is there again, since an index and a time.
    pub(super) fn revive(
        &mut self,
        slot: NodeSlot,
        node: Arc<Node>,
        (index, at): (Index, Timestamp),
        registered: Option<NodeEvent>,
    ) {
        self.purged.remove(node.id);
        self.by_id.insert(node.id, slot);
        self.update(slot, index, |row, detail| {
            row.purged = false;
            row.status = NodeStatus::Initializing;
            row.eligible = true;
            row.capacity = node.capacity();
            row.create_index = index;
            detail.status_at = at;
            detail.node = node;
            detail.drain = None;
            detail.events = None;
            detail.note(registered);
        });
    }

    fn remove(&mut self, slot: NodeSlot, index: Index) {
        let Some(record) = self.record(slot) else { return };
        self.digest.remove(hash_encoded(b'n', &record));
        if let (Some(row), Some(detail)) = (self.rows.get(slot), self.details.get(slot.0 as usize)) {
            let detail = detail.as_ref().expect("it has a record");
            self.by_state.remove(counted(row, detail));
            self.by_pool.remove(pool(row, detail));
        }
        let mut row = self.rows.remove(slot).expect("it has a record");
        self.live_totals.remove(&row);
        self.lists.clear(&mut row.live);
        self.lists.clear(&mut row.ended);
        *self.details.get_mut(slot.0 as usize).expect("it has a record") = None;
        self.modify_index = index;
        self.note_status(slot);
        self.note_change(slot);
    }

    /// A new allocation holds `charged` and `ports`.
    pub(super) fn hold(
        &mut self,
        slot: NodeSlot,
        alloc: super::AllocSlot,
        charged: Resources,
        ports: &[u16],
    ) {
        let row = self.rows.get_mut(slot).expect("a placement names a node that is there");
        self.live_totals.remove(row);
        row.used = row.used.plus(charged);
        self.live_totals.add(row);
        self.lists.push(&mut row.live, alloc.0);
        if !ports.is_empty() {
            self.change_ports(slot, |held| held.extend_from_slice(ports));
        }
        self.note_change(slot);
    }

    /// An allocation that had ended before it was restored is listed without holding anything.
    pub(super) fn list_ended(&mut self, slot: NodeSlot, alloc: super::AllocSlot) {
        let row = self.rows.get_mut(slot).expect("an allocation's node is there");
        self.lists.push(&mut row.ended, alloc.0);
    }

    /// An allocation has ended: `freed` and `ports` are free.
    pub(super) fn release(
        &mut self,
        slot: NodeSlot,
        alloc: super::AllocSlot,
        freed: Resources,
        ports: &[u16],
    ) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        self.live_totals.remove(row);
        row.used = row.used.minus(freed);
        self.live_totals.add(row);
        self.lists.remove(&mut row.live, alloc.0);
        self.lists.push(&mut row.ended, alloc.0);
        if !ports.is_empty() {
            self.change_ports(slot, |held| remove_each(held, ports));
        }
        self.note_change(slot);
    }

    /// What two allocations hold in turn was counted for both: counts it once.
    pub(super) fn share(&mut self, slot: NodeSlot, part: Resources, ports: &[u16]) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        self.live_totals.remove(row);
        row.used = row.used.minus(part);
        self.live_totals.add(row);
        if !ports.is_empty() {
            self.change_ports(slot, |held| remove_each(held, ports));
        }
    }

    /// An ended allocation is garbage-collected, and with the last one a node that was purged.
    pub(super) fn drop_ended(&mut self, slot: NodeSlot, alloc: super::AllocSlot, index: Index) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        self.lists.remove(&mut row.ended, alloc.0);
        if row.purged && row.ended.is_empty() {
            let id = row.id;
            self.purged.remove(id);
            self.remove(slot, index);
        }
    }

    /// What its allocations hold of its devices and cores has changed.
    pub(super) fn set_devices(&mut self, slot: NodeSlot, held: DevicesHeld) {
        if let Some(detail) = self.details.get_mut(slot.0 as usize).and_then(Option::as_mut) {
            detail.devices = Arc::new(held);
            self.note_change(slot);
        }
    }

    fn change_ports(&mut self, slot: NodeSlot, change: impl FnOnce(&mut Vec<u16>)) {
        let detail =
            self.details.get_mut(slot.0 as usize).and_then(Option::as_mut).expect("the node is there");
        let ports = Arc::make_mut(&mut detail.ports);
        change(ports);
        ports.sort_unstable();
    }

    fn note_change(&mut self, slot: NodeSlot) {
        let at = usize::try_from(self.changes_end % CHANGES_MAX).expect("a ring is smaller than memory");
        match self.changes.get_mut(at) {
            Some(changed) => *changed = slot.0,
            None => drop(self.changes.push(slot.0)),
        }
        self.changes_end += 1;
    }
}

fn remove_each(held: &mut Vec<u16>, ports: &[u16]) {
    for port in ports {
        if let Some(at) = held.iter().position(|p| p == port) {
            held.remove(at);
        }
    }
}
