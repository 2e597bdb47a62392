//! The table of allocations: sixty-odd bytes of each that every decision reads, and the rest apart.

mod record;

use std::{ops::RangeBounds, sync::Arc};

use imbl::OrdSet;
use minicbor::{Decode, Encode};

use super::{
    digest::{TableDigest, hash_encoded, hash_parts},
    id_map::IdMap,
    jobs::JobSlot,
    nodes::NodeSlot,
    page_tree::PageTree,
    results::TaskResults,
    slab::{Slab, slot},
    tally::Tally,
};
use crate::{
    alloc::{ClientStatus, Departure, DesiredStatus, Reschedule, StopReason, TaskResult},
    device::DeviceGrant,
    ids::{AllocId, EvalId, Index, NodeId},
    quota::Usage,
    resources::Resources,
    time::Timestamp,
};

pub(super) use record::AllocRecord;

slot!(
    /// Where an allocation is in the store.
    AllocSlot
);

/// What decisions read of an allocation.
#[derive(Debug, Clone, Copy)]
pub struct AllocRow {
    /// Its id.
    pub id: AllocId,
    /// Its job.
    pub job: JobSlot,
    /// Its node.
    pub node: NodeSlot,
    /// Position of its group in its version of the job.
    pub group: u16,
    /// What is desired of it.
    pub desired: DesiredStatus,
    /// A terminal status once it has ended; pending until then.
    pub client: ClientStatus,
    /// Which of the group's allocations it is, from 0.
    pub name_index: u32,
    /// The version of the job that it runs.
    pub job_version: u64,
    /// It was placed under an older version, and sent what is new while it ran.
    pub updated: bool,
    /// What it holds.
    pub held: Resources,
    /// Its placement.
    pub create_index: Index,
    /// Its last change that is in the log.
    pub modify_index: Index,
}

impl AllocRow {
    /// Whether it has ended.
    pub fn is_terminal(&self) -> bool {
        self.client.is_terminal()
    }

    /// Whether it has ended although it was desired to run, on a node that was not lost.
    pub fn ended_by_itself(&self) -> bool {
        self.is_terminal() && self.client != ClientStatus::Lost && self.desired == DesiredStatus::Run
    }

    /// What its agent was last informed of: the version of the job that it was updated to while it ran, 0 for as it was placed.
    #[inline]
    pub fn revision(&self) -> u64 {
        if self.updated { self.job_version } else { 0 }
    }

    /// Whether it is meant to go on: not ended and not desired to end.
    pub fn is_desired(&self) -> bool {
        !self.is_terminal() && self.desired == DesiredStatus::Run
    }
}

/// The rest of an allocation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AllocDetail {
    /// The evaluation that placed it.
    #[n(0)]
    pub eval: EvalId,
    /// When it was placed.
    #[n(1)]
    pub created_at: Timestamp,
    /// When it last changed in the log.
    #[n(2)]
    pub modified_at: Timestamp,
    /// What not every allocation has, and how its tasks ended.
    #[n(3)]
    rest: OptionalFields,
    /// What its agent found, as evidence of an active deployment; none as long as it has shown nothing. Not in snapshots
    /// before format 3.
    #[n(4)]
    #[cbor(default)]
    pub healthy: Option<bool>,
}

/// What follows the fields that every allocation has. Written as one record: an [`AllocExtra`] with the results in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct OptionalFields {
    extra: Option<Arc<AllocExtra>>,
    /// Apart from the extra, which is large: most ended allocations have results and nothing else.
    results: TaskResults,
}

/// What not every allocation has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Decode)]
pub struct AllocExtra {
    /// Host ports, in the order in which its group declares them.
    #[n(0)]
    pub ports: Vec<u16>,
    /// Whom it waits for on its node, and how much of what they hold is promised to it.
    #[n(1)]
    pub after: Vec<(AllocId, Usage)>,
    /// How much of what it holds in its own right is promised to successors.
    #[n(2)]
    pub promised: Usage,
    /// The allocation that it replaces, if any.
    #[n(3)]
    pub previous: Option<AllocId>,
    /// The allocation that replaces it, if any.
    #[n(4)]
    pub next: Option<AllocId>,
    /// The replacements of failed predecessors that still count, oldest first.
    #[n(5)]
    pub reschedules: Vec<Reschedule>,
    /// Why it is desired to end.
    #[n(6)]
    pub stop_reason: Option<StopReason>,
    // 7 is how its tasks ended, kept beside it.
    /// Devices, in the order in which its group's tasks ask for them.
    #[n(8)]
    pub devices: Vec<DeviceGrant>,
    /// Ids of its processor cores, in the order in which its group's tasks ask for them.
    #[n(9)]
    pub cores: Vec<u16>,
    /// Who pushed it out; the first of them, when its capacity is enough for several.
    #[n(10)]
    pub preempted_by: Option<AllocId>,
    /// Whom it preempted. Not in the first snapshots of format 1.
    #[n(11)]
    #[cbor(default)]
    pub preempted: Vec<AllocId>,
    /// It was placed as a canary. Not in snapshots before format 3.
    #[n(12)]
    #[cbor(default)]
    pub canary: bool,
    /// It is to leave its node. Not in snapshots before format 4.
    #[n(13)]
    #[cbor(default)]
    pub migrate: Option<Departure>,
    /// It stands in for one that left its node, and shows that it is well before the next one leaves. Not in snapshots
    /// before format 4.
    #[n(14)]
    #[cbor(default)]
    pub watched: bool,
    // 15 is when its agent saw its end, kept with the results.
}

/// Values of [`ClientStatus`].
const CLIENT_STATUSES: usize = ClientStatus::Lost as usize + 1;

/// All allocations.
#[derive(Debug, Clone, Default)]
pub struct Allocs {
    rows: Slab<AllocSlot, AllocRow>,
    details: PageTree<Option<AllocDetail>>,
    by_id: IdMap<AllocId, AllocSlot>,
    by_age: OrdSet<(Index, AllocId)>,
    /// By what the log says of them.
    by_status: Tally<CLIENT_STATUSES>,
    digest: TableDigest,
    pub(super) modify_index: Index,
}

impl Allocs {
    /// How many allocations there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many have a status in the log: all that have not ended are pending there.
    pub fn with_status(&self, status: ClientStatus) -> usize {
        self.by_status.of(status as usize)
    }

    /// Where the last logged change of any allocation is.
    pub fn modify_index(&self) -> Index {
        self.modify_index
    }

    /// Where an allocation is.
    #[inline]
    pub fn find(&self, id: AllocId) -> Option<AllocSlot> {
        self.by_id.get(id)
    }

    /// The allocations whose ids are in a range, by id.
    pub fn range(
        &self,
        ids: impl RangeBounds<AllocId>,
    ) -> impl DoubleEndedIterator<Item = (AllocId, AllocSlot)> {
        self.by_id.range(ids)
    }

    /// The allocations that were placed in a range of indexes, oldest first; of one index by id.
    pub fn by_age(
        &self,
        ages: impl RangeBounds<(Index, AllocId)>,
    ) -> impl DoubleEndedIterator<Item = (Index, AllocId)> {
        self.by_age.range(ages).copied()
    }

    /// The row: the fields that placement decisions read.
    #[inline]
    pub fn row(&self, slot: AllocSlot) -> Option<&AllocRow> {
        self.rows.get(slot)
    }

    /// The fields that are not in the row.
    #[inline]
    pub fn detail(&self, slot: AllocSlot) -> Option<&AllocDetail> {
        self.details.get(slot.0 as usize)?.as_ref()
    }

    /// What not every allocation has.
    #[inline]
    pub fn extra(&self, slot: AllocSlot) -> Option<&AllocExtra> {
        self.detail(slot)?.extra()
    }

    /// All allocations, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (AllocSlot, &AllocRow)> {
        self.rows.iter()
    }

    /// The slot above all that there are, or have been.
    pub fn end(&self) -> AllocSlot {
        AllocSlot(u32::try_from(self.rows.slots()).unwrap_or(u32::MAX))
    }

    pub(super) fn digest(&self) -> u128 {
        self.digest.value()
    }

    pub(super) fn copied_bytes(&self) -> u64 {
        self.rows.copied_bytes() + self.details.copied_bytes()
    }

    /// `owners` is the hash of its job and node, which the row knows by their slots alone.
    pub(super) fn insert(&mut self, row: AllocRow, detail: AllocDetail, owners: u128) -> AllocSlot {
        let slot = self.restore(row, detail, owners);
        self.by_id.insert(row.id, slot);
        self.by_age.insert((row.create_index, row.id));
        slot
    }

    /// The same for an allocation of a snapshot. It is found once all of them are in, and [`Self::index`] has been called.
    pub(super) fn restore(&mut self, row: AllocRow, detail: AllocDetail, owners: u128) -> AllocSlot {
        self.add_hash(&row, &detail, owners);
        self.by_status.add(row.client as usize);
        let slot = self.rows.insert(row);
        match self.details.get_mut(slot.0 as usize) {
            Some(freed) => *freed = Some(detail),
            None => drop(self.details.push(Some(detail))),
        }
        slot
    }

    /// Takes the hash of an allocation of a snapshot in, and nothing else of it.
    pub(super) fn add_hash(&mut self, row: &AllocRow, detail: &AllocDetail, owners: u128) {
        self.digest.add(owners);
        self.digest.add(alloc_hash(row, detail));
        self.modify_index = self.modify_index.max(row.modify_index);
    }

    /// Makes what was restored be found, by id and by age, from a slot on. All of it is indexed at once, since one by one takes
    /// most of a start with millions.
    ///
    /// # Errors
    /// An id that is there twice.
    pub(super) fn index(&mut self, from: AllocSlot) -> Result<(), AllocId> {
        if from > AllocSlot(0) {
            return self.index_rest(from);
        }
        self.by_id = IdMap::of(self.rows.iter().map(|(slot, row)| (row.id, slot)))?;
        let mut ages: Vec<(Index, AllocId)> =
            self.rows.iter().map(|(_, row)| (row.create_index, row.id)).collect();
        // Slots are in the order of placements, but for those that were used again, and the ids of a plan in none.
        ages.sort_by_key(|(index, _)| *index);
        ages.chunk_by_mut(|(a, _), (b, _)| a == b).for_each(<[_]>::sort_unstable);
        self.by_age = ages.into_iter().collect();
        Ok(())
    }

    fn index_rest(&mut self, from: AllocSlot) -> Result<(), AllocId> {
        for slot in (from.0..self.end().0).map(AllocSlot) {
            let Some(row) = self.rows.get(slot) else { continue };
            if self.by_id.insert(row.id, slot).is_some() {
                return Err(row.id);
            }
            self.by_age.insert((row.create_index, row.id));
        }
        Ok(())
    }

    /// Changes an allocation; `index` and `at` become its last change.
    pub(super) fn update(
        &mut self,
        slot: AllocSlot,
        index: Index,
        at: Timestamp,
        change: impl FnOnce(&mut AllocRow, &mut AllocDetail),
    ) -> Option<()> {
        let row = self.rows.get_mut(slot)?;
        let detail = self.details.get_mut(slot.0 as usize)?.as_mut()?;
        self.digest.remove(alloc_hash(row, detail));
        self.by_status.remove(row.client as usize);
        change(row, detail);
        self.by_status.add(row.client as usize);
        row.modify_index = index;
        detail.modified_at = at;
        self.digest.add(alloc_hash(row, detail));
        self.modify_index = index;
        Some(())
    }

    /// The owners of allocations have changed, from these hashes to those.
    pub(super) fn change_owners(&mut self, before: &[u128], after: &[u128]) {
        before.iter().for_each(|owners| self.digest.remove(*owners));
        after.iter().for_each(|owners| self.digest.add(*owners));
    }

    pub(super) fn remove(&mut self, slot: AllocSlot, index: Index, owners: u128) -> Option<AllocRow> {
        let row = self.rows.remove(slot)?;
        let detail = self.details.get_mut(slot.0 as usize)?.take()?;
        if self.rows.is_empty() {
            self.details.clear();
        }
        self.by_status.remove(row.client as usize);
        self.digest.remove(owners);
        self.digest.remove(alloc_hash(&row, &detail));
        self.by_id.remove(row.id);
        self.by_age.remove(&(row.create_index, row.id));
        self.modify_index = index;
        Some(row)
    }
}

impl AllocExtra {
    /// Whether there is nothing in it. By hand, since it is asked of every placement.
    fn is_nothing(&self) -> bool {
        let Self {
            ports,
            after,
            promised,
            previous,
            next,
            reschedules,
            stop_reason,
            devices,
            cores,
            preempted_by,
            preempted,
            canary,
            migrate,
            watched,
        } = self;
        let lists = ports.is_empty() && after.is_empty() && reschedules.is_empty() && devices.is_empty();
        let others =
            previous.or(*next).or(*preempted_by).is_none() && stop_reason.is_none() && migrate.is_none();
        lists
            && others
            && cores.is_empty()
            && preempted.is_empty()
            && !canary
            && !watched
            && *promised == Usage::default()
    }

    /// Whether it holds devices or cores.
    pub fn has_devices(&self) -> bool {
        !self.devices.is_empty() || !self.cores.is_empty()
    }
}

impl AllocDetail {
    /// Of an allocation that is placed now.
    pub(super) fn placed(eval: EvalId, at: Timestamp, extra: AllocExtra) -> Self {
        let extra = (!extra.is_nothing()).then(|| Arc::new(extra));
        let rest = OptionalFields { extra, results: TaskResults::default() };
        Self { eval, created_at: at, modified_at: at, rest, healthy: None }
    }

    /// What not every allocation has.
    #[inline]
    pub fn extra(&self) -> Option<&AllocExtra> {
        self.rest.extra.as_deref()
    }

    /// How its tasks ended; empty as long as that is not known.
    pub fn results(&self) -> &TaskResults {
        &self.rest.results
    }

    /// What not every allocation has, to change; made when it is not there.
    pub(super) fn extra_mut(&mut self) -> &mut AllocExtra {
        Arc::make_mut(self.rest.extra.get_or_insert_default())
    }

    /// When it last changed for readers: in the log, or as its agent saw its end, by a clock that is ahead. What is decided from
    /// that time is decided from [`Self::modified_at`], which no agent can set.
    pub fn changed_at(&self) -> Timestamp {
        self.modified_at.max(self.rest.results.observed_at().unwrap_or_default())
    }

    /// Keeps how its tasks ended, and when its agent saw that, where that is later than the log says.
    pub(super) fn set_results(&mut self, results: &[TaskResult], observed_at: Option<Timestamp>) {
        self.rest.results = TaskResults::new(results, observed_at);
    }
}

/// The hash of what never changes of an allocation: where it belongs.
pub(super) fn owners_hash(id: AllocId, job: u128, node: NodeId) -> u128 {
    let mut bytes = [0; 48];
    bytes[..16].copy_from_slice(&id.to_bytes());
    bytes[16..32].copy_from_slice(&job.to_be_bytes());
    bytes[32..].copy_from_slice(&node.to_bytes());
    xxhash_rust::xxh3::xxh3_128(&bytes)
}

/// The hash of an allocation. The hot part is hashed from plain bytes: it changes on every placement and end.
fn alloc_hash(row: &AllocRow, detail: &AllocDetail) -> u128 {
    let mut bytes = [0; 96];
    bytes[..16].copy_from_slice(&row.id.to_bytes());
    bytes[16] = row.desired as u8;
    bytes[17] = row.client as u8;
    bytes[18..20].copy_from_slice(&row.group.to_le_bytes());
    bytes[20..24].copy_from_slice(&row.name_index.to_le_bytes());
    bytes[24..32].copy_from_slice(&row.job_version.to_le_bytes());
    bytes[32..40].copy_from_slice(&row.create_index.0.to_le_bytes());
    bytes[40..48].copy_from_slice(&row.modify_index.0.to_le_bytes());
    bytes[48..52].copy_from_slice(&row.held.cpu_mhz.to_le_bytes());
    bytes[52..56].copy_from_slice(&row.held.memory_mb.to_le_bytes());
    bytes[56..60].copy_from_slice(&row.held.disk_mb.to_le_bytes());
    bytes[60] = detail.healthy.map_or(0, |healthy| 1 + u8::from(healthy));
    bytes[61] = u8::from(row.updated);
    bytes[64..80].copy_from_slice(&detail.eval.to_bytes());
    bytes[80..88].copy_from_slice(&detail.created_at.0.to_le_bytes());
    bytes[88..].copy_from_slice(&detail.modified_at.0.to_le_bytes());
    let hot = xxhash_rust::xxh3::xxh3_128(&bytes);
    match detail.rest.results_alone() {
        Some(parts) => hot ^ hash_parts(b'a', parts),
        None => detail.rest.written().map_or(hot, |rest| hot ^ hash_encoded(b'a', &rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_allocation_takes_few_bytes_in_the_tables() {
        let bytes = size_of::<Option<AllocRow>>() + size_of::<Option<AllocDetail>>();
        assert!(bytes <= 144, "{bytes}");
    }
}
