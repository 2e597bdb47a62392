//! Limits that a keeper inherits from its agent and a task must not have: protection from the OOM killer, and more open files than
//! old programs can take.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::{Failure, FailureContext};

/// Files that a task may have open unless it asks for more: programs that use `select` break above.
const OPEN_FILES: u64 = 1_024;

/// Where a process says how readily the kernel is to end it for want of memory.
const OOM_SCORE: &str = "/proc/self/oom_score_adj";

/// How many files a task may have open, and how many it may ask for.
pub(crate) fn open_files() -> (u64, u64) {
    // Without a limit, as many as there are numbers.
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    (OPEN_FILES.min(most), most)
}

/// How readily the kernel is to end a task for want of memory: as its agent, but never less than others of the host.
pub(crate) fn oom_score() -> i32 {
    fs::read_to_string(OOM_SCORE).ok().and_then(|score| score.trim().parse().ok()).unwrap_or(0).max(0)
}

/// From here on this process is like any other of the host.
pub(super) fn shed() -> Result<(), Failure> {
    let (files, most) = open_files();
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: Some(most) })
        .doing(|| "limit its open files".into())?;
    let score = fs::read_to_string(OOM_SCORE).unwrap_or_default();
    if score.starts_with('-') {
        fs::write(OOM_SCORE, "0").doing(|| format!("write {OOM_SCORE}"))?;
    }
    Ok(())
}
