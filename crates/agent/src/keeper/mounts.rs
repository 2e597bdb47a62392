//! Mount namespaces of a keeper, for as long as it assembles a container: what it mounts there is gone when its container is.

use std::collections::HashSet;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::process::{chroot, fchdir};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::failure::{Failure, FailureContext};
use crate::namespaces::unshare;

/// The mounts of the host, for a process that leaves them for a while. A mount namespace keeps a copy of each mount of the host, and
/// with it every disk in use that was mounted when the namespace was made: nobody stays in one longer than a runtime's call takes.
pub(super) struct HostMounts {
    namespace: File,
    root: File,
    work_dir: File,
}

impl HostMounts {
    /// From here on, mounts of this process are its own; it sees those of the host only if it `follows` them.
    pub(super) fn leave(follows: bool) -> Result<Self, Failure> {
        let open = |path: &str| File::open(path).doing(|| format!("open {path}"));
        let host = Self { namespace: open("/proc/self/ns/mnt")?, root: open("/")?, work_dir: open(".")? };
        match make_own(follows) {
            Ok(()) => Ok(host),
            Err(failure) => {
                // What went wrong first is why.
                let _ = host.enter();
                Err(failure)
            }
        }
    }

    /// The mounts of this process are those of the host again; its own are gone, unless a container has them.
    pub(super) fn enter(self) -> Result<(), Failure> {
        let doing = || "return to the host's mounts".to_owned();
        move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Mount)).doing(doing)?;
        // The namespace's root is not that of an agent that runs in a chroot.
        let rooted = fchdir(&self.root).and_then(|()| chroot("."));
        // In any case: what a keeper writes lies in its working directory.
        fchdir(&self.work_dir).and(rooted).doing(doing)
    }
}

/// Mounts of this process are its own until it ends.
pub(super) fn make_own(follows: bool) -> Result<(), Failure> {
    unshare(UnshareFlags::NEWNS).doing(|| "make a mount namespace".into())?;
    // Following costs each mount of the host some time for each namespace that does.
    let kind = if follows { MountPropagationFlags::DOWNSTREAM } else { MountPropagationFlags::PRIVATE };
    mount_change("/", MountPropagationFlags::REC | kind).doing(|| "make mounts private".into())
}

/// crun refuses hosts that mount cgroup v2 beside v1, so it does not get to see that mount.
pub(super) fn hide_unified_cgroup() -> Result<(), Failure> {
    match unmount("/sys/fs/cgroup/unified", UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::NOENT | Errno::INVAL) => Ok(()),
        Err(errno) => Err(Failure::new("hide the unified cgroup mount", errno)),
    }
}

/// Mounts a writable layer, in `bundle`, over read-only ones, the uppermost first.
pub(super) fn overlay(layers: &[String], bundle: &Path, target: &Path) -> Result<(), Failure> {
    let (upper, work, lower) = (bundle.join("upper"), bundle.join("work"), layers.join(":"));
    let options = format!("lowerdir={lower},upperdir={},workdir={}", upper.display(), work.display());
    let doing = || "mount the image's layers".to_owned();
    let options = CString::new(options).doing(doing)?;
    mount("overlay", target, "overlay", MountFlags::NODEV | MountFlags::NOSUID, options.as_c_str())
        .doing(doing)
}

/// Says in the bundle which layers the container is made of: whoever removes unused images looks there. What the kernel is
/// given of layers must fit into a page, and an image may have more than a hundred: each goes by a short link. A layer that
/// occurs again further down is left out: overlayfs refuses it, and each name in it is decided by the upper occurrence.
pub(super) fn link_layers(layers: &[String], bundle: &Path) -> Result<Vec<String>, Failure> {
    let links = bundle.join("l");
    std::fs::create_dir_all(&links).doing(|| format!("make {}", links.display()))?;
    let link = |(number, layer): (usize, &String)| {
        let link = links.join(number.to_string());
        std::os::unix::fs::symlink(layer, &link).doing(|| format!("make {}", link.display()))?;
        Ok(link.to_string_lossy().into_owned())
    };
    let mut seen = HashSet::new();
    layers.iter().filter(|layer| seen.insert(*layer)).enumerate().map(link).collect()
}

/// Takes a mount away, busy or not.
pub(super) fn detach(target: &Path) {
    let _ = unmount(target, UnmountFlags::DETACH);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_that_occurs_twice_is_linked_once_where_it_is_uppermost() {
        let bundle = tempfile::tempdir().expect("a directory");
        let layers = ["/y", "/empty", "/x", "/empty", "/base"].map(String::from);
        let links = link_layers(&layers, bundle.path()).expect("linked");
        let targets: Vec<_> = links.iter().map(|link| std::fs::read_link(link).expect("a link")).collect();
        assert_eq!(targets, ["/y", "/empty", "/x", "/base"].map(std::path::PathBuf::from));
    }
}
