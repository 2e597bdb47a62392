//! A command beside a process of the host: with its user, environment and working directory.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::process::{Pid, getpid};

use crate::failure::{Failure, FailureContext};
use crate::keeper::memory;
use crate::keeper::output::TaskEnds;
use crate::keeper::plan::ProcessRun;
use crate::keeper::process::PausedProcess;

/// Starts it; it leads a session of its own, which its terminal belongs to if it has one.
pub(super) fn start(run: &ProcessRun, keeper_args: &[String]) -> Result<Pid, Failure> {
    let ends = ends()?;
    // Not the task's cgroup: this process ends what it started, and reports why, before the task's end is known.
    let mut run = ProcessRun { cgroup: String::new(), limits: Vec::new(), ..run.clone() };
    if !run.terminal {
        run.stdin = format!("/proc/{}/fd/0", getpid());
    }
    // The command opens what this process has been given as its input.
    memory::open_while(|| {
        let process = PausedProcess::create(&run, keeper_args, ends)?;
        process.release().map_err(|failure| Failure::other("run the command", failure.message))
    })
}

/// The command's, which this process was given.
pub(super) fn ends() -> Result<TaskEnds, Failure> {
    Ok(TaskEnds { stdout: copy(io::stdout().as_fd())?, stderr: copy(io::stderr().as_fd())? })
}

fn copy(fd: std::os::fd::BorrowedFd<'_>) -> Result<File, Failure> {
    fd.try_clone_to_owned().map(File::from).doing(|| "pass on the command's output".into())
}
