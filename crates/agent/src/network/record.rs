//! The record of a network: on disk before anything of it is made, and until all of it is removed.

use std::fs;
use std::path::{Path, PathBuf};

use berth_api::agent::AllocId;

use super::NetworkKey;
use crate::disk;
use crate::failure::{Failure, FailureContext};

/// A network of an allocation, or its ports in the host's.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NetworkRecord {
    /// The id of the allocation.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
    /// Which of its tasks alone has it, counted from 1; 0 for all of them.
    #[prost(uint32, tag = "2")]
    pub task: u32,
    /// Its address, counted from the subnet's first; 0 where the ports are those of its tasks in the host's network.
    #[prost(uint32, tag = "3")]
    pub offset: u32,
    /// Ports of the host that lead into it.
    #[prost(message, repeated, tag = "4")]
    pub mappings: Vec<Mapping>,
}

/// A port of the host that leads into a network, TCP and UDP.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Mapping {
    /// What the job calls it.
    #[prost(string, tag = "1")]
    pub label: String,
    /// The host's address.
    #[prost(string, tag = "2")]
    pub host_ip: String,
    /// The host's port.
    #[prost(uint32, tag = "3")]
    pub host_port: u32,
    /// The port within the network.
    #[prost(uint32, tag = "4")]
    pub port: u32,
}

impl NetworkRecord {
    pub(super) fn new((alloc, task): NetworkKey, offset: u32, mappings: Vec<Mapping>) -> Self {
        let task = task.map_or(0, |task| u32::from(task) + 1);
        Self { alloc_id: alloc.0.to_vec(), task, offset, mappings }
    }

    fn key(&self) -> Option<NetworkKey> {
        let task = match self.task {
            0 => None,
            task => Some(u16::try_from(task - 1).ok()?),
        };
        Some((AllocId::from_slice(&self.alloc_id)?, task))
    }
}

/// The directory of all of them.
#[derive(Debug)]
pub(super) struct Records(PathBuf);

impl Records {
    pub(super) fn open(data_dir: &Path) -> Result<Self, Failure> {
        let dir = data_dir.join("networks");
        crate::shell::make_dir(&dir, 0o700)?;
        Ok(Self(dir))
    }

    pub(super) fn write(&self, key: NetworkKey, record: &NetworkRecord) -> Result<(), Failure> {
        disk::write(&self.0, &name(key), record)
    }

    pub(super) fn remove(&self, key: NetworkKey) -> Result<(), Failure> {
        match fs::remove_file(self.0.join(name(key))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::new(format!("remove the record {}", name(key)), error))
            }
            _ => Ok(()),
        }
    }

    /// Those that can be read. Of others nothing is known: what they stand for is removed as nobody's.
    pub(super) fn read_all(&self) -> Result<Vec<(NetworkRecord, NetworkKey)>, Failure> {
        let doing = || format!("list {}", self.0.display());
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.0).doing(doing)? {
            let name = entry.doing(doing)?.file_name().to_string_lossy().into_owned();
            let record =
                if name.ends_with(".new") { Ok(None) } else { disk::read::<NetworkRecord>(&self.0, &name) };
            match record {
                Ok(Some(record)) if record.key().is_some_and(|key| self::name(key) == name) => {
                    found.extend(record.key().map(|key| (record.clone(), key)));
                }
                Err(failure) if failure.is_newer() => return Err(failure),
                Ok(_) => drop(fs::remove_file(self.0.join(name))),
                Err(failure) => {
                    tracing::error!(%failure, "removed a record of an allocation's network that cannot be read");
                    let _ = fs::remove_file(self.0.join(name));
                }
            }
        }
        Ok(found)
    }
}

fn name((alloc, task): NetworkKey) -> String {
    task.map_or(alloc.to_string(), |task| format!("{alloc}-{task}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_is_damaged_goes() {
        let dir = tempfile::tempdir().expect("a directory");
        let records = Records::open(dir.path()).expect("open");
        let keys: [NetworkKey; 2] = [(AllocId([1; 16]), None), (AllocId([1; 16]), Some(3))];
        for (key, offset) in keys.into_iter().zip(5..) {
            records.write(key, &NetworkRecord::new(key, offset, Vec::new())).expect("written");
        }
        fs::write(dir.path().join("networks/odd"), "x").expect("written");
        fs::copy(dir.path().join("networks").join(name(keys[0])), dir.path().join("networks/copy"))
            .expect("copied");
        let mut found: Vec<_> =
            records.read_all().expect("read").into_iter().map(|(r, key)| (key, r.offset)).collect();
        found.sort_unstable();
        assert_eq!(found, [(keys[0], 5), (keys[1], 6)]);
        assert_eq!(fs::read_dir(dir.path().join("networks")).expect("listed").count(), 2);
        records.remove(keys[0]).and_then(|()| records.remove(keys[0])).expect("removed");
        assert_eq!(records.read_all().expect("read").len(), 1);
    }
}
