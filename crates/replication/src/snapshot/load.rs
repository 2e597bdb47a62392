//! Finds the snapshot to begin with.

use std::path::Path;

use berth_model::store::Store;

use super::{Image, Meta, covered, file};
use crate::{
    OpenError,
    disk::{Disk, checked},
    error::Damage,
    types::LogId,
};

/// Where to begin.
#[derive(Default)]
pub(crate) struct Loaded {
    /// The state, empty without a snapshot.
    pub store: Store,
    /// What it covers.
    pub meta: Option<Meta>,
    /// The snapshots that are there, oldest first.
    pub images: Vec<Image>,
}

/// Loads the newest snapshot in `dir`. Falls back to an older one only if the log still has every record that follows
/// it: `log_ends` are its last purged and its last record.
///
/// # Errors
/// When there is no snapshot from which the log leads to the newest state.
pub(crate) fn load(
    disk: &dyn Disk,
    dir: &Path,
    log_ends: (Option<LogId>, Option<LogId>),
) -> Result<Loaded, OpenError> {
    disk.create_dir(dir).map_err(OpenError::write(dir))?;
    let names = tidy(disk, dir)?;
    let mut loaded = Loaded::default();
    let mut damage = None;
    let newest = names.last().and_then(|name| covered(name)).map_or(0, |(index, _)| index);
    for name in names.iter().rev() {
        let path = dir.join(name);
        match file::read(disk, &path) {
            Ok((meta, store)) => {
                if loaded.meta.is_none() {
                    loaded.store = store;
                    loaded.meta = Some(meta.clone());
                }
                loaded.images.insert(0, Image { path, meta });
            }
            Err(OpenError::Damaged(found)) if leads_from(log_ends, name, newest) => {
                set_aside(disk, dir, &found)?;
            }
            Err(error) => damage = damage.or(Some(error)),
        }
    }
    check(dir, log_ends, newest, damage, loaded)
}
