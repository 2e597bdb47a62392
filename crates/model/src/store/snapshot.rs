//! A store on disk: streamed record by record, versioned, and checked by a sum of its bytes and the hash of what is read back.

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use minicbor::{Decode, Encode};
use xxhash_rust::xxh3::Xxh3;

use super::{
    AllocRow, Store, allocs::AllocRecord, jobs::JobRecord, namespaces::NamespaceRecord, nodes::NodeRecord,
    quotas::QuotaRecord,
};
use crate::{
    eval::Eval,
    ids::{Index, JobKey},
    scheduling::SchedulerConfig,
    time::Timestamp,
};

const MAGIC: &[u8; 8] = b"BERTHSTO";
/// The format that [`write`] writes.
pub const FORMAT_VERSION: u16 = 1;
/// Largest record that is read: a job of 4 MiB in all its versions, and room.
const RECORD_BYTES_MAX: u32 = 64 << 20;

/// A snapshot that cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Not a snapshot, or cut short, or the disk failed.
    #[error("read snapshot: {0}")]
    Io(#[from] io::Error),
    /// Not a snapshot.
    #[error("this is not a snapshot of Berth's state")]
    Magic,
    /// Written by a newer Berth.
    #[error("snapshot has format {0}, this server knows up to {FORMAT_VERSION}: use the newer version")]
    Version(u16),
    /// A record that cannot be read.
    #[error("decode snapshot: {0}")]
    Decode(#[from] minicbor::decode::Error),
    /// A record that does not fit the others.
    #[error("snapshot is inconsistent: {0}")]
    Inconsistent(String),
    /// What was read is not what was written.
    #[error("snapshot is damaged: its content has hash {found:032x}, it was written with {written:032x}")]
    Hash {
        /// Of what was read.
        found: u128,
        /// Of what was written.
        written: u128,
    },
}

#[derive(Encode, Decode)]
enum Record {
    #[n(0)]
    Header(#[n(0)] Index, #[n(1)] Timestamp, #[n(2)] Index),
    #[n(1)]
    Node(#[n(0)] Box<NodeRecord>),
    #[n(2)]
    Job(#[n(0)] Box<JobRecord>),
    #[n(3)]
    Alloc(#[n(0)] JobKey, #[n(1)] Box<AllocRecord>),
    #[n(4)]
    Eval(
        #[n(0)]
        #[cbor(with = "crate::codec::shared")]
        Arc<Eval>,
    ),
    /// Where each table last changed (nodes, jobs, allocations, evaluations, namespaces, quotas), and the two halves of
    /// the hash.
    #[n(5)]
    End(#[n(0)] [Index; 6], #[n(1)] u64, #[n(2)] u64),
    #[n(6)]
    SchedulerConfig(
        #[n(0)]
        #[cbor(with = "crate::codec::shared")]
        Arc<SchedulerConfig>,
    ),
    #[n(7)]
    Namespace(#[n(0)] NamespaceRecord),
    #[n(8)]
    Quota(#[n(0)] QuotaRecord),
}

/// Writes a store. Works on a clone, while the original goes on changing.
///
/// # Errors
/// When writing fails.
pub fn write(store: &Store, out: &mut impl Write) -> io::Result<()> {
    let out = &mut Summed { inner: out, sum: Xxh3::new() };
    out.write_all(MAGIC)?;
    out.write_all(&FORMAT_VERSION.to_be_bytes())?;
    let mut buffer = Vec::new();
    let mut put = |record: &Record| write_record(record, &mut buffer, out);
    put(&Record::Header(store.index, store.at, store.granted))?;
    put(&Record::SchedulerConfig(store.scheduler_config.clone()))?;
    for record in store.namespaces.records() {
        put(&Record::Namespace(record))?;
    }
    for record in store.quotas.records() {
        put(&Record::Quota(record))?;
    }
    for (slot, _) in store.nodes.iter() {
        put(&Record::Node(Box::new(store.nodes.record(slot).expect("it was listed"))))?;
    }
    for (slot, _) in store.jobs.iter() {
        put(&Record::Job(Box::new(store.jobs.record(slot).expect("it was listed"))))?;
    }
    for (slot, row) in store.allocs.iter() {
        let record = alloc_record(store, slot, row);
        put(&Record::Alloc(
            store.jobs.row(row.job).expect("its job is there").key.clone(),
            Box::new(record),
        ))?;
    }
    for (_, eval) in store.evals.iter() {
        put(&Record::Eval(eval.clone()))?;
    }
    let hash = store.hash();
    put(&Record::End(table_indexes(store), (hash >> 64) as u64, hash as u64))?;
    let sum = out.sum.digest128().to_be_bytes();
    out.inner.write_all(&sum)
}

/// Reads a store back, identical to the one written.
///
/// # Errors
/// When reading fails, or what is read is not a whole and undamaged snapshot.
pub fn read(from: &mut impl Read) -> Result<Store, SnapshotError> {
    let from = &mut Summed { inner: from, sum: Xxh3::new() };
    let mut magic = [0; 8];
    from.read_exact(&mut magic)?;
    if &magic != MAGIC {
        return Err(SnapshotError::Magic);
    }
    let mut version = [0; 2];
    from.read_exact(&mut version)?;
    let version = u16::from_be_bytes(version);
    if version != FORMAT_VERSION {
        return Err(SnapshotError::Version(version));
    }
    let store = read_records(from)?;
    let mut written = [0; 16];
    from.inner.read_exact(&mut written)?;
    let (found, written) = (from.sum.digest128(), u128::from_be_bytes(written));
    if found == written { Ok(store) } else { Err(SnapshotError::Hash { found, written }) }
}

/// Sums up what passes through.
struct Summed<'a, T> {
    inner: &'a mut T,
    sum: Xxh3,
}

impl<T: Write> Write for Summed<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Summed<'_, T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.sum.update(&bytes[..read]);
        Ok(read)
    }
}

fn read_records(from: &mut impl Read) -> Result<Store, SnapshotError> {
    let mut store = Store::default();
    let mut buffer = Vec::new();
    loop {
        match read_record(from, &mut buffer)? {
            Record::Header(index, at, granted) => {
                (store.index, store.at, store.granted) = (index, at, granted);
            }
            Record::SchedulerConfig(config) => store.scheduler_config = config,
            Record::Namespace(record) => store.namespaces.restore(record),
            Record::Quota(record) => store.quotas.restore(record),
            Record::Node(node) => drop(store.nodes.insert(*node)),
            Record::Job(job) => drop(store.jobs.insert(*job)),
            Record::Alloc(job, alloc) => restore_alloc(&mut store, &job, *alloc)?,
            Record::Eval(eval) => restore_eval(&mut store, eval),
            Record::End(indexes, high, low) => {
                share_promised_room(&mut store);
                store.count_all_devices();
                charge_tenants(&mut store);
                set_table_indexes(&mut store, indexes);
                let (found, written) = (store.hash(), u128::from(high) << 64 | u128::from(low));
                return if found == written {
                    Ok(store)
                } else {
                    Err(SnapshotError::Hash { found, written })
                };
            }
        }
    }
}

fn write_record(record: &Record, buffer: &mut Vec<u8>, out: &mut impl Write) -> io::Result<()> {
    buffer.clear();
    minicbor::encode(record, &mut *buffer).expect("encoding to memory does not fail");
    let len = u32::try_from(buffer.len()).map_err(|_| io::Error::other("a record is over 4 GiB"))?;
    out.write_all(&len.to_be_bytes())?;
    out.write_all(buffer)
}

fn read_record(from: &mut impl Read, buffer: &mut Vec<u8>) -> Result<Record, SnapshotError> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len);
    if len > RECORD_BYTES_MAX {
        return Err(SnapshotError::Inconsistent(format!("a record of {len} bytes")));
    }
    buffer.resize(len as usize, 0);
    from.read_exact(buffer)?;
    Ok(minicbor::decode(buffer)?)
}

fn alloc_record(store: &Store, slot: super::AllocSlot, row: &AllocRow) -> AllocRecord {
    AllocRecord {
        id: row.id,
        node: store.nodes.row(row.node).map(|node| node.id).unwrap_or_default(),
        group: row.group,
        desired: row.desired,
        client: row.client,
        name_index: row.name_index,
        job_version: row.job_version,
        held: row.held,
        create_index: row.create_index,
        modify_index: row.modify_index,
        detail: store.allocs.detail(slot).expect("a row has a detail").clone(),
    }
}

fn restore_alloc(store: &mut Store, job: &JobKey, record: AllocRecord) -> Result<(), SnapshotError> {
    let missing =
        |what: String| SnapshotError::Inconsistent(format!("allocation {} names {what}", record.id));
    let job_slot = store.jobs.find(job).ok_or_else(|| missing(format!("job {job}, which is not in it")))?;
    let node = store
        .nodes
        .find(record.node)
        .ok_or_else(|| missing(format!("node {}, which is not in it", record.node)))?;
    let row = AllocRow {
        id: record.id,
        job: job_slot,
        node,
        group: record.group,
        desired: record.desired,
        client: record.client,
        name_index: record.name_index,
        job_version: record.job_version,
        held: record.held,
        create_index: record.create_index,
        modify_index: record.modify_index,
    };
    let extra = record.detail.extra.clone().unwrap_or_default();
    let slot = store.allocs.insert(row, record.detail);
    if row.is_terminal() {
        store.nodes.list_ended(node, slot);
        store.jobs.list_ended(job_slot, slot);
        return Ok(());
    }
    let group = store.job_of(&row).map(|(_, group)| group.name.clone()).unwrap_or_default();
    store.nodes.hold(node, slot, row.held, &extra.ports);
    store.jobs.restore_live(job_slot, slot, &group);
    Ok(())
}

/// Room that a living allocation promised to its successor was counted for both: count it once.
fn share_promised_room(store: &mut Store) {
    let successors: Vec<_> = store
        .allocs
        .iter()
        .filter(|(_, row)| !row.is_terminal())
        .filter_map(|(slot, row)| Some((row.node, store.allocs.extra(slot)?.clone())))
        .collect();
    for (node, extra) in successors {
        for (id, part) in &extra.after {
            let Some((before, row)) = store.alloc(*id) else { continue };
            if row.is_terminal() {
                continue;
            }
            let held = store.allocs.extra(before).map(|e| e.ports.clone()).unwrap_or_default();
            let shared: Vec<u16> = extra.ports.iter().copied().filter(|p| held.contains(p)).collect();
            store.nodes.share(node, part.room(), &shared);
        }
    }
}

/// Counts what the living allocations of each namespace hold.
fn charge_tenants(store: &mut Store) {
    let live: Vec<_> =
        store.allocs.iter().filter(|(_, row)| !row.is_terminal()).map(|(slot, row)| (slot, *row)).collect();
    for (slot, row) in live {
        let charge = store.charge_of(slot);
        store.charge_tenant(row.job, &charge);
    }
}

fn restore_eval(store: &mut Store, eval: Arc<Eval>) {
    let (job, open) = (store.jobs.find(&eval.job), !eval.status.is_terminal());
    let slot = store.evals.insert(eval);
    if let Some(job) = job {
        store.jobs.restore_eval(job, slot, open);
    }
}

fn table_indexes(store: &Store) -> [Index; 6] {
    [
        store.nodes.modify_index,
        store.jobs.modify_index,
        store.allocs.modify_index,
        store.evals.modify_index,
        store.namespaces.modify_index,
        store.quotas.modify_index,
    ]
}

fn set_table_indexes(store: &mut Store, indexes: [Index; 6]) {
    [
        store.nodes.modify_index,
        store.jobs.modify_index,
        store.allocs.modify_index,
        store.evals.modify_index,
        store.namespaces.modify_index,
        store.quotas.modify_index,
    ] = indexes;
}
