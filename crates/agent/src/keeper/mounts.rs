//! A keeper's private view of the filesystem: what it mounts there is gone when its container is.

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

/// Mounts a writable layer over a shared, read-only image.
pub(super) fn overlay(image_root: &Path, upper: &Path, work: &Path, target: &Path) -> Result<(), Failure> {
    let dirs = [("lowerdir", image_root), ("upperdir", upper), ("workdir", work)];
    let mut options = Vec::new();
    for (name, dir) in dirs {
        let text = dir.to_str().filter(|text| !text.contains([':', ',', '\\']));
        let text =
            text.ok_or_else(|| Failure::other(format!("mount over {}", dir.display()), "odd characters"))?;
        options.push(format!("{name}={text}"));
    }
    let options = options.join(",");
    let flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
    mount(Some("overlay"), target, Some("overlay"), flags, Some(options.as_str()))
        .doing(|| format!("mount the image {}", image_root.display()))
}

/// Takes a mount away, busy or not.
pub(super) fn detach(target: &Path) {
    let _ = umount2(target, MntFlags::MNT_DETACH);
}
