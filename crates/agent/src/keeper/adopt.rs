//! Takes over a task whose keeper was killed.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::container::Container;
use super::control::Control;
use super::forward::Forwarder;
use super::keep::{LEFT_OVER, claim, conclude, enter, failed, keeper_dir};
use super::output::Outputs;
use super::plan::{ExitRecord, StartRecord, StartStage};
use super::watch::{MainProcess, TaskWatch};
use super::{REFUSED, fds, now_ns, reap};
use crate::cgroups::end_all;
use crate::failure::Failure;
use crate::lifecycle::{StartFailure, StartFailureKind};
use crate::proc;

pub(super) fn main(dir: &str) -> Result<i32, Failure> {
    enter(dir)?;
    let Some(_lock) = claim(|| true)? else { return Ok(REFUSED) };
    let Some(start) = StartRecord::read(keeper_dir())? else { return Ok(REFUSED) };
    let end = ExitRecord::read(keeper_dir())?;
    if end.is_some_and(|end| end.attempt >= start.attempt) {
        return Ok(REFUSED);
    }
    let mut control = Control::bind()?;
    fds::detach_stdio()?;
    let container = start.container.as_ref().map(Container::known);
    let exit = if start.stage() == StartStage::Released {
        let ended = watch_adopted(&start, &mut control)?;
        unknown_end(&start, ended)
    } else {
        kill_unreleased(&start);
        let ended = end_rest(&start) && container.as_ref().is_none_or(Container::end_interrupted);
        failed(&interrupted_start(ended))
    };
    if let Some(container) = container {
        container.delete();
    }
    conclude(start.attempt, exit)
}

/// The process, unless it has ended; a pid alone might be somebody else's by now.
fn open_main(start: &StartRecord) -> Option<(Pid, OwnedFd)> {
    let pid = proc::pid(start.pid)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let same = start.boot_id == proc::boot_id() && proc::start_ticks(pid) == Some(start.pid_start_ticks);
    same.then_some((pid, pidfd))
}

/// Whether all of it has ended.
fn watch_adopted(start: &StartRecord, control: &mut Control) -> Result<bool, Failure> {
    let Some((pid, pidfd)) = open_main(start) else { return Ok(end_rest(start)) };
    if let Err(failure) = Forwarder::retake(&start.forwards).serve(pid) {
        eprintln!("{failure}");
    }
    let mut watch = TaskWatch::new(MainProcess::Adopted(pidfd), Outputs::open(&start.logs)?, control);
    watch.until_the_end();
    let ended = end_rest(start);
    if start.cgroups().is_empty() {
        reap::end_session(pid);
    }
    watch.drain();
    Ok(ended)
}

/// What a process of the host left behind is nobody's child that could be recognized by its parents.
fn end_rest(start: &StartRecord) -> bool {
    end_all(&start.cgroups())
}

fn kill_unreleased(start: &StartRecord) {
    if let Some((_, pidfd)) = open_main(start) {
        let _ = pidfd_send_signal(pidfd, Signal::KILL);
    }
}

fn unknown_end(start: &StartRecord, ended: bool) -> ExitRecord {
    let is_contained = start.container.is_some() || !start.cgroups().is_empty();
    let more = match (ended, is_contained) {
        (false, _) => format!("; {LEFT_OVER}"),
        (true, true) => String::new(),
        (true, false) => "; what left its session may live on, for the node has no cgroups".into(),
    };
    let message = format!("how it ended is unknown: its keeper was killed{more}");
    ExitRecord { exit_code: -1, finished_ns: now_ns(), message, ..ExitRecord::default() }
}

/// Where something of it lives on, it is not started again.
fn interrupted_start(ended: bool) -> StartFailure {
    let (kind, more) = match ended {
        true => (StartFailureKind::Recoverable, String::new()),
        false => (StartFailureKind::Driver, format!("; {LEFT_OVER}")),
    };
    let message = format!("start the task: its keeper was killed meanwhile{more}");
    StartFailure { kind, message }
}
