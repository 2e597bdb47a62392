//! Puts an artifact where its task finds it. This task or another one of its allocation may have run before and left links: none is
//! followed, and nothing is put outside the directories of the allocation.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use berth_api::agent::ArtifactSpec;
use rustix::fs::{
    AtFlags, CWD, Dir as Entries, FileType, Gid, Mode, OFlags, RawMode, Uid, chownat, mkdirat, openat,
    renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::Recipient;
use crate::dirs::{open_beneath, plain};
use crate::drivers::RootFs;
use crate::users;

/// How deep directories of an archive may lie in each other.
const DEPTH_MAX: usize = 64;
const DIR_MODE: RawMode = 0o755;

/// The owner of the files: the agent's user unless the job says otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FileOwner(Option<(Uid, Gid)>);

impl FileOwner {
    pub(super) fn of(spec: &ArtifactSpec, to: &Recipient<'_>) -> Result<Self, String> {
        if !spec.chown {
            return Ok(Self(None));
        }
        if to.root_fs == RootFs::Container {
            return Err(
                "`chown` is not implemented for containers: whose they are is up to their user".into()
            );
        }
        if to.user.is_empty() {
            return Ok(Self(None));
        }
        let user = users::find(to.user).map_err(|failure| failure.to_string())?;
        Ok(Self(Some((user.uid, user.gid))))
    }
}

/// The directory that an artifact goes to, and the name that it has there if the job gives it one.
pub(super) struct Destination {
    top: PathBuf,
    rest: PathBuf,
}

impl Destination {
    /// What a destination means: below the task's own directory or the one that tasks share, in either's own terms.
    pub(super) fn find(
        destination: &str,
        root_fs: RootFs,
        task_dir: &Path,
        shared_dir: &Path,
    ) -> Result<Self, String> {
        let path = Path::new(destination);
        let below = |top: &Path, rest: &Path| Ok(Self { top: top.to_owned(), rest: within_task(rest)? });
        if let Ok(rest) = path.strip_prefix(shared_dir) {
            return below(shared_dir, rest);
        }
        if let Ok(rest) = path.strip_prefix("/alloc") {
            return below(shared_dir, rest);
        }
        let own = within_task(path.strip_prefix(task_dir).unwrap_or(path))?;
        let first = own.iter().next().unwrap_or(OsStr::new(""));
        if first == "secrets" {
            return Err("its destination is in secrets/, which only the task fills".into());
        }
        if root_fs == RootFs::Container && first != "local" {
            return Err(format!(
                "its destination {destination:?} is not seen in a container: put it in local/ or in /alloc/"
            ));
        }
        below(task_dir, &own)
    }

    #[cfg(test)]
    pub(super) fn into_parts(self) -> (PathBuf, PathBuf) {
        (self.top, self.rest)
    }

    /// All that an archive held, into what is there already.
    pub(super) fn put_all(&self, from: &Path, owner: FileOwner) -> Result<(), String> {
        let from = open_dir(CWD, from).map_err(|errno| errno.to_string())?;
        let to = self.open(&self.rest, owner)?;
        merge(&from, &to, owner, 0).map_err(|errno| format!("put it into {}: {errno}", self.rest.display()))
    }

    /// A file: under its own name in the directory, or, with `is_name`, under the name that the destination is.
    pub(super) fn put_file(
        &self,
        from: &Path,
        own: &str,
        is_name: bool,
        owner: FileOwner,
    ) -> Result<(), String> {
        let (dir, name) = if is_name {
            let name = self.rest.file_name().ok_or("its destination names no file")?;
            (self.rest.parent().unwrap_or(Path::new("")), name)
        } else {
            (self.rest.as_path(), OsStr::new(own))
        };
        let to = self.open(dir, owner)?;
        let put = || {
            set_owner(CWD, from.as_os_str(), owner)?;
            renameat(CWD, from, &to, name)
        };
        put().map_err(|errno| format!("put it at {}: {errno}", dir.join(name).display()))
    }

    /// The directory, made where it is missing.
    fn open(&self, rest: &Path, owner: FileOwner) -> Result<OwnedFd, String> {
        let fail = |errno: Errno| match errno {
            Errno::LOOP | Errno::NOTDIR => {
                format!("a task put a link or a file at {}, where its destination is", rest.display())
            }
            errno => format!("make {}: {errno}", rest.display()),
        };
        let mut dir = open_dir(CWD, &self.top).map_err(fail)?;
        for part in rest {
            match mkdirat(&dir, part, Mode::from_raw_mode(DIR_MODE)) {
                Ok(()) => set_owner(&dir, part, owner).map_err(fail)?,
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(fail(errno)),
            }
            dir = open_beneath(&dir, part).map_err(fail)?;
        }
        Ok(dir)
    }
}

/// Moves what is in one directory into another; of directories that both have, the content.
fn merge(from: &OwnedFd, to: &OwnedFd, owner: FileOwner, depth: usize) -> rustix::io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    for name in names(from)? {
        let is_dir = {
            let found = statat(from, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            FileType::from_raw_mode(found.st_mode) == FileType::Directory
        };
        if !is_dir {
            set_owner(from, &name, owner)?;
            renameat(from, &name, to, &name)?;
            continue;
        }
        match mkdirat(to, &name, Mode::from_raw_mode(DIR_MODE)) {
            Ok(()) => set_owner(to, &name, owner)?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        merge(&open_beneath(from, &name)?, &open_beneath(to, &name)?, owner, depth + 1)?;
        unlinkat(from, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

fn names(dir: &OwnedFd) -> rustix::io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Entries::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(OsStr::from_bytes(name.to_bytes()).to_owned());
        }
    }
    Ok(names)
}

fn set_owner(dir: impl AsFd, name: &OsStr, owner: FileOwner) -> rustix::io::Result<()> {
    match owner.0 {
        Some((uid, gid)) => chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW),
        None => Ok(()),
    }
}

fn open_dir(dir: impl AsFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, path, flags, Mode::empty())
}

fn within_task(path: &Path) -> Result<PathBuf, String> {
    plain(path).ok_or_else(|| format!("its destination {} leads out of the task's directory", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct World(tempfile::TempDir);

    impl World {
        fn new() -> Self {
            let world = Self(tempfile::tempdir().expect("a directory"));
            for dir in ["task/local", "shared/data", "from/sub", "outside"] {
                fs::create_dir_all(world.path(dir)).expect("made");
            }
            fs::write(world.path("from/top"), "top").expect("written");
            fs::write(world.path("from/sub/deep"), "deep").expect("written");
            fs::write(world.path("file"), "file").expect("written");
            world
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn find(&self, destination: &str, root_fs: RootFs) -> Result<Destination, String> {
            Destination::find(destination, root_fs, &self.path("task"), &self.path("shared"))
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.path(name)).expect("a file")
        }
    }

    #[test]
    fn an_archive_joins_what_is_there() {
        let world = World::new();
        fs::create_dir_all(world.path("task/local/app/sub")).expect("made");
        fs::write(world.path("task/local/app/sub/own"), "own").expect("written");
        fs::write(world.path("task/local/app/top"), "old").expect("written");
        let target = world.find("local/app", RootFs::Container).expect("a place");
        target.put_all(&world.path("from"), FileOwner::default()).expect("put");
        let app = |name: &str| world.text(&format!("task/local/app/{name}"));
        assert_eq!([app("top"), app("sub/deep"), app("sub/own")], ["top", "deep", "own"]);
    }

    #[test]
    fn destinations_are_understood_in_the_tasks_own_terms() {
        let world = World::new();
        let shared = world.path("shared/data/x");
        for (destination, is_name, lands) in [
            ("local/", false, "task/local/own"),
            ("/local/in/tool", true, "task/local/in/tool"),
            ("/alloc/data", false, "shared/data/own"),
            (shared.to_str().expect("text"), true, "shared/data/x"),
        ] {
            fs::write(world.path("file"), destination).expect("written");
            let target = world.find(destination, RootFs::Container).expect("a place");
            target.put_file(&world.path("file"), "own", is_name, FileOwner::default()).expect("put");
            assert_eq!(world.text(lands), destination);
        }
        assert!(world.find("app/", RootFs::Host).is_ok());
        for refused in ["app/", "tmp/x", "secrets/x", "local/../../x", "/etc"] {
            assert!(world.find(refused, RootFs::Container).is_err(), "{refused}");
        }
        assert!(world.find("/secrets/x", RootFs::Host).is_err());
    }

    #[test]
    fn no_link_of_a_task_is_followed() {
        let world = World::new();
        symlink(world.path("outside"), world.path("task/local/link")).expect("linked");
        symlink(world.path("outside"), world.path("task/local/sub")).expect("linked");
        symlink(world.path("outside/file"), world.path("task/local/own")).expect("linked");
        let put = |destination: &str| world.find(destination, RootFs::Host).expect("a place");
        let refused = put("local/link").put_file(&world.path("file"), "own", false, FileOwner::default());
        assert!(refused.expect_err("refused").contains("a task put a link"));
        assert!(put("local").put_all(&world.path("from"), FileOwner::default()).is_err(), "sub is a link");
        put("local")
            .put_file(&world.path("file"), "own", false, FileOwner::default())
            .expect("replaces the link");
        assert_eq!(world.text("task/local/own"), "file");
        assert_eq!(world.path("outside").read_dir().expect("a directory").count(), 0);
    }

    #[test]
    fn no_race_with_a_link_puts_an_artifact_elsewhere() {
        let race = crate::races::Race::new();
        let (from, file) = (tempfile::tempdir().expect("a directory"), race.root().join("file"));
        race.run(|round| {
            let target = Destination { top: race.root(), rest: "x".into() };
            if round % 2 == 0 {
                fs::write(&file, "file").expect("written");
                return target.put_file(&file, "own", false, FileOwner::default()).is_ok();
            }
            fs::create_dir_all(from.path().join("sub")).expect("made");
            fs::write(from.path().join("sub/deep"), "deep").expect("written");
            target.put_all(from.path(), FileOwner::default()).is_ok()
        });
    }
}
