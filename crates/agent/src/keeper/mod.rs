//! A small process beside each task: it starts the task, reaps it, keeps its output and writes down how it ended.
//!
//! The same binary, called again. A keeper outlives the agent: killing the agent costs no task, no output and no exit
//! code. It works in a directory of its own, where it holds a lock, listens on a socket and leaves two records:
//! [`plan::StartRecord`] before anything runs, [`plan::ExitRecord`] once nothing runs any more. A task's start is
//! numbered, and a number that is in either record is never started again.
//!
//! Should a keeper be killed, the task lives on, and the agent calls another one to adopt it.

mod adopt;
mod binds;
pub(crate) mod container;
mod control;
pub(crate) mod exec;
mod fds;
mod forward;
mod id_map;
mod inherited_limits;
mod keep;
mod memory;
mod mounts;
mod output;
mod output_rate;
pub mod plan;
mod process;
mod reap;
mod rootfs;
mod signals;
pub(crate) mod stage;
mod starter;
pub(crate) mod unpack;
mod user;
mod watch;

pub(crate) use self::id_map::IDS;
pub(crate) use self::inherited_limits::{oom_score, open_files};

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Mode;
use rustix::process::umask;

use crate::images::unpack::Content;

/// What new files of tasks grant to nobody but their owner unless asked to.
const NEW_FILES_MASK: Mode = Mode::WGRP.union(Mode::WOTH);

/// A keeper's exit code when another keeper has the directory, or the start was made before.
pub const REFUSED: i32 = 75;

/// The keeper's own main function, to be called before anything else of the process happens: with a directory it keeps
/// the task that standard input describes, with `adopt` and a directory it takes over one whose keeper is gone, with
/// `exec` and a socket it runs a command within a task, and with `become` it turns into a task or such a command. With
/// `unpack` and a directory it unpacks there the layer of an image that standard input gives, and with `unpack-files` an
/// archive of files for a task; with `unpack-zip` one that standard input is. With `try-ids`, a number and a directory it finds
/// out whether containers whose files lie there can have users whose ids begin with that number.
pub fn main(args: &[String]) -> i32 {
    fds::close_inherited();
    signals::catch_ignored();
    // Whatever the agent's is, as 077 of a careful operator: users of a container's own pass through what is made for it.
    umask(NEW_FILES_MASK);
    memory::leave_none();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["become"] => starter::main(),
        ["exec", socket] => exec::main(socket),
        ["adopt", dir] => adopt::main(dir),
        ["try-ids", first, dir] => stage::try_ids(first, dir),
        ["unpack" | "unpack-files" | "unpack-zip", _] => unpack::run_isolated(&words),
        [unpack::APART, "unpack", dir] => unpack::main(dir, Content::Layer),
        [unpack::APART, "unpack-files", dir] => unpack::main(dir, Content::Files),
        [unpack::APART, "unpack-zip", dir] => unpack::main_zip(dir),
        [dir] => keep::main(dir),
        _ => {
            eprintln!("usage: keeper DIRECTORY | keeper adopt DIRECTORY");
            return 2;
        }
    };
    outcome.unwrap_or_else(|failure| {
        eprintln!("{failure}");
        1
    })
}

fn now_ns() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}
