//! Removes empty cgroups that are left because their keeper was killed, or because the OCI runtime did not remove them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::group::Cgroup;
use super::{DIR, mounts};
use crate::mountinfo;

/// How long one must have been empty: whoever makes one puts a process into it at once.
const EMPTY_FOR: Duration = Duration::from_secs(60);
/// As many are removed at a start.
const LEFTOVERS_MAX: usize = 100_000;

/// Empty ones, by where they are, and which directories those were.
type EmptyCgroups = BTreeMap<PathBuf, u64>;

/// Removes those of Berth's in which nothing runs; nothing else touches them. Blocks.
pub(crate) async fn remove_leftovers() {
    let mounted = mountinfo::read().unwrap_or_default();
    let dirs: Vec<PathBuf> = mounts::all(&mounted).iter().map(|found| found.mount.join(DIR)).collect();
    let Ok((empty, dirs)) = tokio::task::spawn_blocking(move || (find(&dirs), dirs)).await else { return };
    if empty.is_empty() {
        return;
    }
    tokio::time::sleep(EMPTY_FOR).await;
    let removed = tokio::task::spawn_blocking(move || remove(&empty, &find(&dirs))).await;
    if let Ok(count @ 1..) = removed {
        tracing::info!(count, "removed cgroups in which nothing runs any more");
    }
}

fn find(dirs: &[PathBuf]) -> EmptyCgroups {
    let entries = dirs.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let empty = dirs.map(|entry| entry.path()).filter(|dir| Cgroup::at(dir).is_empty());
    empty.filter_map(|dir| inode(&dir).map(|inode| (dir, inode))).take(LEFTOVERS_MAX).collect()
}

/// Removes those that were empty before and are now; how many.
fn remove(before: &EmptyCgroups, now: &EmptyCgroups) -> usize {
    let same = now.iter().filter(|(dir, inode)| before.get(*dir) == Some(inode));
    same.filter(|(dir, _)| Cgroup::at(dir).try_remove()).count()
}

fn inode(dir: &Path) -> Option<u64> {
    fs::symlink_metadata(dir).ok().map(|found| found.ino())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::process::Pid;

    use super::*;

    #[test]
    fn what_is_empty_goes_and_what_runs_stays() {
        for found in mounts::candidates(&mountinfo::read().expect("mounts")) {
            let dir = found.mount.join("berth").join(format!("test-leftovers-{}", std::process::id()));
            let [left, used, fresh] = ["left/within", "used", "fresh"].map(|name| Cgroup::at(dir.join(name)));
            if left.make().and_then(|()| used.make()).is_err() {
                continue;
            }
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("a process");
            used.join(Pid::from_child(&child)).expect("joined");
            let dirs = [dir.clone()];
            let before = find(&dirs);
            fresh.make().expect("made");
            assert_eq!(remove(&before, &find(&dirs)), 1);
            let exists = [&dir.join("left"), used.path(), fresh.path()].map(|dir| dir.exists());
            assert_eq!(exists, [false, true, true]);
            drop(child.stdin.take());
            child.wait().expect("an end");
            assert!(Cgroup::at(&dir).end());
        }
    }
}
