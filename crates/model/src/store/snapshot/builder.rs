//! Makes a store of the records of a snapshot.

use std::sync::Arc;

use minicbor::Decode;

use super::{HASH_VERSION, SnapshotError, SnapshotRecord};
use crate::{
    codec::byte_reader::ByteReader,
    eval::Eval,
    ids::{AllocId, Index, JobKey},
    namespace::Namespace,
    resources::Resources,
    scaling::ScalingEvent,
    store::{
        AllocDetail, AllocRow, AllocSlot, JobSlot, JobVersion, NodeSlot, Store, allocs::AllocRecord,
        jobs::JobRecord,
    },
};

/// No cluster gets as far as these: indexes and versions go on after them.
const INDEX_MAX: Index = Index(1 << 62);
const VERSION_MAX: u64 = 1 << 62;

/// A store that is not complete yet.
#[derive(Debug, Clone, Default)]
pub struct StoreBuilder {
    store: Store,
    /// Versions and scaling events of the job whose record comes next, newest first.
    versions: Vec<JobVersion>,
    scalings: Vec<ScalingEvent>,
    /// The job of the last allocation: most of the next ones are its own, too.
    job: Option<(JobKey, JobSlot)>,
    /// Where the allocations begin that are not found yet.
    unindexed: Option<AllocSlot>,
    /// Allocations that have ended are hashed and not kept: all that is asked of the store is its hash.
    only_hashes: bool,
}

/// How the record of an allocation begins: an array of two, of which the first is its number.
const ALLOC: &[u8] = &[0x82, 3];

/// The record of an allocation, as [`SnapshotRecord`] has it. There are millions of them, and each takes memory of its own for
/// what stays alone.
#[derive(Decode)]
enum AllocOnly<'b> {
    #[n(3)]
    Alloc(#[b(0)] WrittenKey<'b>, #[n(1)] AllocRecord),
}

/// A [`JobKey`] where it was read.
#[derive(Decode)]
struct WrittenKey<'b> {
    #[n(0)]
    namespace: &'b str,
    #[n(1)]
    id: &'b str,
}

/// The record of an allocation that has ended, as most have.
fn read_plain(record: &[u8]) -> Option<(WrittenKey<'_>, AllocRecord)> {
    let mut from = ByteReader::new(record);
    from.pass(ALLOC)?;
    from.fields(2)?;
    from.fields(2)?;
    let key = WrittenKey { namespace: from.text()?, id: from.text()? };
    let alloc = AllocRecord::read_plain(&mut from)?;
    from.rest().is_empty().then_some((key, alloc))
}

impl StoreBuilder {
    /// One whose store has the hash of all allocations, and of them only those that live: what jobs count of these is hashed, too.
    pub fn that_only_hashes() -> Self {
        Self { only_hashes: true, ..Self::default() }
    }

    /// Takes in a record as it was written; the store, once it is complete.
    ///
    /// # Errors
    /// As [`Self::add`], and when it cannot be decoded.
    pub fn read(&mut self, record: &[u8]) -> Result<Option<Store>, SnapshotError> {
        if !record.starts_with(ALLOC) {
            return self.add(minicbor::decode(record)?);
        }
        let (key, alloc) = match read_plain(record) {
            Some(read) => read,
            None => {
                let AllocOnly::Alloc(key, alloc) = minicbor::decode(record)?;
                (key, alloc)
            }
        };
        self.restore_alloc(&key, alloc).map(|()| None)
    }

    /// Takes a record in; the store, once it is complete.
    ///
    /// # Errors
    /// When the record does not fit the others, or the store is not the one that was written.
    pub fn add(&mut self, record: SnapshotRecord) -> Result<Option<Store>, SnapshotError> {
        let store = &mut self.store;
        match record {
            SnapshotRecord::Header(index, at, granted, restored_at) => {
                if index.max(granted) > INDEX_MAX {
                    return Err(SnapshotError::Inconsistent(format!("it stands at index {index}")));
                }
                (store.index, store.at, store.granted) = (index, at, granted);
                store.restored_at = restored_at;
            }
            SnapshotRecord::Cluster(cluster) => store.cluster = cluster,
            SnapshotRecord::SchedulerConfig(config) => store.scheduler_config = config,
            SnapshotRecord::Namespace(record) => store.namespaces.restore(record),
            SnapshotRecord::Quota(record) => store.quotas.restore(record),
            SnapshotRecord::NodePool(row) => store.node_pools.restore(row),
            SnapshotRecord::AclPolicy(policy) => store.acl.put_policy(*policy),
            SnapshotRecord::AclRole(role) => store.acl.put_role(*role),
            SnapshotRecord::AclToken(token) => store.acl.put_token(*token),
            SnapshotRecord::RevokedToken(revoked) => store.acl.put_revoked(revoked),
            SnapshotRecord::OneTimeToken(token) => {
                let index = token.create_index;
                store.acl.put_one_time(*token, index);
            }
            SnapshotRecord::JoinToken(token) => {
                let index = token.create_index;
                store.acl.put_join_token(*token, index);
            }
            // Where it was revoked is not kept: it is before all that follows.
            SnapshotRecord::RevokedNode(revoked) => store.acl.revoke_node(revoked, Index(0)),
            SnapshotRecord::RevokedServer(revoked) => store.acl.revoke_server(revoked, Index(0)),
            SnapshotRecord::RootKey(key) => store.keyring.put(*key),
            SnapshotRecord::RetiredKek(retired) => store.keyring.retire(retired),
            SnapshotRecord::Variable(variable) => store.variables.put(Arc::unwrap_or_clone(variable)),
            SnapshotRecord::Node(node) if store.nodes.find_purged(node.node.id).is_some() => {
                return Err(twice(&format!("node {}", node.node.id)));
            }
            SnapshotRecord::Node(node) => drop(store.nodes.insert(*node)),
            SnapshotRecord::JobVersion(version) => self.versions.push(*version),
            SnapshotRecord::Scaling(event) => self.scalings.push(*event),
            SnapshotRecord::Job(job) => {
                let job = self.complete(*job)?;
                if self.store.jobs.find(&job.key).is_some() {
                    return Err(twice(&format!("job {}", job.key)));
                }
                self.store.jobs.insert(job);
            }
            SnapshotRecord::Alloc(job, alloc) => {
                let key = WrittenKey { namespace: &job.namespace, id: &job.id };
                self.restore_alloc(&key, *alloc)?;
            }
            SnapshotRecord::Eval(eval) => restore_eval(store, eval),
            SnapshotRecord::Deployment(deployment) => {
                let key = &deployment.job;
                let job = store.jobs.find(key).ok_or_else(|| {
                    let what = format!("deployment {} names job {key}, which is not in it", deployment.id);
                    SnapshotError::Inconsistent(what)
                })?;
                store.deployments.insert(job, *deployment);
            }
            SnapshotRecord::End(indexes, high, low, hash_version, deployments, acl, secrets, pools) => {
                self.index()?;
                let store = &mut self.store;
                check_tenants(store)?;
                share_promised_resources(store);
                store.count_all_devices();
                charge_tenants(store);
                store.set_table_indexes(indexes);
                store.deployments.modify_index = deployments.unwrap_or_default();
                [store.acl.modify_index, store.acl.bootstrapped_at] = acl.unwrap_or_default();
                store.acl.rights_index = store.acl.modify_index;
                [store.keyring.modify_index, store.variables.modify_index] = secrets.unwrap_or_default();
                store.node_pools.modify_index = pools.unwrap_or_default();
                let (found, written) = (store.hash(), u128::from(high) << 64 | u128::from(low));
                if found != written && hash_version == Some(HASH_VERSION) {
                    return Err(SnapshotError::Hash { found, written });
                }
                return Ok(Some(std::mem::take(store)));
            }
        }
        Ok(None)
    }

    /// Makes the allocations that were taken in be found. A snapshot that comes in parts has it done after each, so that nobody
    /// waits for all of it with the last one.
    ///
    /// # Errors
    /// When one is there twice.
    pub fn index(&mut self) -> Result<(), SnapshotError> {
        let from = self.unindexed.unwrap_or(AllocSlot(0));
        let end = self.store.allocs.end();
        if from < end {
            self.store.allocs.index(from).map_err(|id| twice(&format!("allocation {id}")))?;
            self.unindexed = Some(end);
        }
        Ok(())
    }

    fn restore_alloc(&mut self, job: &WrittenKey<'_>, record: AllocRecord) -> Result<(), SnapshotError> {
        let missing =
            |what: String| SnapshotError::Inconsistent(format!("allocation {} names {what}", record.id));
        let known =
            self.job.as_ref().filter(|(key, _)| *key.id == *job.id && *key.namespace == *job.namespace);
        let job_slot = match known {
            Some((_, slot)) => *slot,
            None => {
                let key = JobKey::new(job.namespace, job.id);
                let found = self.store.jobs.find(&key);
                let slot = found.ok_or_else(|| missing(format!("job {key}, which is not in it")))?;
                self.job = Some((key, slot));
                slot
            }
        };
        let node = self.store.nodes.find_purged(record.node);
        let node = node.ok_or_else(|| missing(format!("node {}, which is not in it", record.node)))?;
        if self.only_hashes && record.client.is_terminal() {
            let (row, detail) = row_of(job_slot, node, record);
            let owners = self.store.owners_hash(&row);
            self.store.allocs.add_hash(&row, &detail, owners);
        } else {
            restore_alloc(&mut self.store, job_slot, node, record);
        }
        Ok(())
    }

    /// A job's record with the versions and scaling events that came before it; those of format 1 have them inside.
    fn complete(&mut self, mut job: JobRecord) -> Result<JobRecord, SnapshotError> {
        let inconsistent = |what: &str| Err(SnapshotError::Inconsistent(format!("job {} {what}", job.key)));
        if !self.versions.is_empty() {
            job.versions = Arc::new(std::mem::take(&mut self.versions));
        }
        if !self.scalings.is_empty() {
            job.scalings = Arc::new(std::mem::take(&mut self.scalings));
        }
        if job.versions.is_empty() {
            return inconsistent("has no version");
        }
        let is_own = |key: &JobKey| *key.id == *job.key.name() && key.namespace == job.key.namespace;
        if !job.versions.iter().all(|version| is_own(&version.job.key)) {
            return inconsistent("comes after a version of another one");
        }
        let newest_first = |pair: &[JobVersion]| pair[0].version > pair[1].version;
        if job.versions[0].version > VERSION_MAX || !job.versions.windows(2).all(newest_first) {
            return inconsistent("has versions with numbers that cannot be");
        }
        Ok(job)
    }
}

fn twice(what: &str) -> SnapshotError {
    SnapshotError::Inconsistent(format!("{what} is in it twice"))
}

/// Each namespace is below others that are there, none below itself, and keeps to a quota that is there.
fn check_tenants(store: &Store) -> Result<(), SnapshotError> {
    let inconsistent = |name: &str, what: &str| {
        Err(SnapshotError::Inconsistent(format!("namespace {name} {what}, which cannot be")))
    };
    let most = store.namespaces.iter().count();
    for row in store.namespaces.iter() {
        let Namespace { name, parent, quota, .. } = &*row.namespace;
        if parent.as_ref().is_some_and(|parent| store.namespaces.get(parent).is_none()) {
            return inconsistent(name, "is below one that is not in it");
        }
        if quota.as_ref().is_some_and(|quota| store.quotas.get(quota).is_none()) {
            return inconsistent(name, "keeps to a quota that is not in it");
        }
        if store.namespaces.path(name).take(most + 1).count() > most {
            return inconsistent(name, "is below itself");
        }
    }
    Ok(())
}

fn row_of(job: JobSlot, node: NodeSlot, record: AllocRecord) -> (AllocRow, AllocDetail) {
    let row = AllocRow {
        id: record.id,
        job,
        node,
        group: record.group,
        desired: record.desired,
        client: record.client,
        name_index: record.name_index,
        job_version: record.job_version,
        updated: record.updated,
        held: record.held,
        create_index: record.create_index,
        modify_index: record.modify_index,
    };
    (row, record.detail)
}

fn restore_alloc(store: &mut Store, job: JobSlot, node: NodeSlot, record: AllocRecord) {
    let (row, detail) = row_of(job, node, record);
    let owners = store.owners_hash(&row);
    if row.is_terminal() {
        let slot = store.allocs.restore(row, detail, owners);
        store.nodes.list_ended(node, slot);
        store.jobs.list_ended(job, slot);
        return;
    }
    let ports = detail.extra().map(|extra| extra.ports.clone()).unwrap_or_default();
    let slot = store.allocs.restore(row, detail, owners);
    let group = store.job_of(&row).map(|(_, group)| group.name.clone()).unwrap_or_default();
    store.nodes.hold(node, slot, row.held, &ports);
    store.jobs.restore_live(job, slot, &group);
}

/// Capacity that a living allocation promised to its successor was counted for both: count it once.
fn share_promised_resources(store: &mut Store) {
    let successors: Vec<_> = store
        .allocs
        .iter()
        .filter(|(_, row)| !row.is_terminal())
        .filter_map(|(slot, row)| Some((row.node, store.allocs.extra(slot)?.clone())))
        .collect();
    for (node, extra) in successors {
        let living = |id: AllocId| store.alloc(id).is_some_and(|(_, row)| !row.is_terminal());
        let parts = extra.after.iter().filter(|(id, _)| living(*id)).map(|(_, part)| part.room());
        let room = parts.fold(Resources::ZERO, Resources::plus);
        // A port that several of them hold in turn is still one that was counted too often.
        let inherited = store.ports_of(&extra.after);
        let shared: Vec<u16> = extra.ports.iter().copied().filter(|port| inherited.contains(port)).collect();
        store.nodes.share(node, room, &shared);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::namespaces::NamespaceRecord;

    fn below(name: &str, parent: Option<&str>, quota: Option<&str>) -> SnapshotRecord {
        let [parent, quota] = [parent, quota].map(|name| name.map(str::to_owned));
        let namespace = Arc::new(Namespace { parent, quota, ..Namespace::new(name) });
        SnapshotRecord::Namespace(NamespaceRecord {
            namespace,
            create_index: Index(1),
            modify_index: Index(1),
        })
    }

    /// What is said of a snapshot of these records, whose checksums are right.
    fn refusal(records: Vec<SnapshotRecord>) -> Option<String> {
        let mut builder = StoreBuilder::default();
        let end = SnapshotRecord::End(Default::default(), 0, 0, None, None, None, None, None);
        let mut added = records.into_iter().chain([end]).map(|record| builder.add(record));
        added.find_map(Result::err).map(|error| error.to_string())
    }

    /// Whoever walked up from such a namespace would never come to an end.
    #[test]
    fn namespaces_that_cannot_be_are_refused() {
        assert_eq!(refusal(vec![below("a", None, None), below("b", Some("a"), None)]), None);
        let cycle = refusal(vec![below("a", Some("b"), None), below("b", Some("a"), None)]);
        assert!(cycle.is_some_and(|why| why.contains("namespace a is below itself")));
        let orphan = refusal(vec![below("a", Some("nowhere"), None)]);
        assert!(orphan.is_some_and(|why| why.contains("namespace a is below one that is not in it")));
        let unlimited = refusal(vec![below("a", None, Some("gone"))]);
        assert!(unlimited.is_some_and(|why| why.contains("namespace a keeps to a quota that is not in it")));
    }
}
