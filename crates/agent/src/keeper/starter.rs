//! The process that becomes the task: waits until it is on record, then turns into the task's program.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::SigSet;
use nix::unistd::{Gid, initgroups, setgid, setgroups, setuid};
use prost::Message;

use super::plan::ProcessRun;
use crate::failure::{Doing, Failure};
use crate::users;

/// Its exit code when it could not become the program; nobody sees it.
const FAILED: i32 = 127;

/// The largest description of a process that is read.
const RUN_BYTES_MAX: usize = 4 << 20;

pub(super) fn main() -> Result<i32, Failure> {
    let keeper = io::stdin().as_fd().try_clone_to_owned().doing(|| "take the keeper's socket".into())?;
    let mut keeper = UnixStream::from(keeper);
    let run = read_run(&mut keeper)?;
    let mut go = [0];
    if keeper.read_exact(&mut go).is_err() {
        // The keeper is gone, and whether this start is on record nobody knows.
        return Ok(FAILED);
    }
    let failure = become_task(&run);
    let _ = keeper.write_all(failure.to_string().as_bytes());
    Ok(FAILED)
}

fn read_run(keeper: &mut UnixStream) -> Result<ProcessRun, Failure> {
    let doing = || "read what to run".to_owned();
    let mut bytes = Vec::new();
    let mut byte = [0];
    while bytes.last().is_none_or(|last| last & 0x80 != 0) {
        keeper.read_exact(&mut byte).doing(doing)?;
        bytes.push(byte[0]);
    }
    let len =
        prost::decode_length_delimiter(bytes.as_slice()).map_err(|error| Failure::other(doing(), error))?;
    let mut message = vec![0; len.min(RUN_BYTES_MAX)];
    keeper.read_exact(&mut message).doing(doing)?;
    ProcessRun::decode(message.as_slice()).map_err(|error| Failure::other(doing(), error))
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
    nix::unistd::setsid().doing(|| "begin a session".into())?;
    SigSet::empty().thread_set_mask().doing(|| "unblock signals".into())?;
    let null = File::open("/dev/null").doing(|| "open /dev/null".into())?;
    nix::unistd::dup2_stdin(&null).doing(|| "replace standard input".into())?;
    if run.user.is_empty() { Ok(()) } else { switch_user(&run.user) }
}

fn switch_user(name: &str) -> Result<(), Failure> {
    let doing = || format!("become the user {name}");
    let user = users::find(name)?;
    let c_name = std::ffi::CString::new(user.name).map_err(|error| Failure::other(doing(), error))?;
    set_groups(&c_name, user.gid).doing(doing)?;
    setgid(user.gid).doing(doing)?;
    setuid(user.uid).doing(doing)
}

fn set_groups(name: &std::ffi::CStr, gid: Gid) -> nix::Result<()> {
    initgroups(name, gid).or_else(|_| setgroups(&[gid]))
}
