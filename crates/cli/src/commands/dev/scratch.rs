//! The data directory of `berth dev`: one that stays, or a temporary one that is removed at its end.

use std::path::{Path, PathBuf};

use crate::{
    daemon,
    failure::{Exit, Failure},
};

/// Begins the name of a directory that goes away with its `berth dev`.
pub(super) const PREFIX: &str = "berth-dev-";

/// The data directory of `berth dev`.
pub(super) struct ScratchDir {
    path: PathBuf,
    temporary: bool,
}

impl ScratchDir {
    /// The given directory, or a fresh one.
    pub fn open(given: Option<&Path>) -> Result<Self, Failure> {
        match given {
            Some(path) => {
                daemon::is_directory(path)?;
                Ok(Self { path: path.to_owned(), temporary: false })
            }
            None => {
                // It is removed by hand, after the tasks: they may still live in it when something fails.
                let dir = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
                Ok(Self { path: dir.keep(), temporary: true })
            }
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it goes away.
    pub fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// Removes it if it is to go away.
    pub fn remove(self) -> Result<(), Failure> {
        if !self.temporary {
            return Ok(());
        }
        std::fs::remove_dir_all(&self.path).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot remove {}: {error}", self.path.display()))
        })
    }
}
