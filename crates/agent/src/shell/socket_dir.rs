//! Sockets in a task's keeper directory. A socket's path has room for some 100 bytes; through the open directory it is
//! always short.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

/// An open directory, through which its sockets have short paths.
pub(super) struct SocketDir(OwnedFd);

impl SocketDir {
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(open(dir, flags, Mode::empty())?))
    }

    /// A short path of a file in it, good for as long as this lives.
    pub(super) fn path(&self, name: &str) -> String {
        format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd())
    }
}
