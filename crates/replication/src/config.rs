//! What a server must be given to keep its part of the log.

use std::path::PathBuf;

use berth_model::command::ENTRY_VERSION;

use crate::{Peer, peer::Peers, runtime::Runtime};

/// Log records between snapshots when nothing else is said.
pub const SNAPSHOT_ENTRIES_DEFAULT: u64 = 20_000;

/// Whose log this is, and where it lies.
#[derive(Debug, Clone)]
pub struct Config {
    /// Holds everything; made when it is not there. Should be on a disk, see [`crate::is_memory_backed`].
    pub data_dir: PathBuf,
    /// Unique in the cluster, and forever the same in this directory.
    pub server_id: u64,
    /// A directory of one cluster is not opened for another.
    pub cluster_name: String,
    /// Log records between snapshots, at least 1. Fewer when they are large, more when a snapshot would be larger than
    /// what was logged since the last one. What two snapshots have covered is removed from the log.
    pub snapshot_entries: u64,
    /// The newest version of entries that this server applies: less than [`ENTRY_VERSION`] for one that is to do as an older
    /// Berth does.
    pub entries: u8,
}

impl Config {
    /// The first server of a cluster.
    pub fn new(data_dir: impl Into<PathBuf>, cluster_name: &str) -> Self {
        Self {
            data_dir: data_dir.into(),
            server_id: 1,
            cluster_name: cluster_name.to_owned(),
            snapshot_entries: SNAPSHOT_ENTRIES_DEFAULT,
            entries: ENTRY_VERSION,
        }
    }
}

/// How a server begins whose directory is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It founds a cluster of which it is the only server.
    Found,
    /// It waits until a cluster takes it in, or it is asked to found one with others.
    Wait,
}

/// What makes a server one of several.
pub struct ClusterConfig<R: Runtime> {
    /// The ways to the others.
    pub peers: Peers<R>,
    /// How the others know this server.
    pub own: Peer,
    /// How it begins.
    pub start: Start,
}
