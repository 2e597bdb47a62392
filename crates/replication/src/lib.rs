//! The replicated log: what is proposed here is on disk, applied to the store and reported to the observer, or it is an
//! error. The only user of the consensus engine, and nothing of that engine shows through.
//!
//! - [`Replication`] is the handle: open it, propose entries, read behind a barrier.
//! - `log` keeps the records in segment files of our own format, and one writer syncs them.
//! - `machine` applies what is committed, in order, and `snapshot` keeps the store's images.
//! - [`peer`] is the way to other servers, through a port that knows no sockets.
//! - [`disk`] is the only way to files, so that tests can lose power; [`runtime`] the only one to threads and clocks.
//!
//! What lies in a data directory: `lock`; `server` (whose it is, and which version wrote it); `reserve` (space for a full
//! disk); `log/state` (vote and newest segment); `log/<first index>.log`; `snapshots/<last index>-<term>.snap`.

#[cfg(test)]
extern crate self as berth_replication;

mod cluster;
mod config;
mod departed;
pub mod disk;
mod era;
mod error;
mod handle;
mod leadership;
mod log;
mod machine;
mod membership;
mod memory_backed;
mod metrics;
mod observer;
mod open;
pub mod peer;
mod recover;
mod result_sender;
pub mod runtime;
mod server_file;
mod snapshot;
mod space;
mod sync_pace;
#[cfg(test)]
mod tests;
mod types;

pub use cluster::{ChangeError, ClusterMembers, Member, Progress};
pub use config::{ClusterConfig, Config, SNAPSHOT_ENTRIES_DEFAULT, Start};
pub use error::{
    Damage, NotWritten, OpenError, ProposeError, ReadError, ShutdownError, SnapshotError, UnknownOutcome,
};
pub use handle::{PROPOSALS_BYTES_MAX, Pending, Replication};
pub use log::SEGMENT_BYTES;
pub use memory_backed::is_memory_backed;
pub use metrics::{Metrics, SYNC_BOUNDS_US, SyncTimes};
pub use observer::{Leadership, Observer};
pub use recover::{Recovery, recover_alone};
pub use server_file::server_id;
pub use space::DiskFull;
pub use types::Peer;
