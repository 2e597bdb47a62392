//! Ids of users and groups that are a container's own: a user namespace that gives them numbers of the host which nobody
//! else has, and mounts on which files have the numbers that the disk has.
//!
//! A file that belongs to the user 33 on disk belongs to 33 in the container, in layers of images, volumes and directories
//! of an allocation alike. Only its processes are others for the host: 33 of a container is none of the host's users.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::Pid;

use super::memory;
use crate::failure::{Failure, FailureContext};

/// How many ids a container has: 0 to 65,535, which is all that most systems give out.
pub(crate) const IDS: u32 = 1 << 16;

/// How the ids of users within one container map to the host's.
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
        let process = kernel::Settler::new().map_err(refused).doing(doing)?;
        let namespace = memory::open_while(|| open_namespace(process.pid(), first)).doing(doing)?;
        Ok(Self { first, namespace })
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

fn refused(error: io::Error) -> io::Error {
    io::Error::other(format!("the kernel refuses it: {error}: see the sysctl user.max_user_namespaces"))
}

fn open_namespace(of: Pid, first: u32) -> io::Result<OwnedFd> {
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{of}/{map}"), format!("0 {first} {IDS}"))?;
    }
    Ok(File::open(format!("/proc/{of}/ns/user"))?.into())
}

/// What neither the standard library nor a crate offers without it.
#[allow(unsafe_code)]
mod kernel {
    use std::ffi::{c_int, c_void};
    use std::io;
    use std::os::fd::{AsRawFd, BorrowedFd};

    use rustix::io::{Errno, retry_on_intr};
    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

    /// What it takes to wait, and to be interrupted at that.
    const STACK_BYTES: usize = 64 << 10;

    /// A process that does nothing in a user namespace of its own, which lives as long as a process is in it, or a file of it
    /// is open. It uses the memory of this process, of which nothing is copied, and ends when this is dropped, or with this
    /// process: it has the keeper's lock open, as whatever is forked.
    pub(super) struct Settler {
        pid: Pid,
        /// After the process, which stands on it.
        _stack: Box<[u8]>,
    }

    impl Settler {
        pub(super) fn new() -> io::Result<Self> {
            let mut stack = vec![0; STACK_BYTES].into_boxed_slice();
            let end = stack.as_mut_ptr_range().end;
            let top = end.wrapping_sub(end.addr() % 16).cast::<c_void>();
            let flags = libc::CLONE_NEWUSER | libc::CLONE_VM | libc::SIGCHLD;
            let parent = std::ptr::without_provenance_mut(std::process::id() as usize);
            // SAFETY: `stay` touches nothing but its stack, which is its own and stays until it has ended.
            let pid = unsafe { libc::clone(stay, top, flags, parent) };
            if pid < 0 {
                return Err(io::Error::last_os_error());
            }
            // Only the process that was made would be told 0.
            let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
            Ok(Self { pid, _stack: stack })
        }

        pub(super) fn pid(&self) -> Pid {
            self.pid
        }
    }

    impl Drop for Settler {
        fn drop(&mut self) {
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()));
        }
    }

    /// Waits for its end, unless its parent has ended before it could ask to be ended with it.
    extern "C" fn stay(parent: *mut c_void) -> c_int {
        // SAFETY: system calls without pointers.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0
                && libc::getppid() as usize == parent.addr()
            {
                libc::pause();
            }
        }
        0
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
        // kernel reads as many bytes of `attributes` as it is instructed to.
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
