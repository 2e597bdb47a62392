//! A keeper's private view of the filesystem: what it mounts there is gone when its container is.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use crate::failure::{Doing, Failure};

const NOTHING: Option<&str> = None;

/// From here on, mounts of this process are its own.
pub(super) fn make_private() -> Result<(), Failure> {
    unshare(CloneFlags::CLONE_NEWNS).doing(|| "make a mount namespace".into())?;
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING)
        .doing(|| "make mounts private".into())
}

/// crun refuses hosts that mount cgroup v2 beside v1, so it does not get to see that mount.
pub(super) fn hide_unified_cgroup() -> Result<(), Failure> {
    match umount2("/sys/fs/cgroup/unified", MntFlags::MNT_DETACH) {
        Ok(()) | Err(Errno::ENOENT | Errno::EINVAL) => Ok(()),
        Err(errno) => Err(Failure::new("hide the unified cgroup mount", errno)),
    }
}

/// Mounts a writable layer over read-only ones, the uppermost first, at `rootfs` in `bundle`, which is relative to the
/// working directory.
///
/// What the kernel is told must fit into a page, and an image may have more than a hundred layers: each goes by a short
/// link.
pub(super) fn overlay(layers: &[String], bundle: &Path) -> Result<(), Failure> {
    let links = bundle.join("l");
    std::fs::create_dir_all(&links).doing(|| format!("make {}", links.display()))?;
    let mut lower = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        let link = links.join(number.to_string());
        std::os::unix::fs::symlink(layer, &link).doing(|| format!("make {}", link.display()))?;
        lower.push(link.to_string_lossy().into_owned());
    }
    let (upper, work, target) = (bundle.join("upper"), bundle.join("work"), bundle.join("rootfs"));
    let lower = lower.join(":");
    let options = format!("lowerdir={lower},upperdir={},workdir={}", upper.display(), work.display());
    let flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
    mount(Some("overlay"), &target, Some("overlay"), flags, Some(options.as_str()))
        .doing(|| "mount the image's layers".into())
}

/// Mounts what was opened, without what is mounted below it, on a file or directory of its kind.
pub(super) fn bind(opened: BorrowedFd<'_>, target: &Path) -> Result<(), Errno> {
    let source = format!("/proc/self/fd/{}", opened.as_raw_fd());
    mount(Some(source.as_str()), target, NOTHING, MsFlags::MS_BIND, NOTHING)
}

/// Takes a mount away, busy or not.
pub(super) fn detach(target: &Path) {
    let _ = umount2(target, MntFlags::MNT_DETACH);
}
