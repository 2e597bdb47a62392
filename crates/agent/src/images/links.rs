//! Which layers an allocation needs for as long as it lives: links in the directory of each task's keeper. Those of a
//! container's own bundle go with the container, which between two starts of its task is not there.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, FailureContext};

/// Below the keeper's directory.
const LINKS_DIR: &str = "image";

/// Where the links of a task's image are.
pub(super) fn links_dir(keeper_dir: &Path) -> PathBuf {
    keeper_dir.join(LINKS_DIR)
}

/// Keeps these layers for the task, and no longer those of the image that it had before. The caller has a lease on them.
pub(crate) fn hold(keeper_dir: &Path, layers: &[PathBuf]) -> Result<(), Failure> {
    let links = links_dir(keeper_dir);
    let doing = || format!("note the image's layers in {}", links.display());
    remove(&links).doing(doing)?;
    fs::create_dir_all(&links).doing(doing)?;
    (0..)
        .zip(layers)
        .try_for_each(|(number, layer)| symlink(layer, links.join(number.to_string())))
        .doing(doing)
}

/// Lets go of the layers of all tasks of an allocation, whose keepers' directories are in `keepers`.
pub(crate) fn release(keepers: &Path) -> Result<(), Failure> {
    for keeper in keepers.read_dir().into_iter().flatten().flatten() {
        let links = links_dir(&keeper.path());
        remove(&links).doing(|| format!("remove {}", links.display()))?;
    }
    Ok(())
}

fn remove(dir: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
