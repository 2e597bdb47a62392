//! The agent's data directory: its lock, the node's identity, and the records of allocations, servers and metadata.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use berth_api::agent::{AgentIdentity, AllocId, ClusterId, DynamicMeta, Fence, RevokedServer};

use super::servers;
use crate::dirs::remove_tree;
use crate::failure::{Failure, FailureContext};
use crate::lifecycle::AllocRecord;
use crate::locked_file::LockedFile;
use crate::paths::AllocPaths;
use crate::{disk, proc};

/// An agent that is killed while it makes a process leaves the lock to that one, until it has become a keeper.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(1);

const NODE_RECORD: &str = "node";
/// The file with the time of the last contact with a server, in digits.
const LAST_CONTACT: &str = "heard";
const FENCE_RECORD: &str = "fence";
const SERVERS_RECORD: &str = "servers";
const META_RECORD: &str = "meta";
const ALLOC_RECORD: &str = "record";

/// Holds directories that are being removed.
const REMOVED_DIR: &str = "removed";
/// Holds directories of allocations whose records could not be read.
const DAMAGED_DIR: &str = "damaged";

/// The record of the node's identity.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct NodeRecord {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) node_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) secret: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub(crate) epoch: u64,
}

/// The node's [`Fence`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct FenceRecord {
    /// 16 bytes; empty for no cluster yet.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) cluster_id: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub(crate) term: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) index: u64,
}

/// The servers of the node's cluster, as they last reported themselves.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ServersRecord {
    /// Where they take agents, as HOST:PORT.
    #[prost(string, repeated, tag = "1")]
    pub(crate) addresses: Vec<String>,
    /// Those whose certificates are not believed any more.
    #[prost(message, repeated, tag = "2")]
    pub(crate) revoked: Vec<RevokedServer>,
}

/// The dynamic metadata of the node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct MetaRecord {
    #[prost(message, repeated, tag = "1")]
    dynamic: Vec<DynamicMeta>,
}

/// An allocation's directory whose record cannot be read.
#[derive(Debug)]
pub(crate) struct Damaged {
    pub(crate) dir: PathBuf,
    pub(crate) failure: Failure,
}

/// A data directory that nobody else uses.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: LockedFile,
}

impl DataDir {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        // Passable for tasks with users of their own, but not to be listed.
        [path, &path.join("allocs")].into_iter().try_for_each(|dir| make_dir(dir, 0o711))?;
        [path.join("images"), path.join(REMOVED_DIR)].iter().try_for_each(|dir| make_dir(dir, 0o700))?;
        let path = path.canonicalize().doing(|| format!("open {}", path.display()))?;
        let lock = lock(&path)?;
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn image_cache(&self) -> PathBuf {
        self.path.join("images")
    }

    pub(crate) fn paths(&self, alloc: AllocId) -> AllocPaths {
        AllocPaths::new(&self.path, alloc)
    }

    /// Who the node is, made up at the first start, and the number of this start.
    pub(crate) fn identify(&self) -> Result<(AgentIdentity, u64), Failure> {
        let known = disk::read::<NodeRecord>(&self.path, NODE_RECORD)?;
        let mut record = match known {
            Some(record) => record,
            None => NodeRecord { node_id: random(16)?, secret: random(32)?, epoch: 0 },
        };
        record.epoch += 1;
        disk::write(&self.path, NODE_RECORD, &record)?;
        // For the next start: one on a full disk is what makes room there, and supervises what runs.
        self.reserve(NODE_RECORD, "an agent cannot start on a full disk");
        let doing = || format!("read {}", self.path.join(NODE_RECORD).display());
        let node_id = record.node_id.try_into().map_err(|_| Failure::other(doing(), "damaged node id"))?;
        let instance = *random(16)?.first_chunk().unwrap_or(&[0; 16]);
        Ok((
            AgentIdentity { node_id, secret: record.secret, boot_id: proc::boot_id(), instance },
            record.epoch,
        ))
    }

    /// The cluster that the node belongs to, and the log position that it had come to when that was written.
    pub(crate) fn fence(&self) -> Result<Fence, Failure> {
        let record = disk::read::<FenceRecord>(&self.path, FENCE_RECORD)?.unwrap_or_default();
        let cluster = ClusterId::from_slice(&record.cluster_id);
        Ok(Fence { cluster, term: record.term, index: record.index })
    }

    /// Keeps the fence: from here on the node belongs to that cluster.
    pub(crate) fn keep_fence(&self, fence: Fence) -> Result<(), Failure> {
        let cluster_id = fence.cluster.map_or(Vec::new(), |cluster| cluster.0.to_vec());
        let record = FenceRecord { cluster_id, term: fence.term, index: fence.index };
        disk::write(&self.path, FENCE_RECORD, &record)?;
        // For the next one: what is removed frees disk space, and waits for it.
        self.reserve(FENCE_RECORD, "on a full disk it is not kept how far the desired state has come");
        Ok(())
    }

    /// Reserves disk space for the next record of this name. The one before is stored whatever comes of that: `or_else` says what
    /// the lack of it means.
    fn reserve(&self, name: &str, or_else: &str) {
        if let Err(failure) = disk::reserve(&self.path, name) {
            tracing::warn!(%failure, "{or_else}");
        }
    }

    /// Where the servers of the node's cluster take agents, as an earlier run of the agent learned, and which were revoked. The
    /// addresses only help to find them: without it the agent dials those that it was given.
    pub(crate) fn servers(&self) -> ServersRecord {
        let record = disk::read::<ServersRecord>(&self.path, SERVERS_RECORD).unwrap_or_else(|failure| {
            tracing::warn!(%failure, "servers that were known before are learned again");
            None
        });
        let record = record.unwrap_or_default();
        ServersRecord { addresses: servers::usable(record.addresses), ..record }
    }

    /// Keeps them, for the next run.
    pub(crate) fn write_servers(&self, record: &ServersRecord) {
        if let Err(failure) = disk::write(&self.path, SERVERS_RECORD, record) {
            tracing::warn!(%failure, "an agent that is started again knows only the servers that it is given");
        }
    }

    /// The dynamic metadata that an earlier run of the agent has kept. Jobs rely on it: an agent does not go on without what it
    /// cannot read.
    pub(crate) fn meta(&self) -> Result<Vec<DynamicMeta>, Failure> {
        Ok(disk::read::<MetaRecord>(&self.path, META_RECORD)?.unwrap_or_default().dynamic)
    }

    /// Keeps it, for the next run.
    pub(crate) fn write_meta(&self, dynamic: Vec<DynamicMeta>) -> Result<(), Failure> {
        disk::write(&self.path, META_RECORD, &MetaRecord { dynamic })
    }

    /// When an earlier run of the agent last had contact with a server, nanoseconds since the Unix epoch; 0 where that is
    /// not known.
    pub(crate) fn last_contact_ns(&self) -> u64 {
        let text = fs::read_to_string(self.path.join(LAST_CONTACT)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// It is only ever a little out of date: what cannot be written now is written a moment later.
    pub(crate) fn write_last_contact(&self, at_ns: u64) {
        if let Err(error) = fs::write(self.path.join(LAST_CONTACT), at_ns.to_string()) {
            tracing::warn!(%error, "could not keep when a server was last heard of");
        }
    }

    /// Writes records of different allocations, as if each had been written by itself: what the disk is waited for is waited
    /// for together.
    pub(crate) fn write(&self, records: &[(AllocId, Box<AllocRecord>)]) -> Vec<Result<(), Failure>> {
        let mut is_new = false;
        let unnamed = records.iter().map(|(alloc, record)| {
            let root = self.paths(*alloc).root().to_owned();
            if !root.exists() {
                make_dir(&root, 0o700)?;
                is_new = true;
            }
            disk::UnnamedRecord::write(&root, ALLOC_RECORD, &**record)
        });
        let unnamed: Vec<Result<disk::UnnamedRecord, Failure>> = unnamed.collect();
        let synced =
            disk::in_parallel(&unnamed, |record| record.as_ref().map_or(Ok(()), disk::UnnamedRecord::sync));
        // All are on disk before the first gets its name.
        let named = unnamed.into_iter().zip(synced).map(|(record, synced)| {
            let record = record?;
            synced.and_then(|()| record.name())
        });
        let named: Vec<Result<(), Failure>> = named.collect();
        let allocs = self.path.join("allocs");
        let listed = || if is_new { disk::sync_dir(&allocs) } else { Ok(()) };
        let listed = listed().map_err(|error| error.to_string());
        let sync_root = |(alloc, _): &(AllocId, Box<AllocRecord>)| {
            let paths = self.paths(*alloc);
            disk::sync_dir(paths.root()).doing(|| format!("write {}", paths.root().display()))
        };
        let done = named.into_iter().zip(disk::in_parallel(records, sync_root)).map(|(named, synced)| {
            named.and(synced)?;
            listed.clone().map_err(|error| Failure::other("write the list of allocations", error))
        });
        done.collect()
    }

    /// All records there are, and the directories of those that cannot be read: what they describe might still run.
    ///
    /// # Errors
    /// When one was written by a newer version, which nothing must be done about.
    pub(crate) fn read_all(&self) -> Result<(Vec<AllocRecord>, Vec<Damaged>), Failure> {
        let allocs = self.path.join("allocs");
        let entries = fs::read_dir(&allocs).doing(|| format!("list {}", allocs.display()))?;
        let (mut records, mut damaged) = (Vec::new(), Vec::new());
        for dir in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
            match disk::read(&dir, ALLOC_RECORD) {
                Ok(record) => records.extend(record),
                Err(failure) if failure.is_newer() => return Err(failure),
                Err(failure) => damaged.push(Damaged { dir, failure }),
            }
        }
        Ok((records, damaged))
    }

    /// Puts an allocation's directory where everything is removed, sooner or later, by [`Self::remove_set_out`]. A crash
    /// leaves it in one of the two places.
    pub(crate) fn set_out(&self, alloc: AllocId) -> Result<(), Failure> {
        let paths = self.paths(alloc);
        let doing = || format!("remove {}", paths.root().display());
        let target = (0..).map(|number: u64| self.path.join(REMOVED_DIR).join(format!("{alloc}.{number}")));
        let target = target.into_iter().find(|target| !target.exists());
        let target = target.ok_or_else(|| Failure::other(doing(), "there is no name left"))?;
        match fs::rename(paths.root(), &target) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::new(doing(), error)),
            _ => Ok(()),
        }
    }

    /// Removes what was set out for that, which may take long.
    pub(crate) fn remove_set_out(&self) {
        let entries = self.path.join(REMOVED_DIR).read_dir().into_iter().flatten().flatten();
        for entry in entries {
            if let Err(failure) = remove_tree(&entry.path()) {
                tracing::warn!(%failure, "could not remove an allocation's directory: it is tried again later");
            }
        }
    }

    /// Keeps the directory of an allocation whose record cannot be read, for inspection.
    pub(crate) fn set_aside(&self, dir: &Path) -> Result<PathBuf, Failure> {
        let doing = || format!("set {} aside", dir.display());
        let name = dir.file_name().ok_or_else(|| Failure::other(doing(), "it has no name"))?;
        make_dir(&self.path.join(DAMAGED_DIR), 0o700)?;
        let target = (0..).map(|number: u64| {
            self.path.join(DAMAGED_DIR).join(format!("{}.{number}", name.to_string_lossy()))
        });
        let target = target.into_iter().find(|target| !target.exists());
        let target = target.ok_or_else(|| Failure::other(doing(), "there is no name left"))?;
        fs::rename(dir, &target).doing(doing)?;
        Ok(target)
    }
}

/// Makes a directory and all it lies in; `mode` is set even if it was there.
pub(crate) fn make_dir(path: &Path, mode: u32) -> Result<(), Failure> {
    let doing = || format!("make {}", path.display());
    DirBuilder::new().recursive(true).mode(0o711).create(path).doing(doing)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).doing(doing)
}

/// Over what an earlier agent wrote there: on a full disk there may be no room for anything else.
fn write_pid(file: &File) -> std::io::Result<()> {
    let pid = std::process::id().to_string();
    file.write_all_at(pid.as_bytes(), 0)?;
    file.set_len(pid.len() as u64)
}

fn lock(path: &Path) -> Result<LockedFile, Failure> {
    let doing = || format!("use the data directory {}", path.display());
    let lock = path.join("lock");
    let mut file =
        File::options().create(true).read(true).write(true).truncate(false).open(lock).doing(doing)?;
    let deadline = Instant::now() + LOCK_WAIT_MAX;
    loop {
        match file.try_lock() {
            Ok(()) => {
                if let Err(error) = write_pid(&file) {
                    tracing::warn!(%error, "whoever finds the data directory locked is not told by which process");
                }
                return Ok(LockedFile(file));
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(Failure::new(doing(), error)),
        }
        if Instant::now() > deadline {
            let mut pid = String::new();
            file.read_to_string(&mut pid).doing(doing)?;
            return Err(Failure::other(doing(), format!("it is used by the agent with pid {pid}")));
        }
        sleep(Duration::from_millis(10));
    }
}

/// A number for what is to differ from others, and need not be secret; 0 where there is no randomness.
pub(crate) fn random_number() -> u64 {
    random(8).ok().and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

pub(crate) fn random(bytes: usize) -> Result<Vec<u8>, Failure> {
    let mut out = vec![0; bytes];
    let source = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut out));
    source.doing(|| "read random bytes".into())?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_identity_and_counts_its_starts() {
        let dir = tempfile::tempdir().expect("a directory");
        let open = || DataDir::open(dir.path()).expect("open").identify().expect("an identity");
        let (first, second) = (open(), open());
        assert_ne!(first.0.instance, second.0.instance, "each start is another agent");
        assert_eq!((AgentIdentity { instance: second.0.instance, ..first.0 }, first.1 + 1), second);
        let mode = dir.path().join("node").metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn servers_are_known_after_a_restart_and_damage_is_no_reason_not_to_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = DataDir::open(dir.path()).expect("open");
        assert_eq!(data.servers(), ServersRecord::default());
        let known = |addresses: &[&str]| ServersRecord {
            addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
            revoked: vec![RevokedServer { name: "s1".into(), at_secs: 7 }],
        };
        data.write_servers(&known(&["a:1", "b:2"]));
        assert_eq!(data.servers(), known(&["a:1", "b:2"]));
        let file = dir.path().join(SERVERS_RECORD);
        let mut bytes = fs::read(&file).expect("bytes");
        *bytes.last_mut().expect("some") ^= 1;
        fs::write(&file, bytes).expect("written");
        assert_eq!(data.servers(), ServersRecord::default());
        data.write_servers(&known(&["c:3"]));
        assert_eq!(data.servers(), known(&["c:3"]));
    }

    #[test]
    fn a_data_directory_has_one_user() {
        let dir = tempfile::tempdir().expect("a directory");
        let _first = DataDir::open(dir.path()).expect("open");
        let refusal = DataDir::open(dir.path()).expect_err("in use").to_string();
        assert!(
            refusal.ends_with(&format!("it is used by the agent with pid {}", std::process::id())),
            "{refusal}"
        );
    }
}
