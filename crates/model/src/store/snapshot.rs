//! A store on disk: streamed record by record, versioned, and checked by a sum of its bytes and the hash of what is read back.

mod builder;
mod hashed_reader;
mod partial_restore;

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use minicbor::{Decode, Encode};
use xxhash_rust::xxh3::Xxh3;

use super::{
    AllocRow, JobVersion, NodePoolRow, Store, allocs::AllocRecord, jobs::JobRecord,
    namespaces::NamespaceRecord, nodes::NodeRecord, quotas::QuotaRecord,
};
use crate::{
    acl::{AclPolicy, AclRole, AclToken, OneTimeToken, RevokedToken},
    cluster::ClusterIdentity,
    codec::{Buffer, encoded},
    command::ENTRY_VERSION_MIN,
    deployment::Deployment,
    eval::Eval,
    ids::{Index, JobKey},
    join::{JoinToken, RevokedNode, RevokedServer},
    keyring::{RetiredKek, RootKey},
    scaling::ScalingEvent,
    scheduling::SchedulerConfig,
    time::Timestamp,
    variable::Variable,
};

use builder::StoreBuilder;
use hashed_reader::HashedReader;
pub(super) use partial_restore::PartialRestore;

const MAGIC: &[u8; 8] = b"BERTHSTO";
/// The format that [`write`] writes; it counts every change of a record. All before it are read.
pub const FORMAT_VERSION: u16 = 8;
/// Formats and versions of entries go together: a state that came of entries of a version is written in its format, so that
/// every server of the cluster can read it.
const FORMAT_VERSION_MIN: u16 = ENTRY_VERSION_MIN as u16;
/// What [`Store::hash`] covers, and how. The hash in a snapshot is compared only when it was made in the same way; the
/// sum of the file's bytes always is.
const HASH_VERSION: u8 = 5;
/// Largest record that is written and read. What came in one entry of the log fits, and no record holds more than that
/// but counts; those of format 1 hold a job with all its versions.
const RECORD_BYTES_MAX: u32 = 64 << 20;

/// A snapshot that cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk or the network failed.
    #[error("read snapshot: {0}")]
    Io(#[source] io::Error),
    /// There should be more of it.
    #[error("snapshot is cut short")]
    Short,
    /// There should be no more of it.
    #[error("snapshot goes on where it should end")]
    Long,
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

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Short } else { Self::Io(error) }
    }
}

#[derive(Encode, Decode)]
enum SnapshotRecord {
    /// Index, time, last index granted, where the state was last restored.
    #[n(0)]
    Header(#[n(0)] Index, #[n(1)] Timestamp, #[n(2)] Index, #[n(3)] Index),
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
    /// the hash, with its version: none for the first. Then where deployments last changed: none before format 3. Last where
    /// policies and tokens last changed, and where the first token was made: none as long as there are none. Then where root
    /// keys and variables last changed, in the same way. Then where node pools did.
    #[n(5)]
    End(
        #[n(0)] [Index; 6],
        #[n(1)] u64,
        #[n(2)] u64,
        #[n(3)] Option<u8>,
        #[n(4)] Option<Index>,
        #[n(5)] Option<[Index; 2]>,
        #[n(6)] Option<[Index; 2]>,
        #[n(7)] Option<Index>,
    ),
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
    /// The next version of the job whose record comes after all of them, newest first. Not in format 1.
    #[n(10)]
    JobVersion(#[n(0)] Box<JobVersion>),
    /// The next scaling event of the job whose record comes after all of them, newest first. Not in format 1.
    #[n(11)]
    Scaling(#[n(0)] Box<ScalingEvent>),
    /// Not in snapshots before format 3.
    #[n(12)]
    Deployment(#[n(0)] Box<Deployment>),
    /// Not in snapshots before format 4, as what follows.
    #[n(13)]
    AclPolicy(#[n(0)] Box<AclPolicy>),
    #[n(14)]
    AclRole(#[n(0)] Box<AclRole>),
    #[n(15)]
    AclToken(#[n(0)] Box<AclToken>),
    #[n(16)]
    OneTimeToken(#[n(0)] Box<OneTimeToken>),
    #[n(17)]
    JoinToken(#[n(0)] Box<JoinToken>),
    #[n(18)]
    RevokedNode(#[n(0)] RevokedNode),
    #[n(21)]
    RevokedServer(#[n(0)] RevokedServer),
    #[n(19)]
    RootKey(#[n(0)] Box<RootKey>),
    #[n(20)]
    Variable(
        #[n(0)]
        #[cbor(with = "crate::codec::shared")]
        Arc<Variable>,
    ),
    /// Not in snapshots before format 6.
    #[n(22)]
    NodePool(#[n(0)] NodePoolRow),
    #[n(23)]
    RevokedToken(#[n(0)] RevokedToken),
    #[n(24)]
    RetiredKek(#[n(0)] RetiredKek),
    /// Not in snapshots of format 1, whose clusters had no identity.
    #[n(9)]
    Cluster(
        #[n(0)]
        #[cbor(with = "crate::codec::shared")]
        Arc<ClusterIdentity>,
    ),
}

impl SnapshotRecord {
    /// What it reports, for errors.
    fn kind(&self) -> String {
        match self {
            Self::Header(..) => "header".to_owned(),
            Self::Node(node) => format!("node {}", node.node.id),
            Self::Job(job) => format!("job {}", job.key),
            Self::JobVersion(version) => format!("job {}, version {}", version.job.key, version.version),
            Self::Scaling(event) => format!("scaling event of group {}", event.group),
            Self::Alloc(_, alloc) => format!("allocation {}", alloc.id),
            Self::Eval(eval) => format!("evaluation {}", eval.id),
            Self::Deployment(deployment) => format!("deployment {}", deployment.id),
            Self::End(..) => "end".to_owned(),
            Self::SchedulerConfig(_) => "scheduler configuration".to_owned(),
            Self::Namespace(row) => format!("namespace {}", row.namespace.name),
            Self::Quota(row) => format!("quota {}", row.quota.name),
            Self::AclPolicy(policy) => format!("policy {}", policy.name),
            Self::AclRole(role) => format!("role {}", role.id),
            Self::AclToken(token) => format!("token {}", token.id),
            Self::OneTimeToken(token) => format!("one-time token for token {}", token.token),
            Self::RevokedToken(revoked) => format!("revoked token {}", revoked.token),
            Self::JoinToken(_) => "join token".to_owned(),
            Self::RevokedNode(revoked) => format!("revoked node {}", revoked.node),
            Self::RevokedServer(revoked) => format!("revoked server {}", revoked.name),
            Self::RetiredKek(retired) => format!("replaced key-encryption key {}", retired.id),
            Self::RootKey(key) => format!("root key {}", key.id),
            Self::NodePool(row) => format!("node pool {}", row.pool.name),
            Self::Variable(variable) => format!("variable {}", variable.key),
            Self::Cluster(_) => "cluster".to_owned(),
        }
    }
}

/// Writes a store. Works on a clone, while the original goes on changing.
///
/// # Errors
/// When writing fails.
pub fn write(store: &Store, out: &mut impl Write) -> io::Result<()> {
    let out = &mut HashedWriter { inner: out, sum: Xxh3::new() };
    out.write_all(MAGIC)?;
    let format = u16::from(store.version).clamp(FORMAT_VERSION_MIN, FORMAT_VERSION);
    out.write_all(&format.to_be_bytes())?;
    write_records(store, out)?;
    let sum = out.sum.digest128().to_be_bytes();
    out.inner.write_all(&sum)
}

/// Writes what a snapshot holds, without what distinguishes it from other files: what the log carries to restore a state.
///
/// # Errors
/// When writing fails.
pub fn write_records(store: &Store, out: &mut impl Write) -> io::Result<()> {
    let mut put = |record: &SnapshotRecord| write_record(record, out);
    put(&SnapshotRecord::Header(store.index, store.at, store.granted, store.restored_at))?;
    put(&SnapshotRecord::Cluster(store.cluster.clone()))?;
    put(&SnapshotRecord::SchedulerConfig(store.scheduler_config.clone()))?;
    for record in store.namespaces.records() {
        put(&SnapshotRecord::Namespace(record))?;
    }
    for record in store.quotas.records() {
        put(&SnapshotRecord::Quota(record))?;
    }
    for row in store.node_pools.iter() {
        put(&SnapshotRecord::NodePool(row.clone()))?;
    }
    for policy in store.acl.policies() {
        put(&SnapshotRecord::AclPolicy(Box::new(AclPolicy::clone(policy))))?;
    }
    for role in store.acl.roles() {
        put(&SnapshotRecord::AclRole(Box::new(AclRole::clone(role))))?;
    }
    for token in store.acl.tokens(..) {
        put(&SnapshotRecord::AclToken(Box::new(AclToken::clone(token))))?;
    }
    for revoked in store.acl.revoked_tokens() {
        put(&SnapshotRecord::RevokedToken(revoked.clone()))?;
    }
    for token in store.acl.one_time_tokens() {
        put(&SnapshotRecord::OneTimeToken(Box::new(OneTimeToken::clone(token))))?;
    }
    for token in store.acl.joins().tokens() {
        put(&SnapshotRecord::JoinToken(Box::new(JoinToken::clone(token))))?;
    }
    for revoked in store.acl.joins().revoked() {
        put(&SnapshotRecord::RevokedNode(revoked))?;
    }
    for revoked in store.acl.joins().revoked_servers() {
        put(&SnapshotRecord::RevokedServer(revoked))?;
    }
    for key in store.keyring.keys() {
        put(&SnapshotRecord::RootKey(Box::new(RootKey::clone(key))))?;
    }
    for retired in store.keyring.retired() {
        put(&SnapshotRecord::RetiredKek(retired))?;
    }
    for variable in store.variables.iter() {
        put(&SnapshotRecord::Variable(variable.clone()))?;
    }
    for record in store.nodes.records() {
        put(&SnapshotRecord::Node(Box::new(record)))?;
    }
    for (_, row) in store.jobs.iter() {
        for version in &*row.versions {
            put(&SnapshotRecord::JobVersion(Box::new(version.clone())))?;
        }
        for event in row.scalings.iter().flat_map(|events| &**events) {
            put(&SnapshotRecord::Scaling(Box::new(event.clone())))?;
        }
        put(&SnapshotRecord::Job(Box::new(JobRecord::of(row))))?;
    }
    for (slot, row) in store.allocs.iter() {
        let record = alloc_record(store, slot, row);
        put(&SnapshotRecord::Alloc(
            store.jobs.row(row.job).expect("its job is there").key.clone(),
            Box::new(record),
        ))?;
    }
    for (_, eval) in store.evals.iter() {
        put(&SnapshotRecord::Eval(eval.clone()))?;
    }
    for deployment in store.deployments.iter() {
        put(&SnapshotRecord::Deployment(Box::new(Deployment::clone(deployment))))?;
    }
    let (hash, deployments) = (store.hash(), Some(store.deployments.modify_index));
    let acl = [store.acl.modify_index, store.acl.bootstrapped_at];
    let secrets = [store.keyring.modify_index, store.variables.modify_index];
    put(&SnapshotRecord::End(
        store.table_indexes(),
        (hash >> 64) as u64,
        hash as u64,
        Some(HASH_VERSION),
        deployments,
        Some(acl).filter(|[changed, _]| *changed > Index(0)),
        Some(secrets).filter(|changed| *changed != [Index(0); 2]),
        Some(store.node_pools.modify_index).filter(|changed| *changed > Index(0)),
    ))
}

/// Reads a store back, identical to the one written, and nothing after it. Whatever it comes from is read in blocks.
///
/// # Errors
/// When reading fails, or what is read is not a whole and undamaged snapshot.
pub fn read(from: &mut impl Read) -> Result<Store, SnapshotError> {
    read_with(StoreBuilder::default(), from)
}

/// Reads a snapshot back as [`read`] does, without keeping it: its index, and the hash of what [`read`] would return. It takes a
/// fraction of the memory and less time where most allocations have ended.
///
/// # Errors
/// As [`read`]. Of an ended allocation that is there twice only the hash tells.
pub fn read_hash(from: &mut impl Read) -> Result<(Index, u128), SnapshotError> {
    let store = read_with(StoreBuilder::that_only_hashes(), from)?;
    Ok((store.index, store.hash()))
}

fn read_with(builder: StoreBuilder, from: &mut impl Read) -> Result<Store, SnapshotError> {
    let from = &mut HashedReader::new(from);
    if from.take(MAGIC.len())? != MAGIC {
        return Err(SnapshotError::Magic);
    }
    let version = u16::from_be_bytes(from.take_array()?);
    if !(1..=FORMAT_VERSION).contains(&version) {
        return Err(SnapshotError::Version(version));
    }
    let mut store = read_records(builder, from)?;
    store.version = u8::try_from(version).unwrap_or(u8::MAX);
    let (found, written) = (from.sum(), u128::from_be_bytes(from.take_array()?));
    if found != written {
        return Err(SnapshotError::Hash { found, written });
    }
    if from.is_at_end()? { Ok(store) } else { Err(SnapshotError::Long) }
}

/// Sums up what passes through.
struct HashedWriter<'a, T> {
    inner: &'a mut T,
    sum: Xxh3,
}

impl<T: Write> Write for HashedWriter<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn read_records(
    mut builder: StoreBuilder,
    from: &mut HashedReader<impl Read>,
) -> Result<Store, SnapshotError> {
    loop {
        let len = record_bytes(from.take_array()?)?;
        if let Some(store) = builder.read(from.take(len)?)? {
            return Ok(store);
        }
    }
}

fn write_record(record: &SnapshotRecord, out: &mut impl Write) -> io::Result<()> {
    let encode = |buffer: &mut Buffer| {
        minicbor::encode(record, buffer).expect("encoding to memory does not fail");
    };
    encoded(encode, |bytes| {
        let len = bytes.len();
        let prefix = u32::try_from(len).ok().filter(|len| *len <= RECORD_BYTES_MAX).ok_or_else(|| {
            let kind = record.kind();
            io::Error::other(format!(
                "write snapshot: a record ({kind}) of {len} bytes, at most {RECORD_BYTES_MAX} can be read back"
            ))
        })?;
        out.write_all(&prefix.to_be_bytes())?;
        out.write_all(bytes)
    })
}

/// How long the record is before which this stands.
fn record_bytes(prefix: [u8; 4]) -> Result<usize, SnapshotError> {
    let len = u32::from_be_bytes(prefix);
    if len > RECORD_BYTES_MAX {
        return Err(SnapshotError::Inconsistent(format!("a record of {len} bytes")));
    }
    Ok(len as usize)
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
        updated: row.updated,
    }
}
