//! `berth operator snapshot save`: saves the state to a file.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::{Args, ValueHint};
use tempfile::NamedTempFile;

use super::read;
use crate::{
    failure::{Exit, Failure},
    output::{self, now_ns, rfc3339},
    remote::Remote,
};

/// Arguments of `operator snapshot save`.
#[derive(Debug, Args)]
pub struct SnapshotSaveArgs {
    /// File to write, which must not exist yet; defaults to `berth-TIME.snap`
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
}

impl SnapshotSaveArgs {
    /// Saves it, checks what was saved, and only then gives it its name.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let time = rfc3339(now_ns()).replace(':', "");
        let path = self.file.clone().unwrap_or_else(|| format!("berth-{time}.snap").into());
        if path.exists() {
            let message = format!("{} is there already: name another file", path.display());
            return Err(Failure::new(Exit::Usage, message));
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let unwritable = |error: io::Error| {
            Failure::new(Exit::Failed, format!("cannot write into the directory {}: {error}", dir.display()))
        };
        let mut file = dir.metadata().and_then(|_| NamedTempFile::new_in(dir)).map_err(unwritable)?;
        let mut bytes = remote.snapshot().await?;
        while let Some(piece) = bytes.next().await? {
            file.write_all(&piece)?;
        }
        let store = read(file.path())?;
        file.as_file().sync_all()?;
        file.persist_noclobber(&path).map_err(|error| error.error)?;
        output::eprint_line(&format!(
            "the state at index {} is saved; look at it, or put it back:",
            store.index()
        ));
        let shown = path.display();
        output::eprint_line(&format!("next: berth operator snapshot inspect {shown}"));
        output::eprint_line(&format!("next: berth operator snapshot restore {shown}"));
        Ok(output::print(&format!("{shown}\n"))?)
    }
}
