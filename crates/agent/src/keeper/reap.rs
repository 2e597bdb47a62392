//! Children: the task, and whatever it left behind.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::watch::End;
use crate::proc;

/// How long leftover processes are given to die.
const LEFTOVERS_WAIT_MAX: Duration = Duration::from_secs(10);

/// Reaps all children that have ended; answers with the end of `main` when that is among them.
pub(super) fn reap(main: Pid) -> Option<End> {
    let mut end = None;
    loop {
        match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, exit_code)) if pid == main => end = Some(End { exit_code, signal: 0 }),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == main => {
                end = Some(End { exit_code: 128 + signal as i32, signal: signal as i32 });
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return end,
            Ok(_) => {}
        }
    }
}

/// Kills children until there are none; true when some would not go.
///
/// Only direct children are ever killed: their pids stay theirs until this process reaps them. What they leave behind
/// becomes a child of this process in turn.
pub(super) fn end_all_children() -> bool {
    let deadline = Instant::now() + LEFTOVERS_WAIT_MAX;
    while has_children() {
        if Instant::now() > deadline {
            return true;
        }
        for child in proc::children(Pid::this()) {
            let _ = kill(child, Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

fn has_children() -> bool {
    loop {
        match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Err(Errno::ECHILD) => return false,
            Ok(_) | Err(_) => {}
        }
    }
}

/// Kills what is left of a session whose leader has ended: what has begun one of its own is not among it.
pub(super) fn end_session(leader: Pid) {
    let _ = nix::sys::signal::killpg(leader, Signal::SIGKILL);
    for member in proc::members(leader) {
        let _ = kill(member, Signal::SIGKILL);
    }
}
