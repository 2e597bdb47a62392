//! The disk space of deleted files that processes of an allocation still have open or mapped. None of them is opened for that: the
//! links in `/proc/PID/fd` and `/proc/PID/map_files` are read.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FsWord, statfs};

/// Open files and mappings of all processes of an allocation: to look at them takes about half a second.
const LOOKED_AT_MAX: usize = 100_000;

/// How much of a process's list of mappings is read.
const MAPS_BYTES_MAX: u64 = 1 << 20;

/// What the kernel appends to the path of a file that has none any more.
const DELETED: &[u8] = b" (deleted)";

/// The kernel's number of filesystems that lay directories over one another: the root of a container is one.
const OVERLAY: FsWord = 0x794c_7630;

/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// The processes of a task, and which files are its allocation's, as they see them.
pub(crate) struct Holder {
    pub(crate) pids: Vec<i32>,
    /// The allocation's directories.
    pub(crate) dirs: Vec<PathBuf>,
    /// Of a container, when it was started, in seconds since the Unix epoch: what was changed since in its root lies in its own
    /// writable layer, and what was not may be a file of its image. None for a process of the host.
    pub(crate) began_s: Option<i64>,
}

/// Bytes that these hold on the disk `device`, each file once. Blocks.
pub(crate) fn held_bytes(holders: &[Holder], device: u64) -> u64 {
    let (mut bytes, mut seen) = (0_u64, HashSet::new());
    let links = holders.iter().flat_map(|holder| {
        let dirs = holder.pids.iter().flat_map(|pid| {
            let mapped = may_map_deleted(*pid).then(|| format!("/proc/{pid}/map_files"));
            std::iter::once(format!("/proc/{pid}/fd")).chain(mapped)
        });
        // A process that has ended meanwhile holds nothing.
        dirs.flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten()).map(move |link| (holder, link))
    });
    for (holder, link) in links.take(LOOKED_AT_MAX) {
        if let Some(found) = holder.held(&link, device)
            && seen.insert((found.dev(), found.ino()))
        {
            bytes = bytes.saturating_add(found.blocks().saturating_mul(BLOCK_BYTES));
        }
    }
    bytes
}

/// Whether a process may have a file mapped that has no name any more. Its list of mappings is read in a fraction of the time
/// that the links of all of them take, of which few processes have any that matter.
fn may_map_deleted(pid: i32) -> bool {
    let mut list = Vec::new();
    let opened = File::open(format!("/proc/{pid}/maps"));
    match opened.and_then(|file| file.take(MAPS_BYTES_MAX).read_to_end(&mut list)) {
        Ok(read) if (read as u64) < MAPS_BYTES_MAX => {
            list.split(|byte| *byte == b'\n').any(|line| line.ends_with(DELETED))
        }
        Ok(_) | Err(_) => true,
    }
}

impl Holder {
    /// The file behind a link, if it is one of those.
    fn held(&self, link: &DirEntry, device: u64) -> Option<Metadata> {
        let path = link.path();
        let target = fs::read_link(&path).ok()?.into_os_string().into_vec();
        let target = Path::new(OsStr::from_bytes(target.strip_suffix(DELETED)?));
        let found = fs::metadata(&path).ok()?;
        if !found.is_file() || found.nlink() > 0 {
            return None;
        }
        let is_own = if found.dev() == device {
            self.dirs.iter().any(|dir| target.starts_with(dir))
        } else {
            self.began_s.is_some_and(|began_s| found.ctime() >= began_s)
                && statfs(&path).is_ok_and(|found| found.f_type == OVERLAY)
        };
        is_own.then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn files_without_names_count_once_and_no_others_do() {
        let (dir, other) = (
            tempfile::tempdir_in("/var/tmp").expect("made"),
            tempfile::tempdir_in("/var/tmp").expect("made"),
        );
        let device = dir.path().metadata().expect("a directory").dev();
        let holder = |began_s| {
            let (pids, dirs) = (vec![std::process::id() as i32], vec![dir.path().to_owned()]);
            [Holder { pids, dirs, began_s }]
        };
        let file = |dir: &Path, name: &str| {
            let mut file = File::create_new(dir.join(name)).expect("made");
            file.write_all(&vec![1; MIB as usize]).and_then(|()| file.sync_all()).expect("written");
            file
        };
        let held = || held_bytes(&holder(None), device);
        let (one, beside) = (file(dir.path(), "one"), file(other.path(), "beside"));
        assert_eq!(held(), 0, "they have names");
        fs::hard_link(dir.path().join("one"), dir.path().join("again")).expect("linked");
        for path in [dir.path().join("one"), other.path().join("beside")] {
            fs::remove_file(path).expect("removed");
        }
        assert_eq!(held(), 0, "it has another name, and the other is not the allocation's");
        let twice = one.try_clone().expect("opened");
        fs::remove_file(dir.path().join("again")).expect("removed");
        assert!((MIB..MIB + 65_536).contains(&held()), "{}", held());
        assert_eq!(held_bytes(&holder(Some(0)), device), held(), "this disk is no layer");
        assert_eq!(held_bytes(&holder(None), device + 1), 0, "of another disk");
        drop((one, twice, beside));
        assert_eq!(held(), 0);
    }
}
