//! The table of allocations: sixty-odd bytes of each that every decision reads, and the rest apart.

use std::{collections::BTreeMap, ops::RangeBounds, sync::Arc};

use imbl::{OrdMap, OrdSet};
use minicbor::{Decode, Decoder, Encode, Encoder, decode as de, encode as en};

use super::{
    digest::{TableDigest, hash_encoded},
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
    pub fn is_wanted(&self) -> bool {
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
    rest: Rest,
    /// What its agent found, as evidence of an active deployment; none as long as it has shown nothing. Not in snapshots
    /// before format 3.
    #[n(4)]
    #[cbor(default)]
    pub healthy: Option<bool>,
}

/// What follows the fields that every allocation has. Written as one record: an [`AllocExtra`] with the results in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Rest {
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
    /// Whom it replaces.
    #[n(3)]
    pub previous: Option<AllocId>,
    /// Who replaces it.
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
    /// Who pushed it out; the first of them, when its room is enough for several.
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

/// An allocation as written to a snapshot: slots are identified by what they point to.
#[derive(Debug, Clone, Encode, Decode)]
pub(super) struct AllocRecord {
    #[n(0)]
    pub id: AllocId,
    #[n(1)]
    pub node: NodeId,
    #[n(2)]
    pub group: u16,
    #[n(3)]
    pub desired: DesiredStatus,
    #[n(4)]
    pub client: ClientStatus,
    #[n(5)]
    pub name_index: u32,
    #[n(6)]
    pub job_version: u64,
    #[n(7)]
    pub held: Resources,
    #[n(8)]
    pub create_index: Index,
    #[n(9)]
    pub modify_index: Index,
    #[n(10)]
    pub detail: AllocDetail,
    /// Not in snapshots before format 4.
    #[n(11)]
    #[cbor(default)]
    pub updated: bool,
}

/// Values of [`ClientStatus`].
const CLIENT_STATUSES: usize = ClientStatus::Lost as usize + 1;

/// All allocations.
#[derive(Debug, Clone, Default)]
pub struct Allocs {
    rows: Slab<AllocSlot, AllocRow>,
    details: PageTree<Option<AllocDetail>>,
    by_id: OrdMap<AllocId, AllocSlot>,
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
        self.by_id.get(&id).copied()
    }

    /// The allocations whose ids are in a range, by id.
    pub fn range(
        &self,
        ids: impl RangeBounds<AllocId>,
    ) -> impl DoubleEndedIterator<Item = (AllocId, AllocSlot)> {
        self.by_id.range(ids).map(|(id, slot)| (*id, *slot))
    }

    /// The allocations that were placed in a range of indexes, oldest first; of one index by id.
    pub fn by_age(
        &self,
        ages: impl RangeBounds<(Index, AllocId)>,
    ) -> impl DoubleEndedIterator<Item = (Index, AllocId)> {
        self.by_age.range(ages).copied()
    }

    /// What decisions read.
    #[inline]
    pub fn row(&self, slot: AllocSlot) -> Option<&AllocRow> {
        self.rows.get(slot)
    }

    /// The rest.
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
        self.digest.add(owners);
        self.digest.add(alloc_hash(&row, &detail));
        self.modify_index = self.modify_index.max(row.modify_index);
        self.by_status.add(row.client as usize);
        let slot = self.rows.insert(row);
        self.by_id.insert(row.id, slot);
        self.by_age.insert((row.create_index, row.id));
        while self.details.len() <= slot.0 as usize {
            self.details.push(None);
        }
        *self.details.get_mut(slot.0 as usize).expect("just made") = Some(detail);
        slot
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
        self.by_status.remove(row.client as usize);
        self.digest.remove(owners);
        self.digest.remove(alloc_hash(&row, &detail));
        self.by_id.remove(&row.id);
        self.by_age.remove(&(row.create_index, row.id));
        self.modify_index = index;
        Some(row)
    }
}

impl AllocExtra {
    /// Whether it holds devices or cores.
    pub fn has_devices(&self) -> bool {
        !self.devices.is_empty() || !self.cores.is_empty()
    }
}

impl AllocDetail {
    /// Of an allocation that is placed now.
    pub(super) fn placed(eval: EvalId, at: Timestamp, extra: AllocExtra) -> Self {
        let extra = (extra != AllocExtra::default()).then(|| Arc::new(extra));
        let rest = Rest { extra, results: TaskResults::default() };
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
        self.modified_at.max(self.rest.results.seen_at().unwrap_or_default())
    }

    /// Keeps how its tasks ended, and when its agent saw that, where that is later than the log says.
    pub(super) fn set_results(&mut self, results: &[TaskResult], seen_at: Option<Timestamp>) {
        self.rest.results = TaskResults::new(results, seen_at);
    }
}

impl Rest {
    /// What is written of it; none when there is nothing.
    fn written(&self) -> Option<WrittenExtra<'_>> {
        match (&self.extra, self.results.is_nothing()) {
            (Some(extra), _) => Some(WrittenExtra::new(extra, &self.results)),
            (None, true) => None,
            (None, false) => Some(WrittenExtra::new(NO_EXTRA, &self.results)),
        }
    }
}

impl<C> Encode<C> for Rest {
    fn encode<W: en::Write>(&self, e: &mut Encoder<W>, context: &mut C) -> Result<(), en::Error<W::Error>> {
        self.written().encode(e, context)
    }

    /// Left out where nothing follows.
    fn is_nil(&self) -> bool {
        self.written().is_none()
    }
}

impl<'b, C> Decode<'b, C> for Rest {
    fn decode(d: &mut Decoder<'b>, context: &mut C) -> Result<Self, de::Error> {
        /// Passes over all but the results.
        #[derive(Decode)]
        struct Results {
            #[n(7)]
            results: Vec<TaskResult>,
            #[n(15)]
            seen_at: Option<Timestamp>,
        }

        let from = d.position();
        let Some(extra) = Option::<AllocExtra>::decode(d, context)? else { return Ok(Self::default()) };
        let Results { results, seen_at } = minicbor::decode(&d.input()[from..d.position()])?;
        // Encoded again, so that equal results are equal bytes whoever wrote them.
        let results = TaskResults::new(&results, seen_at);
        // Whatever there was besides its results is written the same.
        let is_none = !results.is_nothing() && extra == *NO_EXTRA;
        Ok(Self { extra: (!is_none).then(|| Arc::new(extra)), results })
    }

    fn nil() -> Option<Self> {
        Some(Self::default())
    }
}

impl<C> Encode<C> for AllocExtra {
    fn encode<W: en::Write>(&self, e: &mut Encoder<W>, context: &mut C) -> Result<(), en::Error<W::Error>> {
        WrittenExtra::new(self, &TaskResults::default()).encode(e, context)
    }
}

/// An [`AllocExtra`] as it is written, field by field.
#[derive(Encode)]
struct WrittenExtra<'a> {
    #[n(0)]
    ports: &'a [u16],
    #[n(1)]
    after: &'a [(AllocId, Usage)],
    #[n(2)]
    promised: &'a Usage,
    #[n(3)]
    previous: Option<AllocId>,
    #[n(4)]
    next: Option<AllocId>,
    #[n(5)]
    reschedules: &'a [Reschedule],
    #[n(6)]
    stop_reason: Option<StopReason>,
    #[n(7)]
    results: &'a TaskResults,
    #[n(8)]
    devices: &'a [DeviceGrant],
    #[n(9)]
    cores: &'a [u16],
    #[n(10)]
    preempted_by: Option<AllocId>,
    #[n(11)]
    preempted: &'a [AllocId],
    #[n(12)]
    canary: bool,
    #[n(13)]
    migrate: Option<Departure>,
    #[n(14)]
    watched: bool,
    #[n(15)]
    seen_at: Option<Timestamp>,
}

impl<'a> WrittenExtra<'a> {
    fn new(extra: &'a AllocExtra, results: &'a TaskResults) -> Self {
        // Whoever adds a field has to say here how it is written.
        let AllocExtra {
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
        } = extra;
        Self {
            ports,
            after,
            promised,
            previous: *previous,
            next: *next,
            reschedules,
            stop_reason: *stop_reason,
            results,
            devices,
            cores,
            preempted_by: *preempted_by,
            preempted,
            canary: *canary,
            migrate: *migrate,
            watched: *watched,
            seen_at: results.seen_at(),
        }
    }
}

/// An extra with nothing in it.
static NO_EXTRA: &AllocExtra = &AllocExtra {
    ports: Vec::new(),
    after: Vec::new(),
    promised: Usage { cpu_mhz: 0, memory_mb: 0, disk_mb: 0, devices_milli: BTreeMap::new() },
    previous: None,
    next: None,
    reschedules: Vec::new(),
    stop_reason: None,
    devices: Vec::new(),
    cores: Vec::new(),
    preempted_by: None,
    preempted: Vec::new(),
    canary: false,
    migrate: None,
    watched: false,
};

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
    match detail.rest.written() {
        None => hot,
        Some(rest) => hot ^ hash_encoded(b'a', &rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as it was written when the results stood in the extra.
    #[derive(Encode)]
    struct Before {
        #[n(0)]
        eval: EvalId,
        #[n(1)]
        created_at: Timestamp,
        #[n(2)]
        modified_at: Timestamp,
        #[n(3)]
        #[cbor(encode_with = "crate::codec::shared_option::encode")]
        extra: Option<Arc<BeforeExtra>>,
        #[n(4)]
        healthy: Option<bool>,
    }

    #[derive(Encode)]
    struct BeforeExtra {
        #[n(0)]
        ports: Vec<u16>,
        #[n(1)]
        after: Vec<(AllocId, Usage)>,
        #[n(2)]
        promised: Usage,
        #[n(3)]
        previous: Option<AllocId>,
        #[n(4)]
        next: Option<AllocId>,
        #[n(5)]
        reschedules: Vec<Reschedule>,
        #[n(6)]
        stop_reason: Option<StopReason>,
        #[n(7)]
        results: Vec<TaskResult>,
        #[n(8)]
        devices: Vec<DeviceGrant>,
        #[n(9)]
        cores: Vec<u16>,
        #[n(10)]
        preempted_by: Option<AllocId>,
        #[n(11)]
        preempted: Vec<AllocId>,
        #[n(12)]
        canary: bool,
        #[n(13)]
        migrate: Option<Departure>,
        #[n(14)]
        watched: bool,
    }

    fn before(ports: &[u16], next: Option<AllocId>, results: &[TaskResult]) -> BeforeExtra {
        BeforeExtra {
            ports: ports.to_vec(),
            after: vec![],
            promised: Usage::default(),
            previous: None,
            next,
            reschedules: vec![],
            stop_reason: None,
            results: results.to_vec(),
            devices: vec![],
            cores: vec![],
            preempted_by: None,
            preempted: vec![],
            canary: false,
            migrate: None,
            watched: false,
        }
    }

    /// What an allocation becomes, and the record that reports it.
    fn check(extra: AllocExtra, results: &[TaskResult], record: Option<BeforeExtra>) {
        let (eval, at) = (EvalId(7), Timestamp(1_700_000_000_000_000_000));
        let mut detail = AllocDetail::placed(eval, at, extra);
        detail.set_results(results, None);
        let bytes = minicbor::to_vec(&detail).expect("memory takes it");
        let before =
            Before { eval, created_at: at, modified_at: at, extra: record.map(Arc::new), healthy: None };
        assert_eq!(bytes, minicbor::to_vec(before).expect("memory takes it"));
        let read: AllocDetail = minicbor::decode(&bytes).expect("it is read");
        assert_eq!((&read, read.results().decode()), (&detail, results.to_vec()));
    }

    #[test]
    fn results_are_kept_apart_and_written_where_they_stood() {
        let result = TaskResult {
            exit_code: 1,
            signal: 0,
            oom_killed: false,
            failed: true,
            restarts: 2,
            started_at: Timestamp(5),
            finished_at: Timestamp(9),
            message: "no such file".to_owned(),
        };
        let results = [result.clone(), result];
        let ports = || AllocExtra { ports: vec![80, 443], ..AllocExtra::default() };
        check(AllocExtra::default(), &[], None);
        check(AllocExtra::default(), &results, Some(before(&[], None, &results)));
        check(ports(), &[], Some(before(&[80, 443], None, &[])));
        let next = Some(AllocId(3));
        check(AllocExtra { next, ..ports() }, &results, Some(before(&[80, 443], next, &results)));
    }

    #[test]
    fn an_ended_allocation_takes_few_bytes_in_the_tables() {
        let bytes = size_of::<Option<AllocRow>>() + size_of::<Option<AllocDetail>>();
        assert!(bytes <= 144, "{bytes}");
    }
}
