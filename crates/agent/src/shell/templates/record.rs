//! The record of a task's templates for the next agent: in the keeper's directory, and without anything secret.

use std::path::Path;

use berth_api::agent::VariableQuery;

use crate::disk;
use crate::failure::Failure;

const NAME: &str = "templates";

/// How far the templates of one start of a task have come.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct TemplatesRecord {
    /// The start of the task that this is about.
    #[prost(uint32, tag = "1")]
    pub(super) attempt: u32,
    /// What they asked for.
    #[prost(message, repeated, tag = "2")]
    pub(super) requested: Vec<VariableQuery>,
    /// Names what a server answered to that; the files show it.
    #[prost(bytes = "vec", tag = "3")]
    pub(super) seen: Vec<u8>,
    /// The index of that answer.
    #[prost(uint64, tag = "4")]
    pub(super) index: u64,
    /// Those whose files were written again, and of which the task has not noticed yet.
    #[prost(uint32, repeated, tag = "5")]
    pub(super) unnotified: Vec<u32>,
    /// Those whose files were about to be written, and may have been.
    #[prost(uint32, repeated, tag = "6")]
    pub(super) uncertain: Vec<u32>,
}

impl TemplatesRecord {
    pub(super) fn read(dir: &Path, attempt: u32) -> Option<Self> {
        let record: Option<Self> = disk::read(dir, NAME).ok().flatten();
        record.filter(|record| record.attempt == attempt)
    }

    /// The index of the last answer that the templates of any start had.
    pub(super) fn last_index(dir: &Path) -> u64 {
        let record: Option<Self> = disk::read(dir, NAME).ok().flatten();
        record.map_or(0, |record| record.index)
    }

    /// Writes the record of a start, and syncs it: after a crash of the machine no older data may be shown.
    pub(super) fn write(&self, dir: &Path) -> Result<(), Failure> {
        disk::write(dir, NAME, self)
    }

    /// Writes the record of a change, without a sync: it is for a later agent, and useless once the machine has crashed and the task is gone.
    pub(super) fn write_unsynced(&self, dir: &Path) -> Result<(), Failure> {
        disk::write_unsynced(dir, NAME, self)
    }
}
