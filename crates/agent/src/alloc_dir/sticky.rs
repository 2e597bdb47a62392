//! Files that an allocation takes over from its predecessor on the same node (`sticky`): the shared `data`, and each task's `local`.

use std::fs;
use std::io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotFound};
use std::path::Path;

use crate::failure::{Failure, FailureContext};
use crate::paths::AllocPaths;

/// Moves what the tasks share, and what is one task's own, from the latest of the predecessors that has it: one that never
/// started has not. They have ended. What was moved before is not there any more, so that this may be done again by an agent
/// that was ended meanwhile; and it is done before anything is made, so that what is moved comes first.
pub(super) fn take_over<'a>(
    previous: impl Iterator<Item = AllocPaths>,
    own: &AllocPaths,
    tasks: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), Failure> {
    let data = |of: &AllocPaths| of.shared_dir().join("data");
    for previous in previous {
        replace(&data(&previous), &data(own))?;
        for task in tasks.clone() {
            let local = |of: &AllocPaths| of.task_dir(task).join("local");
            replace(&local(&previous), &local(own))?;
        }
    }
    Ok(())
}

/// Puts a directory where there is none, or an empty one; what tasks have written already is left as it is.
fn replace(from: &Path, to: &Path) -> Result<(), Failure> {
    // What leads to either belongs to the agent: a link in the place of the directory itself is not followed.
    let is_dir = from.symlink_metadata().is_ok_and(|found| found.is_dir());
    if !is_dir {
        return Ok(());
    }
    match fs::rename(from, to) {
        // It was moved before, or tasks have written.
        Err(error) if matches!(error.kind(), NotFound | DirectoryNotEmpty | AlreadyExists) => Ok(()),
        moved => moved.doing(|| format!("take over {}", from.display())),
    }
}

#[cfg(test)]
mod tests {
    use berth_api::agent::AllocId;

    use super::*;

    #[test]
    fn data_moves_once_from_the_latest_who_has_it_and_replaces_nothing() {
        let temp = tempfile::tempdir().expect("a directory");
        let paths = |number| AllocPaths::new(temp.path(), AllocId([number; 16]));
        let (oldest, waited, own) = (paths(1), paths(2), paths(3));
        let data = |of: &AllocPaths| of.shared_dir().join("data");
        let local = |of: &AllocPaths| of.task_dir("web").join("local");
        fs::create_dir_all(data(&oldest)).expect("made");
        fs::create_dir_all(local(&oldest)).expect("made");
        fs::write(data(&oldest).join("rows"), "rows").expect("written");
        fs::write(local(&oldest).join("page"), "page").expect("written");
        // The successor's own directories are there, and one has been written to; the one in between never started.
        fs::create_dir_all(data(&own)).expect("made");
        fs::create_dir_all(local(&own)).expect("made");
        fs::write(local(&own).join("mine"), "mine").expect("written");
        for _ in 0..2 {
            let line = [waited.clone(), oldest.clone()];
            take_over(line.into_iter(), &own, ["web", "other"].into_iter()).expect("taken over");
            assert_eq!(fs::read(data(&own).join("rows")).expect("a file"), b"rows");
            assert!(!local(&own).join("page").exists(), "what is there stays as it is");
            assert!(local(&own).join("mine").exists());
        }
    }
}
