//! Children: the task, and whatever it left behind.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, wait};

use super::watch::MainExit;
use crate::proc;

/// How long leftover processes are given to die.
const LEFTOVERS_WAIT_MAX: Duration = Duration::from_secs(10);

/// Reaps all children that have ended; answers with the end of `main` when that is among them.
pub(super) fn reap(main: Pid) -> Option<MainExit> {
    let mut end = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == main => end = end.or(end_of(status)),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return end,
        }
    }
}

/// By numbers: signals of real time have no names.
fn end_of(status: WaitStatus) -> Option<MainExit> {
    let signalled = || status.terminating_signal().map(|signal| MainExit { exit_code: 128 + signal, signal });
    status.exit_status().map(|exit_code| MainExit { exit_code, signal: 0 }).or_else(signalled)
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
        for child in proc::children(getpid()) {
            let _ = kill_process(child, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

fn has_children() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(None) => return true,
            Err(Errno::CHILD) => return false,
            Ok(_) | Err(_) => {}
        }
    }
}

/// Kills what is left of a session whose leader has ended: what has begun one of its own is not among it.
pub(super) fn end_session(leader: Pid) {
    let _ = kill_process_group(leader, Signal::KILL);
    for member in proc::members(leader) {
        let _ = kill_process(member, Signal::KILL);
    }
}
