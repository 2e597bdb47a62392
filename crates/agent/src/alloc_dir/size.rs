//! The disk space of an allocation's files. Its tasks may change them while they are counted, and put anything there: no symlink is
//! followed, and nothing that is mounted is counted.

use std::collections::HashSet;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir as Entries, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat,
};
use rustix::io::{Errno, Result};

/// Directories that lie in each other: each is held open.
const DEPTH_MAX: usize = 128;

/// Files and directories of one allocation: to count them takes about 2 s.
const FILES_MAX: usize = 1_000_000;

/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// What the files of an allocation take of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// So many bytes; what is linked several times counts once.
    Bytes(u64),
    /// More than can be counted.
    TooMany,
    /// Directories lie deeper in each other than can be followed.
    TooDeep,
}

impl Size {
    /// With bytes that were counted elsewhere.
    pub(crate) fn and(self, more: u64) -> Self {
        if let Self::Bytes(bytes) = self { Self::Bytes(bytes.saturating_add(more)) } else { self }
    }

    /// The bytes that could be counted.
    pub(crate) fn bytes(self) -> u64 {
        if let Self::Bytes(bytes) = self { bytes } else { 0 }
    }

    /// Why that is more than `limit_mb` MiB beyond what was `left` by tasks that have ended; none when it is not. Of it are so
    /// many bytes `deleted`, and held open.
    pub(crate) fn excess(self, limit_mb: u32, left: u64, deleted: u64) -> Option<String> {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        match self {
            Self::Bytes(bytes) if bytes > left.saturating_add(u64::from(limit_mb) << 20) => {
                let open = if deleted == 0 {
                    String::new()
                } else {
                    format!(" ({} MiB of it in files that are deleted and still open)", mib(deleted))
                };
                let taken = mib(bytes);
                let left = if left == 0 {
                    String::new()
                } else {
                    format!(" and the {} MiB that were there when its poststop tasks began", mib(left))
                };
                Some(format!(
                    "The allocation's files take {taken} MiB{open}, more than the {limit_mb} MiB of its ephemeral_disk{left}"
                ))
            }
            Self::Bytes(_) => None,
            Self::TooMany => Some(format!("The allocation has more than {FILES_MAX} files")),
            Self::TooDeep => {
                Some(format!("The allocation's directories lie more than {DEPTH_MAX} deep in each other"))
            }
        }
    }
}

/// Counts what is below `root`, which only the agent's user can replace. Blocks.
pub(crate) fn measure(root: &Path) -> Result<Size> {
    measure_within(root, DEPTH_MAX, FILES_MAX)
}

fn measure_within(root: &Path, depth_max: usize, files_max: usize) -> Result<Size> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, root, flags, Mode::empty())?;
    let device = fstat(&root)?.st_dev;
    let (mut bytes, mut files, mut linked) = (0_u64, 0, HashSet::new());
    let mut open = vec![Entries::new(root)?];
    while let Some(dir) = open.last_mut() {
        let Some(entry) = dir.read() else {
            open.pop();
            continue;
        };
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let dir = dir.fd()?;
        let found = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if found.st_dev == device => found,
            Ok(_) | Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno),
        };
        files += 1;
        if files > files_max {
            return Ok(Size::TooMany);
        }
        let is_dir = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        if is_dir || found.st_nlink < 2 || linked.insert(found.st_ino) {
            bytes = bytes.saturating_add(taken(&found));
        }
        if is_dir {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
            match openat2(dir, name, flags, Mode::empty(), resolve) {
                Ok(_) if open.len() >= depth_max => return Ok(Size::TooDeep),
                Ok(inner) => open.push(Entries::new(inner)?),
                // A task has put something else in its place meanwhile, or something is mounted there.
                Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(Size::Bytes(bytes))
}

fn taken(found: &Stat) -> u64 {
    u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_linked_counts_once_and_links_lead_nowhere() {
        let (dir, outside) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        fs::write(outside.path().join("large"), vec![1; 4 << 20]).expect("written");
        let bytes = |dir: &Path| match measure(dir).expect("measured") {
            Size::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        };
        fs::create_dir_all(dir.path().join("a/b/c")).expect("made");
        let empty = bytes(dir.path());
        fs::write(dir.path().join("a/b/c/file"), vec![1; 1 << 20]).expect("written");
        fs::hard_link(dir.path().join("a/b/c/file"), dir.path().join("again")).expect("linked");
        symlink(outside.path(), dir.path().join("a/out")).expect("linked");
        let taken = bytes(dir.path()) - empty;
        assert!((1 << 20..2 << 20).contains(&taken), "{taken}");
        // A hole takes nothing.
        fs::File::create(dir.path().join("hole")).and_then(|file| file.set_len(1 << 30)).expect("made");
        assert!(bytes(dir.path()) - empty < 2 << 20);
    }

    #[test]
    fn neither_depth_nor_number_is_without_end() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(dir.path().join("a/b/c")).expect("made");
        let within = |depth, files| measure_within(dir.path(), depth, files).expect("measured");
        assert_eq!(within(3, 9), Size::TooDeep);
        assert_eq!(within(4, 2), Size::TooMany);
        assert!(matches!(within(4, 3), Size::Bytes(_)));
    }

    #[test]
    fn the_reason_says_by_how_much_a_limit_is_exceeded() {
        assert_eq!(Size::Bytes(10 << 20).excess(10, 0, 0), None);
        let message = Size::Bytes((10 << 20) + 1).excess(10, 0, 0).expect("too much");
        assert!(message.contains("take 11 MiB, more than the 10 MiB"), "{message}");
        let message = Size::Bytes(8 << 20).and(3 << 20).excess(10, 0, 3 << 20).expect("too much");
        assert!(
            message.contains("take 11 MiB (3 MiB of it in files that are deleted and still open)"),
            "{message}"
        );
        assert!(Size::TooMany.and(1).excess(10, 0, 1).is_some() && Size::TooDeep.excess(10, 0, 0).is_some());
        // What cleans up may take as much again.
        assert_eq!(Size::Bytes(40 << 20).excess(10, 30 << 20, 0), None);
        let message = Size::Bytes((40 << 20) + 1).excess(10, 30 << 20, 0).expect("too much");
        assert!(message.contains("of its ephemeral_disk and the 30 MiB that were there"), "{message}");
    }

    #[test]
    fn no_race_with_a_link_counts_what_lies_elsewhere() {
        let race = crate::races::Race::new();
        race.run(|_| {
            let size = measure(&race.root());
            assert!(!matches!(size, Ok(Size::Bytes(bytes)) if bytes > 1 << 20), "{size:?}");
            size.is_ok()
        });
    }
}
