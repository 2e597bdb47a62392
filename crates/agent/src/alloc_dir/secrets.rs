//! Directories that hold secrets: those of tasks, and those of keepers whose containers are given any. Each is a tmpfs where the agent
//! may mount one, and is removed with its allocation.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::dirs::{Dir, empty_tree};
use crate::failure::Failure;
use crate::keeper::container::MEMORY;
use crate::mountinfo;
use crate::paths::AllocPaths;

/// The socket in a task's directory of secrets by which it speaks to the HTTP API, as in Nomad.
pub(crate) const API_SOCKET: &str = "api.sock";

/// As much as a container has.
const LIMITS: &CStr = c"mode=0700,size=1024k,nr_inodes=1024";

/// For what describes a container: its description, of which its runtime keeps a copy, and those of commands within it.
const KEEPER_LIMITS: &CStr = c"mode=0700,size=64m,nr_inodes=4096";

/// Mounts memory on a task's directory of secrets, which lies in `own`, unless that was done before. Whether anything is
/// mounted now: an agent without rights leaves it the directory that it is.
pub(super) fn mount_on(secrets: &Dir, own: &Dir) -> Result<bool, Failure> {
    mount_memory(secrets, own, LIMITS)
}

/// The same for a directory of a container's keeper, which cannot do without.
pub(super) fn mount_for_keeper(memory: &Dir, keeper: &Dir) -> Result<(), Failure> {
    if mount_memory(memory, keeper, KEEPER_LIMITS)? {
        return Ok(());
    }
    Err(Failure::other("mount memory for the container's secrets", "the agent may not: run it as root"))
}

/// Whether what is written to a task's directory of secrets is on no disk.
pub(crate) fn are_in_memory(paths: &AllocPaths, task: &str) -> bool {
    let own = paths.task_dir(task);
    let (Ok(dir), Ok(own)) = (Dir::open(&own.join("secrets")), Dir::open(&own)) else { return false };
    is_mounted(dir.fd(), own.fd())
}

fn mount_memory(secrets: &Dir, own: &Dir, limits: &CStr) -> Result<bool, Failure> {
    if is_mounted(secrets.fd(), own.fd()) {
        return Ok(true);
    }
    // By its handle: whoever owns the directory around it may put a link in its place at any moment.
    let target = PathBuf::from(format!("/proc/self/fd/{}", secrets.fd().as_raw_fd()));
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match mount("tmpfs", &target, "tmpfs", flags, limits) {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::ACCESS) => Ok(false),
        Err(errno) => Err(Failure::new("mount memory for the task's secrets", errno)),
    }
}

/// Takes away what tasks of an allocation that has ended had of it.
pub(crate) fn end<'a>(paths: &AllocPaths, tasks: impl Iterator<Item = &'a str>) {
    for task in tasks {
        for (own, name) in [(paths.task_dir(task), "secrets"), (paths.keeper_dir(task), MEMORY)] {
            let memory = own.join(name);
            let (Ok(dir), Ok(own)) = (Dir::open(&memory), Dir::open(&own)) else { continue };
            if is_mounted(dir.fd(), own.fd()) {
                drop((dir, own));
                remove_mounted(&memory);
            }
        }
    }
}

/// Takes away what is mounted below the agent's directory for others than these allocations: an earlier run of the agent may
/// have ended before it could.
pub(crate) fn sweep(data_dir: &Path, living: impl Iterator<Item = AllocPaths>) -> Result<(), Failure> {
    let living: BTreeSet<PathBuf> = living.map(|paths| paths.root().to_owned()).collect();
    for mounted in mountinfo::read()? {
        let alloc = alloc_of(data_dir, &mounted.point);
        if alloc.is_some_and(|root| !living.contains(root)) {
            remove_mounted(&mounted.point);
        }
    }
    Ok(())
}

/// The allocation's directory, of one that holds secrets of a task.
fn alloc_of<'a>(data_dir: &Path, mounted: &'a Path) -> Option<&'a Path> {
    let above = mounted.parent()?.parent()?;
    let holds = |dir: &str, name: &str| above.ends_with(dir) && mounted.ends_with(name);
    let root = above.parent().filter(|_| holds("tasks", "secrets") || holds("keepers", MEMORY))?;
    // Removed ones wait for their end elsewhere.
    (root.parent()?.parent()? == data_dir).then_some(root)
}

fn is_mounted(dir: impl AsFd, parent: impl AsFd) -> bool {
    let (Ok(dir), Ok(parent)) = (fstat(dir), fstat(parent)) else { return false };
    dir.st_dev != parent.st_dev
}

/// Emptied first: a process with mounts of its own, as the keeper of a container, may hold on to it.
fn remove_mounted(secrets: &Path) {
    if let Err(failure) = empty_tree(secrets) {
        tracing::warn!(%failure, "could not empty a task's secrets");
    }
    match unmount(secrets, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
        Err(errno) => tracing::warn!(%errno, path = %secrets.display(), "could not unmount a task's secrets"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use berth_api::agent::AllocId;

    use super::*;

    #[test]
    fn only_directories_of_secrets_are_swept() {
        let of = |path: &str| alloc_of(Path::new("/data"), Path::new(path)).map(Path::to_owned);
        assert_eq!(of("/data/allocs/1/tasks/web/secrets"), Some("/data/allocs/1".into()));
        assert_eq!(of("/data/removed/1.0/tasks/web/secrets"), Some("/data/removed/1.0".into()));
        assert_eq!(of("/data/allocs/1/keepers/web/memory"), Some("/data/allocs/1".into()));
        for other in [
            "/data/allocs/1/keepers/web/secrets",
            "/data/allocs/1/tasks/web/local",
            "/other/allocs/1/tasks/web/secrets",
            "/secrets",
            "/data",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn memory_is_mounted_once_and_goes_with_its_allocation() {
        let data = tempfile::tempdir().expect("a directory");
        let (dead, alive) = (AllocId([1; 16]), AllocId([2; 16]));
        let paths = |alloc| AllocPaths::new(data.path(), alloc);
        let secrets = |alloc| paths(alloc).task_dir("t").join("secrets");
        for alloc in [dead, alive] {
            fs::create_dir_all(secrets(alloc)).expect("made");
            let own = Dir::open(&paths(alloc).task_dir("t")).expect("opened");
            let mounted = [0, 1].map(|_| {
                mount_on(&own.make("secrets", 0o700).expect("made"), &own).expect("mounted, or no rights")
            });
            if mounted == [false; 2] {
                eprintln!("skipped: nothing may be mounted here");
                return;
            }
            fs::write(secrets(alloc).join("token"), "hidden").expect("written");
        }
        sweep(data.path(), [paths(alive)].into_iter()).expect("swept");
        assert!(!secrets(dead).join("token").exists() && secrets(alive).join("token").exists());
        for _ in 0..2 {
            end(&paths(alive), ["t", "other"].into_iter());
            assert!(!secrets(alive).join("token").exists());
        }
        fs::remove_dir(secrets(alive)).expect("nothing is mounted there");
    }
}
