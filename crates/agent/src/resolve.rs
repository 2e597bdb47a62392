//! Paths that the kernel resolves beneath a directory, whatever links lie there.

use std::io;
use std::path::{Component, Path, PathBuf};

/// Symbolic links on the way to one file, as the kernel has it.
pub(crate) const SYMLINKS_MAX: usize = 40;

/// Tries before it is reported that something comes between again and again.
const TRIES_MAX: u32 = 10_000;

/// Opens a path with `openat2`, as often as it takes. Where the path or a link in it holds `..`, the kernel cannot know whether
/// it leads out if anything at all was renamed on the machine meanwhile, and gives up with `EAGAIN`.
///
/// # Errors
/// As of `openat2`.
pub(crate) fn resolve<T, E: Copy + Into<io::Error>>(mut open: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let mut tries = 1;
    loop {
        match open() {
            Err(errno) if tries < TRIES_MAX && errno.into().kind() == io::ErrorKind::WouldBlock => tries += 1,
            other => return other,
        }
    }
}

/// Where a symbolic link in the directory `from` leads to. It does not lead above the
/// root, which is the empty path; no other link is looked at.
pub(crate) fn joined(from: &Path, link: &Path) -> PathBuf {
    let mut path = from.to_owned();
    for part in link.components() {
        match part {
            Component::RootDir => path.clear(),
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
    use std::thread;

    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
    use rustix::io::Errno;

    use super::*;

    const OPENED_MIN: u32 = 10_000;
    const OPENED_MAX: u32 = 20_000_000;

    #[test]
    fn a_path_is_resolved_while_others_rename() {
        let temp = tempfile::tempdir().expect("a directory");
        fs::create_dir(temp.path().join("sub")).expect("made");
        fs::write(temp.path().join("sub/file"), "").expect("written");
        symlink("sub/../sub/../sub/../sub/file", temp.path().join("link")).expect("linked");
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let dir = openat(CWD, temp.path(), flags, Mode::empty()).expect("opened");
        let (ends, disturbed) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                let other = tempfile::tempdir().expect("a directory");
                let (a, b) = (other.path().join("a"), other.path().join("b"));
                fs::write(&a, "").expect("written");
                while !ends.load(Relaxed) {
                    fs::rename(&a, &b).and_then(|()| fs::rename(&b, &a)).expect("renamed");
                }
            });
            let open = || {
                let opened = openat2(&dir, "link", flags, Mode::empty(), ResolveFlags::BENEATH);
                if matches!(opened, Err(Errno::AGAIN)) {
                    disturbed.fetch_add(1, Relaxed);
                }
                opened
            };
            let mut failed = None;
            // On a busy machine it may take long until both happen at the same time.
            for opened in 0..OPENED_MAX {
                if opened >= OPENED_MIN && disturbed.load(Relaxed) > 0 {
                    break;
                }
                failed = failed.or(resolve(open).err());
            }
            ends.store(true, Relaxed);
            assert_eq!(failed, None);
        });
        assert!(disturbed.into_inner() > 0, "nothing came between");
    }

    #[test]
    fn a_link_does_not_lead_above_the_root() {
        for (from, link, expected) in [
            ("", "etc", "etc"),
            ("a/b", "../c/./d", "a/c/d"),
            ("a/b", "/c", "c"),
            ("a", "../../../c", "c"),
            ("a", "/..", ""),
        ] {
            assert_eq!(joined(Path::new(from), Path::new(link)), Path::new(expected), "{link}");
        }
    }

    #[test]
    fn what_fails_for_good_is_not_tried_for_ever() {
        let mut tries = 0;
        let failed: Result<(), _> = resolve(|| {
            tries += 1;
            Err(Errno::AGAIN)
        });
        assert_eq!((failed, tries), (Err(Errno::AGAIN), TRIES_MAX));
        let failed: Result<(), _> = resolve(|| {
            tries += 1;
            Err(Errno::NOENT)
        });
        assert_eq!((failed, tries), (Err(Errno::NOENT), TRIES_MAX + 1));
    }
}
