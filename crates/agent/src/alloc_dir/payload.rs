//! The payload of a dispatched job, written to a file of a task (`dispatch_payload`).

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, ResolveFlags, fchown, mkdirat, openat2};
use rustix::io::Errno;

use crate::dirs::Dir;
use crate::failure::{Failure, FailureContext};
use crate::users::User;

/// Writes it below a task's directory. The task may have run before: no link of its making is followed.
pub(super) fn write(dir: &Dir, path: &str, payload: &[u8], user: Option<&User>) -> Result<(), Failure> {
    let doing = || format!("write the dispatch's data to {path}");
    let owner = user.map(|user| (Some(user.uid), Some(user.gid)));
    let mut parent = dir.fd().as_fd().try_clone_to_owned().doing(doing)?;
    let mut parts =
        parts(path).ok_or_else(|| Failure::other(doing(), "the path leads out of the task's directory"))?;
    let name = parts.pop().ok_or_else(|| Failure::other(doing(), "the path names no file"))?;
    for part in parts {
        match mkdirat(&parent, part, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(Failure::new(doing(), errno)),
        }
        parent = open(&parent, part, OFlags::RDONLY | OFlags::DIRECTORY).doing(doing)?;
        owner.map_or(Ok(()), |(uid, gid)| fchown(&parent, uid, gid)).doing(doing)?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = open(&parent, name, flags).doing(doing)?;
    owner.map_or(Ok(()), |(uid, gid)| fchown(&file, uid, gid)).doing(doing)?;
    File::from(file).write_all(payload).doing(doing)
}

fn open(dir: &OwnedFd, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o644) } else { Mode::empty() };
    openat2(dir, name, flags | OFlags::CLOEXEC, mode, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
}

/// None for a path that leads out.
fn parts(path: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn data_lands_in_the_tasks_directory_and_nowhere_else() {
        let temp = tempfile::tempdir().expect("a directory");
        let (local, outside) = (temp.path().join("local"), temp.path().join("outside"));
        fs::create_dir(&local).expect("made");
        fs::create_dir(&outside).expect("made");
        let dir = Dir::open(&local).expect("open");
        let put = |path: &str| write(&dir, path, b"data", None).map_err(|failure| failure.to_string());
        put("in/deep/input").expect("written");
        put("in/deep/input").expect("written again");
        assert_eq!(fs::read(local.join("in/deep/input")).expect("a file"), b"data");
        symlink(&outside, local.join("link")).expect("linked");
        symlink(outside.join("file"), local.join("file")).expect("linked");
        for path in ["../outside/file", "link/file", "file", "", "in"] {
            assert!(put(path).is_err(), "{path}");
        }
        assert_eq!(outside.read_dir().expect("a directory").count(), 0);
    }

    #[test]
    fn no_race_with_a_link_puts_data_elsewhere() {
        let race = crate::races::Race::new();
        let dir = Dir::open(&race.root()).expect("open");
        race.run(|_| write(&dir, "x/input", b"data", None).is_ok());
    }
}
