//! Waits for the end of the task's main process; meanwhile moves its output to the logs and serves the control socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, pidfd_send_signal};

use super::control::{Control, ControlRequest};
use super::output::Outputs;
use super::reap::reap;
use super::signals::{self, ChildSignals};

/// How long the output pipes are read once nothing of the task is left; only something outside can hold them open.
const DRAIN_MAX: Duration = Duration::from_secs(1);

const DRAIN_LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Only guards against a lost wake-up: a thousand keepers that look each second take more of the machine than their agent.
const LOOK_AGAIN_EVERY: Duration = Duration::from_secs(10);

/// How a task's main process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MainExit {
    pub(super) exit_code: i32,
    pub(super) signal: i32,
}

/// The task's main process.
pub(super) enum MainProcess {
    /// A child of this process.
    Child(Pid),
    /// A child of somebody else, who will not report how it ended.
    Adopted(OwnedFd),
}

pub(super) struct TaskWatch<'a> {
    main: MainProcess,
    children: Option<ChildSignals>,
    outputs: Outputs,
    control: &'a mut Control,
}

impl<'a> TaskWatch<'a> {
    pub(super) fn new(main: MainProcess, outputs: Outputs, control: &'a mut Control) -> Self {
        Self { main, children: ChildSignals::catch(), outputs, control }
    }

    pub(super) fn until_the_end(&mut self) -> MainExit {
        loop {
            // Looked at before the first sleep: the end may have come before its signal was caught.
            if let Some(end) = self.end() {
                return end;
            }
            self.outputs.pump();
            let main = &self.main;
            self.control.serve(|request| perform(main, request));
            self.sleep(self.outputs.pause().unwrap_or(LOOK_AGAIN_EVERY));
        }
    }

    /// Reads what is left in the output pipes.
    pub(super) fn drain(&mut self) {
        let deadline = Instant::now() + DRAIN_MAX;
        self.outputs.pump();
        while !self.outputs.are_closed() && Instant::now() < deadline {
            let mut fds: Vec<_> = self.outputs.fds().map(readable).collect();
            let _ = poll(&mut fds, Some(&DRAIN_LOOK_EVERY));
            self.outputs.pump();
        }
    }

    /// Until something happens, or the timeout is over.
    fn sleep(&self, timeout: Duration) {
        let children = self.children.iter().map(AsFd::as_fd);
        let adopted = if let MainProcess::Adopted(pidfd) = &self.main { Some(pidfd.as_fd()) } else { None };
        let fds = children.chain(adopted).chain(self.outputs.fds()).chain(self.control.fds());
        let mut fds: Vec<_> = fds.map(readable).collect();
        let _ = poll(&mut fds, Timespec::try_from(timeout).ok().as_ref());
    }

    fn end(&self) -> Option<MainExit> {
        self.children.iter().for_each(ChildSignals::take);
        match &self.main {
            MainProcess::Child(pid) => reap(*pid),
            MainProcess::Adopted(pidfd) => {
                let mut fds = [readable(pidfd.as_fd())];
                let ended = poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
                ended.then_some(MainExit { exit_code: -1, signal: 0 })
            }
        }
    }
}

pub(super) fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

fn perform(main: &MainProcess, request: ControlRequest) -> io::Result<()> {
    let number = if let ControlRequest::Signal(number) = request { number } else { Signal::KILL.as_raw() };
    let signal = signals::numbered(number).ok_or(io::ErrorKind::InvalidInput)?;
    match main {
        MainProcess::Child(pid) => {
            if request == ControlRequest::Kill {
                // Processes that left the group die when the main process has been reaped.
                let _ = kill_process_group(*pid, Signal::KILL);
            }
            Ok(kill_process(*pid, signal)?)
        }
        MainProcess::Adopted(pidfd) => Ok(pidfd_send_signal(pidfd, signal)?),
    }
}
