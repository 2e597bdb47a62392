//! What is kept on disk of a task's templates, for the agent that comes after: in the keeper's directory, and nothing in it is secret.

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

    /// Of a start: what was shown before the machine crashed is the least that is shown after.
    pub(super) fn write(&self, dir: &Path) -> Result<(), Failure> {
        disk::write(dir, NAME, self)
    }

    /// Of a change: of use to an agent that comes after, and to nobody once the task is gone with its machine.
    pub(super) fn write_unsynced(&self, dir: &Path) -> Result<(), Failure> {
        disk::write_unsynced(dir, NAME, self)
    }
}
