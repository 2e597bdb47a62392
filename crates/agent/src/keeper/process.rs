//! The process of a task of the host: created paused, so that its pid is on disk before its program runs.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use prost::Message;
use rustix::process::Pid;

use super::output::TaskEnds;
use super::plan::ProcessRun;
use crate::cgroups::Cgroup;
use crate::failure::{Failure, FailureContext};
use crate::lifecycle::{StartFailure, StartFailureKind};

/// How long a released process may take to become its program.
const EXEC_WAIT_MAX: Duration = Duration::from_secs(30);

/// A process that waits for its release; it ends by itself when this is dropped, or the keeper killed.
pub(super) struct PausedProcess {
    pid: Pid,
    starter: UnixStream,
}

impl PausedProcess {
    /// This binary again: a process may only change itself between fork and exec with code that is not memory-safe, so
    /// it is given a main function of its own. It is in its task's cgroup before it runs anything else.
    pub(super) fn create(run: &ProcessRun, keeper_args: &[String], ends: TaskEnds) -> Result<Self, Failure> {
        let doing = || "make the task's process".to_owned();
        let (mut ours, theirs) = UnixStream::pair().doing(doing)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(keeper_args).arg("become").env_clear();
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(ends.stdout).stderr(ends.stderr);
        let child = command.spawn().doing(doing)?;
        let pid = Pid::from_child(&child);
        run.cgroups().into_iter().try_for_each(|cgroup| Cgroup::at(cgroup).join(pid))?;
        ours.write_all(&run.encode_length_delimited_to_vec()).doing(doing)?;
        ours.set_read_timeout(Some(EXEC_WAIT_MAX)).doing(doing)?;
        Ok(Self { pid, starter: ours })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Lets it run; returns when it has become its program.
    pub(super) fn release(mut self) -> Result<Pid, StartFailure> {
        let doing = || "start the task's process".to_owned();
        self.starter.write_all(b"!").doing(doing)?;
        self.starter.shutdown(Shutdown::Write).doing(doing)?;
        let mut complaint = String::new();
        self.starter.read_to_string(&mut complaint).doing(doing)?;
        if complaint.is_empty() {
            return Ok(self.pid);
        }
        Err(StartFailure { kind: StartFailureKind::Driver, message: complaint })
    }
}
