//! Cgroups that hold the processes of a task together, whatever these do to their parents, groups and sessions.
//!
//! Version 2 wherever it is mounted, alone or beside version 1; else the freezer of version 1. All of Berth's lie in one
//! directory, `berth`, beside those that OCI runtimes make for containers.

mod group;
mod leftovers;
mod mounts;

use std::fs;
use std::path::PathBuf;

use crate::failure::{Doing, Failure};
pub(crate) use group::Cgroup;
pub(crate) use leftovers::remove_leftovers;
use mounts::candidates;

/// The directory of all of Berth's.
const DIR: &str = "berth";

/// Where cgroups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cgroups {
    dir: PathBuf,
    /// 1 or 2.
    pub(crate) version: u8,
}

impl Cgroups {
    /// Those that this process may make.
    ///
    /// # Errors
    /// When there are none, with the reason for each hierarchy that is mounted.
    pub(crate) fn find() -> Result<Self, Failure> {
        let doing = || "hold the processes of tasks in cgroups".to_owned();
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").doing(doing)?;
        let mut reasons = Vec::new();
        for (mount, version) in candidates(&mountinfo) {
            let found = Self { dir: mount.join(DIR), version };
            match found.probe() {
                Ok(()) => return Ok(found),
                Err(failure) => reasons.push(failure.to_string()),
            }
        }
        if reasons.is_empty() {
            reasons.push("neither version 2 nor the freezer of version 1 is mounted".into());
        }
        Err(Failure::other(doing(), reasons.join("; ")))
    }

    /// Where the cgroup of this name is, or would be.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn probe(&self) -> Result<(), Failure> {
        let probe = Cgroup::at(self.dir.join(format!("probe-{}", std::process::id())));
        probe.make()?;
        fs::remove_dir(probe.path()).doing(|| format!("remove the cgroup {}", probe.path().display()))
    }
}
