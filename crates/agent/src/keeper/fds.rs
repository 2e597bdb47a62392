//! Open files that a process has inherited.

use std::fs::{self, File};
use std::os::fd::RawFd;

use rustix::stdio::{dup2_stdin, dup2_stdout};

use crate::failure::{Failure, FailureContext};

/// Closes all but standard input, output and error. Whatever the agent was started with must not reach a task.
///
/// Only right as the first thing a process does: nothing here may own any of them yet.
pub(super) fn close_inherited() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<RawFd> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The directory's own is among them and closed already, which is no harm.
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        let _ = nix::unistd::close(fd);
    }
}

/// Lets go of the agent's pipes.
pub(super) fn detach_stdio() -> Result<(), Failure> {
    let null = File::options().read(true).write(true).open("/dev/null").doing(|| "open /dev/null".into())?;
    dup2_stdin(&null).doing(|| "replace standard input".into())?;
    dup2_stdout(&null).doing(|| "replace standard output".into())
}
