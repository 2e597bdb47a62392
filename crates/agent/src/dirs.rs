//! Directories that tasks can write to, or lie in: reached by handles, never by paths.
//!
//! A task may replace any of its directories with a symlink at any moment. So each is opened as one name beneath a
//! directory that is open already, without following links; what is changed is what was opened.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, Dir as Entries, FileType, Mode, OFlags, RenameFlags, ResolveFlags, fchmod, fchown, mkdirat,
    openat, openat2, renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, Result};

use crate::failure::{Failure, FailureContext};
use crate::users::User;

/// An open directory.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    /// The path as errors name it.
    path: PathBuf,
}

impl Dir {
    /// A directory that only the agent's user can replace.
    pub(crate) fn open(path: &Path) -> std::result::Result<Self, Failure> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty()).doing(|| format!("open {}", path.display()))?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// The open directory.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Makes the directory `name` in this one, unless it is there; `mode` is set even then.
    pub(crate) fn make(&self, name: &str, mode: u32) -> std::result::Result<Self, Failure> {
        let path = self.path.join(name);
        let doing = || format!("make {}", path.display());
        match mkdirat(&self.fd, name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(Failure::new(doing(), error)),
        }
        let fd = open_beneath(&self.fd, name).map_err(|error| match error {
            Errno::LOOP | Errno::NOTDIR => {
                Failure::other(doing(), "a task put a link or a file where this directory was")
            }
            error => Failure::new(doing(), error),
        })?;
        fchmod(&fd, Mode::from_raw_mode(mode)).doing(doing)?;
        Ok(Self { fd, path })
    }

    /// Makes it a user's.
    pub(crate) fn give(&self, user: &User) -> std::result::Result<(), Failure> {
        let changed = fchown(&self.fd, Some(user.uid), Some(user.gid));
        changed.doing(|| format!("give {} to {}", self.path.display(), user.name))
    }
}

/// Opens the directory `name` in one that is open, if it is a directory and no link.
pub(crate) fn open_beneath(dir: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(dir, name, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
}

/// A path that a job names, without `/` in front and without `.`; none that leads up.
pub(crate) fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// Removes a directory and all that is in it, however deep and however much: three open files and no recursion. Each
/// directory is emptied into its grandparent, which is always the one that is to go, so that each is moved once.
pub(crate) fn remove_tree(path: &Path) -> std::result::Result<(), Failure> {
    if empty_tree(path)? {
        unlinkat(CWD, path, AtFlags::REMOVEDIR).doing(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

/// Removes a directory on a thread of its own: it may be large, and whoever writes there may have yet to notice that it is over.
/// Nobody may make one of the same path meanwhile. `otherwise` says for the log what becomes of one that cannot be removed.
pub(crate) fn remove_in_background(path: PathBuf, otherwise: &'static str) {
    std::thread::spawn(move || {
        for _ in 0..10 {
            if remove_tree(&path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        tracing::warn!(path = %path.display(), "{otherwise}");
    });
}

/// Removes what is in a directory, in the same way. Whether it is there at all.
pub(crate) fn empty_tree(path: &Path) -> std::result::Result<bool, Failure> {
    let doing = || format!("remove {}", path.display());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = match openat(CWD, path, flags, Mode::empty()) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(Failure::new(doing(), error)),
    };
    let mut moved = 0;
    // What is moved up while the directory is read may be missed by that round.
    while empty_once(&top, &top, &mut moved).doing(doing)? {}
    Ok(true)
}

/// Goes through `dir` once and removes what is in it; directories that hold some more are moved up to `top`, or, when
/// this is `top` itself, emptied and removed. Whether there was anything.
fn empty_once(dir: &OwnedFd, top: &OwnedFd, moved: &mut u64) -> Result<bool> {
    let is_top = std::ptr::eq(dir, top);
    let mut any = false;
    for entry in Entries::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        any = true;
        if !is_dir(dir, name, entry.file_type())? {
            unlinkat(dir, name, AtFlags::empty())?;
        } else if is_top {
            let inner = open_beneath(dir, name)?;
            // Without these rights a directory's owner could not look into it.
            let _ = fchmod(&inner, Mode::RWXU);
            while empty_once(&inner, top, moved)? {}
            unlinkat(dir, name, AtFlags::REMOVEDIR)?;
        } else if unlinkat(dir, name, AtFlags::REMOVEDIR).is_err() {
            move_up(dir, name, top, moved)?;
        }
    }
    Ok(any)
}

fn is_dir(dir: &OwnedFd, name: &CStr, listed_type: FileType) -> Result<bool> {
    match listed_type {
        FileType::Unknown => {
            let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(FileType::from_raw_mode(found.st_mode) == FileType::Directory)
        }
        listed_type => Ok(listed_type == FileType::Directory),
    }
}

/// Under a name that is free there: what is to be removed may hold any names.
fn move_up(dir: &OwnedFd, name: &CStr, top: &OwnedFd, moved: &mut u64) -> Result<()> {
    loop {
        *moved += 1;
        match renameat_with(dir, name, top, format!(".moved-{moved}"), RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("a file").permissions().mode() & 0o7777
    }

    #[test]
    fn a_symlink_in_place_of_a_directory_changes_nothing_elsewhere() {
        let temp = tempfile::tempdir().expect("a directory");
        let (root, victim) = (temp.path().join("root"), temp.path().join("victim"));
        fs::create_dir(&root).expect("made");
        fs::create_dir(&victim).expect("made");
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o700)).expect("set");
        let dir = Dir::open(&root).expect("open");
        dir.make("data", 0o1777).expect("made");
        assert_eq!(mode(&root.join("data")), 0o1777);
        fs::remove_dir(root.join("data")).expect("removed");
        for target in ["../victim", victim.to_str().expect("text")] {
            symlink(target, root.join("data")).expect("linked");
            let refusal = dir.make("data", 0o1777).expect_err("refused").to_string();
            assert!(refusal.ends_with("a task put a link or a file where this directory was"), "{refusal}");
            fs::remove_file(root.join("data")).expect("removed");
        }
        assert_eq!(mode(&victim), 0o700);
    }

    #[test]
    fn a_directory_of_any_depth_is_removed() {
        const DEPTH: usize = 30_000;
        // In memory where possible: some disks take milliseconds to give a directory's block back.
        let temp = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
        let top = temp.path().join("top");
        fs::create_dir(&top).expect("made");
        let mut dir = Dir::open(&top).expect("open").fd;
        for _ in 0..DEPTH {
            mkdirat(&dir, "d", Mode::RWXU).expect("made");
            // A name that the removal would choose, and a file.
            mkdirat(&dir, ".moved-1", Mode::RWXU).expect("made");
            dir = open_beneath(&dir, "d").expect("open");
        }
        openat(&dir, "file", OFlags::CREATE, Mode::RWXU).expect("a file");
        drop(dir);
        symlink("/", top.join("link")).expect("linked");
        remove_tree(&top).expect("removed");
        assert!(!top.exists());
        remove_tree(&top).expect("nothing to do");
    }

    #[test]
    fn no_race_with_a_link_changes_what_lies_elsewhere() {
        let race = crate::races::Race::new();
        let dir = Dir::open(&race.root()).expect("open");
        race.run(|_| dir.make("x", 0o1777).and_then(|made| made.make("tmp", 0o1777)).is_ok());
    }

    #[test]
    fn no_race_with_a_link_removes_what_lies_elsewhere() {
        let race = crate::races::Race::new();
        race.run(|_| {
            race.relink();
            let _ = fs::create_dir(race.honest());
            empty_tree(&race.root()).is_ok()
        });
    }
}
