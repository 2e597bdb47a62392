//! Files that the agent puts into a task's secrets directory. Whoever reads one sees the old text or the new one.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, chownat, fchown, fstat, mkdirat, openat2, unlinkat,
};
use rustix::io::Errno;

use super::replace::{owner_of, replace};
use crate::dirs::{Dir, open_beneath};
use crate::failure::{Failure, FailureContext};
use crate::paths::AllocPaths;

/// Puts a text in the place of the one that was there. `path` is beneath the directory of secrets, whose owner is given the
/// file: that is the task's user. The task may have put anything there: none of its links is followed.
pub(super) fn write(paths: &AllocPaths, task: &str, path: &str, text: &str) -> Result<(), Failure> {
    let doing = || format!("write secrets/{path}");
    let own = Dir::open(&paths.task_dir(task))?;
    let mut dir = open_beneath(own.fd(), "secrets").doing(doing)?;
    let owner = owner_of(&dir).doing(doing)?;
    let (parents, name) = path.rsplit_once('/').map_or(("", path), |(parents, name)| (parents, name));
    for part in parents.split('/').filter(|part| !part.is_empty()) {
        match mkdirat(&dir, part, Mode::RWXU) {
            Ok(()) => {
                dir = open_beneath(&dir, part).doing(doing)?;
                fchown(&dir, Some(owner.0), Some(owner.1)).doing(doing)?;
            }
            Err(Errno::EXIST) => dir = open_beneath(&dir, part).doing(doing)?,
            Err(errno) => return Err(Failure::new(doing(), errno)),
        }
    }
    replace(&dir, OsStr::new(name), text, owner, Mode::RUSR | Mode::WUSR).doing(doing)
}

/// Listens at a socket in a task's directory of secrets, in the place of whatever has its name. It is the task's user's alone.
pub(super) fn socket(paths: &AllocPaths, task: &str, name: &str) -> Result<UnixListener, Failure> {
    let doing = || format!("listen at secrets/{name}");
    let own = Dir::open(&paths.task_dir(task))?;
    let dir = open_beneath(own.fd(), "secrets").doing(doing)?;
    let (uid, gid) = owner_of(&dir).doing(doing)?;
    match unlinkat(&dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(Failure::new(doing(), errno)),
    }
    // Through the open directory: a socket's path has room for some 100 bytes.
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd())).doing(doing)?;
    listener.set_nonblocking(true).doing(doing)?;
    // By its handle: a task that runs may put a link in its place at any moment.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = openat2(&dir, name, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS);
    let made = made.doing(doing)?;
    if FileType::from_raw_mode(fstat(&made).doing(doing)?.st_mode) != FileType::Socket {
        return Err(Failure::other(doing(), "something else was put in its place"));
    }
    let handle = format!("/proc/self/fd/{}", made.as_raw_fd());
    std::fs::set_permissions(handle, Permissions::from_mode(0o600)).doing(doing)?;
    chownat(&made, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH).doing(doing)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    use berth_api::agent::AllocId;

    use super::*;
    use crate::races::Race;

    fn paths(data: &Path) -> AllocPaths {
        let paths = AllocPaths::new(data, AllocId([1; 16]));
        fs::create_dir_all(paths.task_dir("t").join("secrets")).expect("made");
        paths
    }

    #[test]
    fn a_token_takes_the_place_of_another_and_only_its_user_reads_it() {
        let data = tempfile::tempdir().expect("a directory");
        let paths = paths(data.path());
        let secrets = paths.task_dir("t").join("secrets");
        for (path, token) in [("nomad_token", "one"), ("nomad_token", "two"), ("a/b/id.jwt", "deep")] {
            write(&paths, "t", path, token).expect("written");
            let file = secrets.join(path);
            assert_eq!(fs::read_to_string(&file).expect("read"), token);
            assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
        }
        let left = secrets.read_dir().expect("listed").flatten().map(|entry| entry.file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["a", "nomad_token"], "nothing half written is left");
    }

    #[test]
    fn no_link_of_the_task_is_followed() {
        let data = tempfile::tempdir().expect("a directory");
        let (paths, victim) = (paths(data.path()), data.path().join("victim"));
        fs::create_dir(&victim).expect("made");
        fs::write(victim.join("file"), "untouched").expect("written");
        let secrets = paths.task_dir("t").join("secrets");
        symlink(&victim, secrets.join("dir")).expect("linked");
        symlink(victim.join("file"), secrets.join("token")).expect("linked");
        assert!(write(&paths, "t", "dir/file", "x").is_err());
        write(&paths, "t", "token", "x").expect("the link itself is replaced");
        fs::create_dir(secrets.join("taken")).expect("made");
        assert!(write(&paths, "t", "taken", "x").is_err(), "a directory is in the way");
        fs::remove_dir_all(&secrets).expect("removed");
        symlink(&victim, &secrets).expect("linked");
        assert!(write(&paths, "t", "file", "x").is_err());
        assert_eq!(fs::read_to_string(victim.join("file")).expect("read"), "untouched");
        assert_eq!(victim.read_dir().expect("listed").count(), 1);
    }

    #[test]
    fn a_socket_takes_the_place_of_another_and_only_its_user_connects() {
        let data = tempfile::tempdir().expect("a directory");
        let (paths, victim) = (paths(data.path()), data.path().join("victim"));
        fs::write(&victim, "untouched").expect("written");
        let path = paths.task_dir("t").join("secrets/api.sock");
        symlink(&victim, &path).expect("linked");
        for _ in 0..2 {
            let _listener = socket(&paths, "t", "api.sock").expect("it listens");
            UnixStream::connect(&path).expect("connected");
            assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        }
        assert!(victim.metadata().expect("there").permissions().mode() & 0o777 != 0o600);
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("made");
        assert!(socket(&paths, "t", "api.sock").is_err(), "a directory is in the way");
    }

    /// A task's directory that lies where it is raced for. Above it is what no task can replace.
    fn place_in(data: &Path, task_dir: &Path) -> (AllocPaths, String) {
        let paths = AllocPaths::new(data, AllocId([1; 16]));
        let tasks = paths.task_dir("t").parent().expect("a directory").to_owned();
        fs::create_dir_all(paths.root()).expect("made");
        symlink(task_dir.parent().expect("a directory"), tasks).expect("linked");
        (paths, task_dir.file_name().expect("a name").to_string_lossy().into_owned())
    }

    #[test]
    fn no_race_with_a_link_writes_a_secret_elsewhere() {
        let data = tempfile::tempdir().expect("a directory");
        let race = Race::of("task", "secrets");
        let (paths, task) = place_in(data.path(), &race.root());
        race.run(|round| write(&paths, &task, ["token", "a/token"][round % 2], "secret").is_ok());
        // The same one step further down, and of what is to be replaced itself.
        let data = tempfile::tempdir().expect("a directory");
        let race = Race::of("secrets", "x");
        let (paths, task) = place_in(data.path(), race.root().parent().expect("a directory"));
        race.run(|_| write(&paths, &task, "x/token", "secret").is_ok());
        race.run(|_| {
            let _ = fs::remove_dir_all(race.honest());
            race.relink();
            write(&paths, &task, "x", "secret").is_ok()
        });
    }

    #[test]
    fn no_race_with_a_link_makes_a_socket_elsewhere() {
        let data = tempfile::tempdir().expect("a directory");
        let race = Race::of("task", "secrets");
        let (paths, task) = place_in(data.path(), &race.root());
        race.run(|_| socket(&paths, &task, "api.sock").is_ok());
        // A link to a file of somebody else's in the socket's own place.
        let data = tempfile::tempdir().expect("a directory");
        let race = Race::of("secrets", "x");
        let (paths, task) = place_in(data.path(), race.root().parent().expect("a directory"));
        race.run(|_| {
            let _ = fs::remove_dir(race.honest());
            race.relink();
            socket(&paths, &task, "x").is_ok()
        });
    }
}
