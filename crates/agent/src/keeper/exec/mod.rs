//! Runs a command within a task, for as long as the agent holds the other end of its socket.
//!
//! A process of its own: whatever the command leaves behind becomes its child, and ends with it; should the agent be
//! killed, the command is ended. Its standard input, output and error are the command's.

mod container;
pub(crate) mod plan;
mod process;

pub(crate) use container::process_json;

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use prost::Message;
use rustix::event::{Timespec, poll};
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group, set_child_subreaper};

use self::plan::{ExecPlan, ExecReport, ExecStage, read_message};
use super::plan::Run;
use super::signals::ChildSignals;
use super::watch::{MainExit, readable};
use super::{fds, keep, reap};
use crate::failure::{Failure, FailureContext};

/// How often it looks after its child though nothing has happened: only guards against a lost wake-up.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// `socket` is where the agent listens, as seen from the working directory: that of the task's keeper.
pub(super) fn main(socket: &str) -> Result<i32, Failure> {
    let doing = || "speak with the agent".to_owned();
    keep::enter(".")?;
    let mut agent = UnixStream::connect(socket).doing(doing)?;
    let plan: ExecPlan = read_message(&mut agent).doing(|| "read the plan".into())?;
    set_child_subreaper(Some(getpid())).doing(|| "become a reaper".into())?;
    let children = ChildSignals::catch();
    match start(&plan) {
        Err(failure) => report(&mut agent, ExecStage::Failed(failure.to_string())).doing(doing)?,
        Ok(main) => {
            // From here on the command alone says when its input is unwanted and its output complete. Whatever fails of this,
            // the command runs: it is waited for, and ended where the agent is gone.
            if let Err(failure) = fds::detach_stdio() {
                eprintln!("{failure}");
            }
            let _ = report(&mut agent, ExecStage::Started(true));
            let end = wait(main, &agent, children.as_ref());
            reap::end_all_children();
            report(&mut agent, ExecStage::Exited(end.exit_code)).doing(doing)?;
        }
    }
    Ok(0)
}

fn start(plan: &ExecPlan) -> Result<Pid, Failure> {
    match &plan.run {
        Some(Run::Process(run)) => process::start(run, &plan.keeper_args),
        Some(Run::Container(run)) => container::start(run, &plan.console_socket),
        None => Err(Failure::other("read the plan", "it says not what to run")),
    }
}

fn report(agent: &mut UnixStream, stage: ExecStage) -> io::Result<()> {
    agent.write_all(&ExecReport::new(stage).encode_length_delimited_to_vec())
}

/// Until the command has ended. The agent says nothing more; it hangs up when nobody waits any longer.
fn wait(main: Pid, agent: &UnixStream, children: Option<&ChildSignals>) -> MainExit {
    let mut watched = true;
    loop {
        children.into_iter().for_each(ChildSignals::take);
        if let Some(end) = reap::reap(main) {
            return end;
        }
        let agent_fd = watched.then(|| agent.as_fd());
        let mut fds: Vec<_> = agent_fd.into_iter().chain(children.map(AsFd::as_fd)).map(readable).collect();
        let _ = poll(&mut fds, Some(&LOOK_EVERY));
        let hung_up = watched && fds.first().is_some_and(|fd| !fd.revents().is_empty());
        if hung_up {
            watched = false;
            let _ = kill_process_group(main, Signal::KILL);
            let _ = kill_process(main, Signal::KILL);
        }
    }
}
