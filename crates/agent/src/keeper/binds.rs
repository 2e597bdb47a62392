//! Files and directories of the host that a container sees: found beneath a directory that no task can replace, and opened. What was
//! opened is mounted, whatever tasks put at its path afterwards.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Uid, chownat, fchmod, mkdirat, openat2};
use rustix::io::Errno;

use super::plan::BindSource;
use crate::failure::Failure;
use crate::resolve::resolve;

/// Opens it, in the mount namespace of this process.
pub(super) fn open(source: &BindSource) -> Result<OwnedFd, Failure> {
    find(source).map_err(|errno| Failure::other(doing(source), why(errno, source)))
}

/// Gives what of it is to be the container's user's to that: by the numbers of the disk, whatever ids the mount shows.
pub(super) fn give(found: &OwnedFd, source: &BindSource, uid: u32, gid: u32) -> Result<(), Failure> {
    for path in &source.owned {
        let doing = || format!("give {path} to the container's user");
        let own = step(found, OsStr::new(path), OFlags::PATH | OFlags::NOFOLLOW, ResolveFlags::NO_SYMLINKS);
        let own = own.map_err(|errno| Failure::new(doing(), errno))?;
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        chownat(&own, "", uid, gid, AtFlags::EMPTY_PATH).map_err(|errno| Failure::new(doing(), errno))?;
    }
    Ok(())
}

/// What is being done when it cannot be mounted.
pub(super) fn doing(source: &BindSource) -> String {
    format!("mount {}", Path::new(&source.root).join(&source.path).display())
}

fn find(source: &BindSource) -> rustix::io::Result<OwnedFd> {
    let links = if source.pinned { ResolveFlags::NO_SYMLINKS } else { ResolveFlags::empty() };
    let path = Path::new(&source.path);
    if path.as_os_str().is_empty() {
        return openat2(CWD, &source.root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), links);
    }
    let root = openat2(CWD, &source.root, DIR, Mode::empty(), links)?;
    match step(&root, path.as_os_str(), OFlags::PATH, ResolveFlags::NO_MAGICLINKS) {
        Err(Errno::NOENT) if source.make => make_dirs(root, path),
        found => found,
    }
}

const DIR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Makes what is missing, for anybody to write to: whose it is, is known once the container's user is.
fn make_dirs(root: OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    path.iter().try_fold(root, |dir, name| match mkdirat(&dir, name, Mode::RWXU) {
        Ok(()) => {
            let made = step(&dir, name, OFlags::DIRECTORY, ResolveFlags::NO_SYMLINKS)?;
            fchmod(&made, Mode::from_raw_mode(0o777))?;
            step(&dir, name, DIR, ResolveFlags::NO_SYMLINKS)
        }
        Err(Errno::EXIST) => step(&dir, name, DIR, ResolveFlags::NO_SYMLINKS),
        Err(errno) => Err(errno),
    })
}

fn step(dir: &OwnedFd, path: &OsStr, flags: OFlags, links: ResolveFlags) -> rustix::io::Result<OwnedFd> {
    resolve(|| openat2(dir, path, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH | links))
}

fn why(errno: Errno, source: &BindSource) -> String {
    match errno {
        Errno::NOENT => "there is no such file or directory on this node".into(),
        Errno::XDEV | Errno::LOOP => {
            format!("a link leads to it or out of it: what may be mounted lies in {} itself", source.root)
        }
        errno => errno.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use rustix::fs::fstat;

    use super::*;

    /// The inode of what a path leads to, or why it leads nowhere.
    fn inode(root: &Path, path: &str, make: bool) -> Result<u64, String> {
        let root = root.to_string_lossy().into_owned();
        let source = BindSource { root, path: path.into(), make, pinned: true, ..BindSource::default() };
        let found = find(&source).map_err(|errno| why(errno, &source))?;
        Ok(fstat(&found).expect("a file").st_ino)
    }

    #[test]
    fn links_lead_nowhere_but_beneath() {
        let temp = tempfile::tempdir().expect("a directory");
        let (root, victim) = (temp.path().join("root"), temp.path().join("victim"));
        fs::create_dir_all(root.join("releases/5")).expect("made");
        fs::create_dir(&victim).expect("made");
        symlink("releases/5", root.join("current")).expect("linked");
        symlink("../victim", root.join("up")).expect("linked");
        symlink(&victim, root.join("away")).expect("linked");
        let release = root.join("releases/5").metadata().expect("a directory").ino();
        assert_eq!(inode(&root, "current", false), Ok(release));
        assert_eq!(inode(&root, "", false), Ok(root.metadata().expect("a directory").ino()));
        for path in ["up", "away", "away/x"] {
            for make in [false, true] {
                assert!(
                    inode(&root, path, make).expect_err(path).contains("a link leads to it or out"),
                    "{path}"
                );
            }
        }
        // One directory that the operator allows may lie in another that tasks write to.
        assert!(inode(&root.join("away"), "", false).expect_err("a link").contains("a link leads to it"));
        assert!(inode(&root, "releases/6", false).expect_err("nothing").contains("no such file"));
        assert_eq!(victim.read_dir().expect("listed").count(), 0);
    }

    #[test]
    fn what_is_missing_is_made_for_everybody() {
        let temp = tempfile::tempdir().expect("a directory");
        inode(temp.path(), "a/b", true).expect("made");
        let made = temp.path().join("a/b").metadata().expect("a directory");
        assert_eq!(made.permissions().mode() & 0o7777, 0o777);
        symlink("/", temp.path().join("a/link")).expect("linked");
        assert!(inode(temp.path(), "a/link/x", true).is_err());
    }

    #[test]
    fn no_race_with_a_link_mounts_what_lies_elsewhere() {
        let race = crate::races::Race::new();
        let outside = race.outside().metadata().expect("a directory").ino();
        let kept = race.outside().join("kept").metadata().expect("a file").ino();
        race.run(|round| {
            let path = ["x", "x/kept", "x/made/here"][round % 3];
            let found = inode(&race.root(), path, round % 2 == 0);
            assert!(!matches!(found, Ok(inode) if inode == outside || inode == kept), "{path}");
            found.is_ok()
        });
    }

    #[test]
    fn no_race_with_a_link_gives_away_what_lies_elsewhere() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: not root");
            return;
        }
        let race = crate::races::Race::new();
        let root = race.root().to_string_lossy().into_owned();
        race.run(|round| {
            let own = 70_000 + u32::try_from(round).expect("few");
            let owned = vec![["x", "x/kept"][round % 2].to_owned()];
            let source = BindSource { root: root.clone(), owned, ..BindSource::default() };
            let given = find(&source).map(|dir| give(&dir, &source, own, own));
            matches!(given, Ok(Ok(())))
        });
    }
}
