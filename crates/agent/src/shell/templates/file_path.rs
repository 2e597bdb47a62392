//! Where a template is read, and where its file is put: below the task's own directory, or the one that the tasks of its allocation
//! share. Tasks may have put anything there: none of their links is followed, and nothing is read or written anywhere else. Whoever
//! reads a file sees the old text or the new one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Gid, Mode, OFlags, ResolveFlags, Uid, fchown, fstat, mkdirat, openat2};
use rustix::io::Errno;

use crate::dirs::{Dir, open_beneath, plain};
use crate::drivers::RootFs;
use crate::failure::{Failure, FailureContext};
use crate::paths::AllocPaths;
use crate::shell::replace::{owner_of, replace};

/// A path as a task sees it, and where that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePath {
    top: PathBuf,
    rest: PathBuf,
    /// Whether it is below the directory that tasks share.
    is_shared: bool,
    /// The path as errors name it.
    display: String,
}

/// Who may do what with a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FileAccess {
    /// The permission bits.
    pub(crate) mode: u32,
    /// Where absent, that of the directory that the task has for its files.
    pub(crate) uid: Option<u32>,
    /// Where absent, the group of that directory.
    pub(crate) gid: Option<u32>,
}

impl FilePath {
    /// What a path means to a task.
    ///
    /// # Errors
    /// When it leads out of the task's directories, or to where the task sees nothing.
    pub(crate) fn find(path: &str, root_fs: RootFs, paths: &AllocPaths, task: &str) -> Result<Self, String> {
        let (task_dir, shared_dir) = (paths.task_dir(task), paths.shared_dir());
        let display = path.to_owned();
        let path = Path::new(path);
        let shared = [shared_dir.as_path(), Path::new("/alloc"), Path::new("../alloc")];
        let in_shared = shared.iter().find_map(|dir| path.strip_prefix(dir).ok());
        let (top, rest) = match in_shared {
            Some(rest) => (shared_dir, within_task(rest)?),
            None => (task_dir.clone(), within_task(path.strip_prefix(&task_dir).unwrap_or(path))?),
        };
        if rest.file_name().is_none() {
            return Err(format!("{display:?} names no file"));
        }
        let first = rest.iter().next().unwrap_or(OsStr::new(""));
        if in_shared.is_none() && root_fs == RootFs::Container && first != "local" && first != "secrets" {
            return Err(format!(
                "{display:?} is not seen in a container: put it in local/, in secrets/ or in /alloc/"
            ));
        }
        Ok(Self { top, rest, is_shared: in_shared.is_some(), display })
    }

    /// Whether it lies in the task's directory of secrets.
    pub(crate) fn is_secret(&self) -> bool {
        self.below_secrets().is_some()
    }

    /// Where it lies there.
    pub(crate) fn below_secrets(&self) -> Option<&Path> {
        if self.is_shared { None } else { self.rest.strip_prefix("secrets").ok() }
    }

    /// The text of a file.
    ///
    /// # Errors
    /// When it cannot be read, is no text, or has more bytes than that.
    pub(crate) fn read(&self, bytes_max: usize) -> Result<String, Failure> {
        let doing = || format!("read {}", self.display);
        let file = self.open().map_err(|error| self.failure(doing(), error))?;
        if FileType::from_raw_mode(fstat(&file).doing(doing)?.st_mode) != FileType::RegularFile {
            return Err(Failure::other(doing(), "it is no regular file"));
        }
        let mut bytes = Vec::new();
        File::from(file).take(bytes_max as u64 + 1).read_to_end(&mut bytes).doing(doing)?;
        if bytes.len() > bytes_max {
            return Err(Failure::other(doing(), format!("it has more than {bytes_max} bytes")));
        }
        String::from_utf8(bytes).map_err(|_| Failure::other(doing(), "it is no text in UTF-8"))
    }

    fn open(&self) -> rustix::io::Result<OwnedFd> {
        let top = Dir::open(&self.top).map_err(|_| Errno::NOENT)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        openat2(top.fd(), &self.rest, flags, Mode::empty(), RESOLVE)
    }

    /// Puts a text in the place of the one that was there, and makes the directories above it.
    ///
    /// # Errors
    /// When it cannot be put there.
    pub(crate) fn write(&self, text: &str, access: FileAccess) -> Result<(), Failure> {
        let doing = || format!("write {}", self.display);
        let wrong = |error| self.failure(doing(), error);
        let top = Dir::open(&self.top)?;
        let name = self.rest.file_name().ok_or_else(|| Failure::other(doing(), "it names no file"))?;
        let mut dir = open_beneath(top.fd(), ".").map_err(wrong)?;
        let mut owner = None;
        for part in self.rest.parent().into_iter().flat_map(Path::iter) {
            let is_new = match mkdirat(&dir, part, Mode::from_raw_mode(0o755)) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(wrong(errno)),
            };
            dir = open_beneath(&dir, part).map_err(wrong)?;
            match owner {
                None => owner = Some(owner_of(&dir).doing(doing)?),
                Some((uid, gid)) if is_new => fchown(&dir, Some(uid), Some(gid)).doing(doing)?,
                Some(_) => {}
            }
        }
        let (uid, gid) = owner.map_or_else(|| owner_of(&dir), Ok).doing(doing)?;
        let (uid, gid) = (access.uid.map_or(uid, Uid::from_raw), access.gid.map_or(gid, Gid::from_raw));
        let mode = Mode::from_raw_mode(access.mode & 0o777);
        replace(&dir, name, text, (uid, gid), mode).doing(doing)
    }

    fn failure(&self, doing: String, errno: Errno) -> Failure {
        match errno {
            Errno::LOOP | Errno::XDEV | Errno::NOTDIR => Failure::other(
                doing,
                "a link or a file is where a directory is to be, or a link leads elsewhere",
            ),
            errno => Failure::new(doing, errno),
        }
    }
}

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

fn within_task(path: &Path) -> Result<PathBuf, String> {
    plain(path).ok_or_else(|| format!("{} leads out of the task's directories", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use berth_api::agent::AllocId;

    use super::*;
    use crate::races::Race;

    const ACCESS: FileAccess = FileAccess { mode: 0o640, uid: None, gid: None };

    struct Fixture {
        data: tempfile::TempDir,
        paths: AllocPaths,
    }

    impl Fixture {
        fn new() -> Self {
            let data = tempfile::tempdir().expect("a directory");
            let paths = AllocPaths::new(data.path(), AllocId([1; 16]));
            for dir in ["local", "secrets"] {
                fs::create_dir_all(paths.task_dir("t").join(dir)).expect("made");
            }
            fs::create_dir_all(paths.shared_dir().join("data")).expect("made");
            Self { data, paths }
        }

        fn find(&self, path: &str, root_fs: RootFs) -> Result<FilePath, String> {
            FilePath::find(path, root_fs, &self.paths, "t")
        }
    }

    #[test]
    fn paths_are_understood_as_the_task_sees_them() {
        let fixture = Fixture::new();
        let shared = fixture.paths.shared_dir();
        let absolute = fixture.paths.task_dir("t").join("local/abs");
        for (path, lands) in [
            ("local/a", fixture.paths.task_dir("t").join("local/a")),
            ("/secrets/b/c", fixture.paths.task_dir("t").join("secrets/b/c")),
            ("../alloc/data/x", shared.join("data/x")),
            ("/alloc/y", shared.join("y")),
            (shared.join("z").to_str().expect("text"), shared.join("z")),
            (absolute.to_str().expect("text"), absolute.clone()),
        ] {
            let file = fixture.find(path, RootFs::Container).expect("a path");
            file.write(path, ACCESS).expect("written");
            assert_eq!(fs::read_to_string(&lands).expect("read"), path);
            assert_eq!(lands.metadata().expect("a file").permissions().mode() & 0o7777, 0o640);
            assert_eq!(file.read(1 << 10).expect("read"), path);
            file.write("again", FileAccess { mode: 0o4755, ..ACCESS }).expect("written");
            assert_eq!(fs::read_to_string(&lands).expect("read"), "again");
            assert_eq!(lands.metadata().expect("a file").permissions().mode() & 0o7777, 0o755, "no setuid");
        }
        assert!(fixture.find("app.conf", RootFs::Host).is_ok());
        for refused in
            ["app.conf", "local/../../x", "../../x", "../alloc/../x", "/etc/passwd", "local/..", ""]
        {
            assert!(fixture.find(refused, RootFs::Container).is_err(), "{refused}");
        }
        assert!(fixture.find("local/a", RootFs::Host).expect("a path").read(4).is_err(), "too long");
    }

    #[test]
    fn no_link_of_the_task_is_followed() {
        let fixture = Fixture::new();
        let victim = fixture.data.path().join("victim");
        fs::create_dir(&victim).expect("made");
        fs::write(victim.join("file"), "untouched").expect("written");
        let local = fixture.paths.task_dir("t").join("local");
        symlink(&victim, local.join("dir")).expect("linked");
        symlink(victim.join("file"), local.join("link")).expect("linked");
        symlink("dir/file", local.join("inner")).expect("linked");
        for path in ["local/dir/file", "local/link", "local/inner", "local/dir"] {
            let file = fixture.find(path, RootFs::Host).expect("a path");
            assert!(file.read(1 << 10).is_err(), "{path}");
        }
        assert!(fixture.find("local/dir/file", RootFs::Host).expect("a path").write("x", ACCESS).is_err());
        fixture.find("local/link", RootFs::Host).expect("a path").write("x", ACCESS).expect("it is replaced");
        assert_eq!(fs::read_to_string(victim.join("file")).expect("read"), "untouched");
        assert_eq!(victim.read_dir().expect("listed").count(), 1);
        fs::create_dir(local.join("taken")).expect("made");
        assert!(fixture.find("local/taken", RootFs::Host).expect("a path").write("x", ACCESS).is_err());
        let left = local.read_dir().expect("listed").flatten();
        assert!(left.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().starts_with('.')));
    }

    #[test]
    fn what_is_no_regular_file_holds_nobody_up() {
        let fixture = Fixture::new();
        let pipe = fixture.paths.task_dir("t").join("local/pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("made");
        let message = fixture
            .find("local/pipe", RootFs::Host)
            .expect("a path")
            .read(9)
            .expect_err("no file")
            .to_string();
        assert!(message.contains("no regular file"), "{message}");
    }

    #[test]
    fn no_race_with_a_link_writes_elsewhere() {
        let race = Race::new();
        race.run(|round| {
            let rest = PathBuf::from(["x/deep/file", "x/file"][round % 2]);
            FilePath { top: race.root(), rest, is_shared: true, display: String::new() }
                .write("text", ACCESS)
                .is_ok()
        });
    }
}
