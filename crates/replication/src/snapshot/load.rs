//! Finds the snapshot to begin with.

use std::path::{Path, PathBuf};

use berth_model::store::Store;

use super::{SnapshotCoverage, SnapshotFile, SnapshotImage, file};
use crate::{
    OpenError,
    disk::{Disk, checked},
    error::Damage,
    types::LogId,
};

/// The state from which the log is replayed.
#[derive(Default)]
pub(crate) struct LoadedState {
    /// The state, empty without a snapshot.
    pub store: Store,
    /// Where it comes from.
    pub image: Option<SnapshotImage>,
    /// The snapshots that are there, oldest first.
    pub files: Vec<SnapshotFile>,
}

/// The records that the log has.
#[derive(Debug, Clone, Copy)]
struct LogSpan {
    /// The first.
    first: u64,
    /// One more than the last.
    end: u64,
}

/// Loads the newest snapshot in `dir`. Falls back to what came before it only if the log, whose last purged and last
/// record are given, still has every record that follows.
///
/// # Errors
/// When there is no snapshot from which the log leads to the newest state.
pub(crate) fn load(
    disk: &dyn Disk,
    dir: &Path,
    log_ends: (Option<LogId>, Option<LogId>),
) -> Result<LoadedState, OpenError> {
    disk.create_dir(dir).map_err(OpenError::write(dir))?;
    let next = |id: Option<LogId>| id.map_or(0, |id| id.index() + 1);
    let reach = LogSpan { first: next(log_ends.0), end: next(log_ends.1) };
    let mut files = tidy(disk, dir)?;
    let newest_end = files.last().map_or(0, |newest| newest.index + 1);
    while let Some(newest) = files.last() {
        match file::read(disk, &newest.path) {
            Ok((meta, store)) => {
                let path = newest.path.clone();
                check(&path, &meta, reach)?;
                return Ok(LoadedState { store, image: Some(SnapshotImage { path, meta }), files });
            }
            Err(OpenError::Damaged(damage)) => {
                let before = files.iter().rev().nth(1).map_or(0, |older| older.index + 1);
                if reach.first > before || reach.end < newest_end {
                    return Err(unreplaceable(damage, reach).into());
                }
                set_aside(disk, dir, &damage)?;
                files.pop();
            }
            Err(error) => return Err(error),
        }
    }
    if reach.first > 0 {
        let what = format!("there is no snapshot, and the log begins at record {}", reach.first);
        return Err(Damage::new(dir, what).into());
    }
    Ok(LoadedState::default())
}

/// Removes what an interrupted snapshot left, and lists the others, oldest first.
fn tidy(disk: &dyn Disk, dir: &Path) -> Result<Vec<SnapshotFile>, OpenError> {
    let mut files = Vec::new();
    for name in disk.list(dir).map_err(OpenError::read(dir))? {
        let path: PathBuf = dir.join(&name);
        if name.ends_with(".next") {
            disk.remove(&path).map_err(OpenError::write(&path))?;
        }
        files.extend(super::covered(&name).map(|index| SnapshotFile { index, path }));
    }
    files.sort_by_key(|files| files.index);
    Ok(files)
}

/// Checks that the log goes on where a snapshot ends.
fn check(path: &Path, meta: &SnapshotCoverage, reach: LogSpan) -> Result<(), Damage> {
    let end = meta.last.index() + 1;
    if reach.first > end {
        let what = format!("it ends at record {}, and the log begins at record {}", end - 1, reach.first);
        return Err(Damage::new(path, what));
    }
    // A server of several may be killed between taking in a leader's snapshot and forgetting its own log.
    let alone = meta.membership.voter_ids().count() == 1;
    if alone && reach.end < end {
        let what = format!("it ends at record {}, and the log already before record {}", end - 1, reach.end);
        return Err(Damage::new(path, what));
    }
    Ok(())
}

fn unreplaceable(damage: Damage, reach: LogSpan) -> Damage {
    let what = format!(
        "snapshot is damaged: {}; the log begins at record {} and cannot replace it",
        damage.what, reach.first
    );
    Damage { what, ..damage }
}

/// Keeps a damaged snapshot for whoever wants to know, under a name that is not looked for.
fn set_aside(disk: &dyn Disk, dir: &Path, damage: &Damage) -> Result<(), OpenError> {
    tracing::warn!(file = %damage.file.display(), what = damage.what, "the newest snapshot is damaged, the log has all that follows the one before it");
    let aside = checked::with_suffix(&damage.file, ".damaged");
    disk.rename(&damage.file, &aside).map_err(OpenError::write(&aside))?;
    disk.sync_dir(dir).map_err(OpenError::write(dir))
}
