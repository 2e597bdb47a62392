//! `berth operator snapshot`: snapshots of the whole state as files.

mod inspect;
mod restore;
mod save;

use std::{fs::File, path::Path};

use berth_model::store::{Store, snapshot};
use clap::Subcommand;

use crate::{
    failure::{Exit, Failure},
    global::Global,
    remote::block_on,
};

/// What can be done with snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Save the state of the cluster to a file
    Save(save::SnapshotSaveArgs),
    /// Replace the state of the cluster with a saved one
    Restore(restore::SnapshotRestoreArgs),
    /// Check a saved state, and say what is in it
    Inspect(inspect::SnapshotInspectArgs),
}

impl SnapshotCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            Self::Save(save) => block_on(save.run(&global.remote()?)),
            Self::Restore(restore) => block_on(restore.run(&global.remote()?)),
            Self::Inspect(inspect) => inspect.run(),
        }
    }
}

/// Reads a saved state and checks every byte of it.
fn read(path: &Path) -> Result<Store, Failure> {
    let failed = |reason: String| Failure::new(Exit::Failed, format!("{}: {reason}", path.display()));
    let mut file = File::open(path).map_err(|error| failed(error.to_string()))?;
    snapshot::read(&mut file).map_err(|error| failed(error.to_string()))
}
