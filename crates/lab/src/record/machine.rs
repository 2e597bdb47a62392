//! The machine that was measured on, and the version of the code.

use std::process::Command;

use procfs::{CpuInfo, Current, Meminfo};
use serde::{Deserialize, Serialize};

/// What every figure must be read with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub cpus: usize,
    /// Main memory, in bytes.
    pub memory_bytes: u64,
    /// The processor's model name.
    pub cpu_model: String,
    /// What was checked out where the run was started, `-dirty` when it was changed since; empty outside of a
    /// repository.
    pub commit: String,
}

impl Machine {
    /// This one. What cannot be found out stays empty.
    pub fn this() -> Self {
        let cpu_model = CpuInfo::current().ok().and_then(|info| info.model_name(0).map(str::to_owned));
        Self {
            cpus: std::thread::available_parallelism().map_or(0, |cpus| cpus.get()),
            memory_bytes: Meminfo::current().map_or(0, |memory| memory.mem_total),
            cpu_model: cpu_model.unwrap_or_default(),
            commit: commit().unwrap_or_default(),
        }
    }
}

fn commit() -> Option<String> {
    let args = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
