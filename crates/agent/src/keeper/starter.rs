//! The process that becomes the task, or a command within it: it waits until its start is on record, then executes the program.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::fchown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::thread::{
    CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity, set_thread_gid, set_thread_uid,
};

use super::exec::plan::read_message;
use super::inherited_limits::shed;
use super::plan::ProcessRun;
use super::signals::unblock_all;
use crate::failure::{Failure, FailureContext};
use crate::users::{self, User};

/// Its exit code when it could not become the program; nobody sees it.
const FAILED: i32 = 127;

pub(super) fn main() -> Result<i32, Failure> {
    let keeper = io::stdin().as_fd().try_clone_to_owned().doing(|| "take the keeper's socket".into())?;
    let mut keeper = UnixStream::from(keeper);
    let run: ProcessRun = read_message(&mut keeper).doing(|| "read what to run".into())?;
    let mut go = [0];
    if keeper.read_exact(&mut go).is_err() {
        // The keeper is gone, and whether this start is on record nobody knows.
        return Ok(FAILED);
    }
    let failure = become_task(&run);
    let _ = keeper.write_all(failure.to_string().as_bytes());
    Ok(FAILED)
}

/// Returns only when that fails.
fn become_task(run: &ProcessRun) -> Failure {
    if let Err(failure) = prepare(run) {
        return failure;
    }
    let mut command = Command::new(&run.program);
    command.args(&run.args).env_clear().envs(&run.env).current_dir(&run.dir);
    let error = command.exec();
    Failure::new(format!("run {} in {}", run.program, run.dir), error)
}

fn prepare(run: &ProcessRun) -> Result<(), Failure> {
    setsid().doing(|| "begin a session".into())?;
    unblock_all().doing(|| "unblock signals".into())?;
    shed()?;
    pin(&run.cores)?;
    enter_network(&run.network)?;
    let user = if run.user.is_empty() { None } else { Some(users::find(&run.user)?) };
    if run.terminal {
        take_terminal(&run.stdin, user.as_ref())?
    } else {
        take_input(&run.stdin)?
    }
    user.map_or(Ok(()), switch_user)
}

/// What it starts runs there, too.
fn pin(cores: &[u32]) -> Result<(), Failure> {
    if cores.is_empty() {
        return Ok(());
    }
    let doing = || format!("pin the task to the cores {cores:?}");
    let mut set = CpuSet::new();
    for core in cores.iter().map(|core| *core as usize) {
        if core >= CpuSet::MAX_CPU {
            return Err(Failure::new(doing(), Errno::INVAL));
        }
        set.set(core);
    }
    sched_setaffinity(None, &set).doing(doing)
}

fn enter_network(path: &str) -> Result<(), Failure> {
    if path.is_empty() {
        return Ok(());
    }
    let doing = || format!("enter the network {path}");
    let network = File::open(path).doing(doing)?;
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).doing(doing)
}

fn take_input(path: &str) -> Result<(), Failure> {
    let path = if path.is_empty() { "/dev/null" } else { path };
    let input = File::open(path).doing(|| format!("open {path}"))?;
    dup2_stdin(&input).doing(|| "replace standard input".into())
}

/// Opened by the leader of a session without one, a terminal becomes the session's own.
fn take_terminal(path: &str, user: Option<&User>) -> Result<(), Failure> {
    let doing = || format!("take the terminal {path}");
    let terminal = File::options().read(true).write(true).open(path).doing(doing)?;
    if let Some(user) = user {
        fchown(&terminal, Some(user.uid.as_raw()), None).doing(doing)?;
    }
    dup2_stdin(&terminal).doing(doing)?;
    dup2_stdout(&terminal).doing(doing)?;
    dup2_stderr(&terminal).doing(doing)
}

/// The kernel changes one thread alone, and this process has no other: the program that it becomes has these ids.
fn switch_user(user: User) -> Result<(), Failure> {
    let doing = || format!("become the user {}", user.name);
    user.join_groups(doing)?;
    set_thread_gid(user.gid).doing(doing)?;
    set_thread_uid(user.uid).doing(doing)
}
