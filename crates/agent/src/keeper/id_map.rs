//! Ids of users and groups that are a container's own: a user namespace that gives them numbers of the host which nobody
//! else has, and mounts on which files have the numbers that the disk has.
//!
//! A file that belongs to the user 33 on disk belongs to 33 in the container, in layers of images, volumes and directories
//! of an allocation alike. Only its processes are others for the host: 33 of a container is none of the host's users.

use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getppid, pause};

use crate::failure::{Doing, Failure};

/// How many ids a container has: 0 to 65,535, which is all that most systems give out.
pub(crate) const IDS: u32 = 1 << 16;

/// One container's.
pub(super) struct IdMap {
    first: u32,
    namespace: OwnedFd,
}

impl IdMap {
    /// Root of the container is `first` on the host, and the others follow.
    ///
    /// # Errors
    /// When the kernel gives no user namespace.
    pub(super) fn new(first: u32) -> Result<Self, Failure> {
        let doing = || format!("make a user namespace whose root is {first}");
        let (is_ready, mut ready) = pipe().doing(doing)?;
        let keeper = Pid::this();
        let child = kernel::fork(|| keep_namespace(keeper, &mut ready)).doing(doing)?;
        drop(ready);
        let namespace = open_namespace(child, is_ready, first).doing(doing);
        let _ = kill(child, Signal::SIGKILL);
        waitpid(child, None).doing(doing)?;
        Ok(Self { first, namespace: namespace? })
    }

    /// What the container's `id` is on the host.
    pub(super) fn on_host(&self, id: u32) -> u32 {
        self.first.saturating_add(id)
    }

    /// Makes mounts that are not attached yet, `tree` and those below it, show the container's ids.
    ///
    /// # Errors
    /// `EINVAL` when a filesystem cannot do that.
    pub(super) fn apply(&self, tree: BorrowedFd<'_>) -> io::Result<()> {
        kernel::map_ids(tree, self.namespace.as_fd())
    }
}

/// A namespace lives as long as a process in it, or an open file of it. This one ends with its keeper: it has the keeper's lock
/// open, as whatever is forked.
fn keep_namespace(keeper: Pid, ready: &mut PipeWriter) {
    let made = unshare(CloneFlags::CLONE_NEWUSER).and_then(|()| set_pdeathsig(Signal::SIGKILL));
    // One that died before that sends no signal any more.
    if made.is_ok() && getppid() == keeper && ready.write_all(&[1]).is_ok() {
        pause();
    }
}

fn open_namespace(child: Pid, mut is_ready: PipeReader, first: u32) -> io::Result<OwnedFd> {
    if is_ready.read(&mut [0])? == 0 {
        return Err(io::Error::other("the kernel refuses it: see the sysctl user.max_user_namespaces"));
    }
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{child}/{map}"), format!("0 {first} {IDS}"))?;
    }
    Ok(File::open(format!("/proc/{child}/ns/user"))?.into())
}

/// What neither the standard library nor a crate offers without it.
#[allow(unsafe_code)]
mod kernel {
    use std::io;
    use std::os::fd::{AsRawFd, BorrowedFd};

    use nix::unistd::{ForkResult, Pid};

    /// Makes a process that does this `work`, and nothing else. The work must be made of system calls alone: of the threads
    /// of this process the child has but one, so that a lock that another one holds is never given back there.
    pub(super) fn fork(work: impl FnOnce()) -> nix::Result<Pid> {
        // SAFETY: the child runs nothing but `work`, of which the above is asked, and ends without destructors.
        match unsafe { nix::unistd::fork() }? {
            ForkResult::Parent { child } => Ok(child),
            ForkResult::Child => {
                work();
                // SAFETY: it does not return.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// `mount_setattr(2)` with MOUNT_ATTR_IDMAP, recursively.
    pub(super) fn map_ids(tree: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
        let attributes = libc::mount_attr {
            attr_set: libc::MOUNT_ATTR_IDMAP,
            attr_clr: 0,
            propagation: 0,
            userns_fd: user_namespace.as_raw_fd() as u64,
        };
        let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
        // SAFETY: both descriptors are open for as long as they are borrowed, the path is a string that ends, and the
        // kernel reads as many bytes of `attributes` as it is told there are.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                tree.as_raw_fd(),
                c"".as_ptr(),
                flags,
                &raw const attributes,
                size_of::<libc::mount_attr>(),
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
