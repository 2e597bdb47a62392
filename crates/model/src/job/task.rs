//! A task: one process or container.

use std::{collections::BTreeMap, time::Duration};

use minicbor::{Decode, Encode};

use super::RestartPolicy;
use crate::{constraint::Constraint, value::Value};

/// One process or container, and how its driver starts it.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Task {
    /// Unique in its group.
    #[n(0)]
    pub name: String,
    /// The driver's name.
    #[n(1)]
    pub driver: String,
    /// What only the driver understands.
    #[n(2)]
    pub config: BTreeMap<String, Value>,
    /// Runs as this user; empty for the driver's default.
    #[n(3)]
    pub user: String,
    /// Environment; values may hold `${...}`.
    #[n(4)]
    pub env: BTreeMap<String, String>,
    /// In addition to the group's.
    #[n(5)]
    pub constraints: Vec<Constraint>,
    /// What it holds.
    #[n(6)]
    pub resources: TaskResources,
    /// When it ends by itself.
    #[n(7)]
    pub restart: RestartPolicy,
    /// The owner's own labels.
    #[n(8)]
    pub meta: BTreeMap<String, String>,
    /// Between the kill signal and SIGKILL.
    #[n(9)]
    #[cbor(with = "crate::codec::duration")]
    pub kill_timeout: Duration,
    /// A signal's name, as SIGTERM; empty for the driver's default.
    #[n(10)]
    pub kill_signal: String,
    /// How its output is kept.
    #[n(11)]
    pub logs: LogConfig,
    /// When it ends, the group's other tasks are stopped.
    #[n(12)]
    pub leader: bool,
    /// Waited before the kill signal.
    #[n(13)]
    #[cbor(with = "crate::codec::duration")]
    pub shutdown_delay: Duration,
}

/// What one task holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct TaskResources {
    /// MHz; 100 when not given.
    #[n(0)]
    pub cpu_mhz: u32,
    /// MiB; 300 when not given.
    #[n(1)]
    pub memory_mb: u32,
}

impl Default for TaskResources {
    fn default() -> Self {
        Self { cpu_mhz: 100, memory_mb: 300 }
    }
}

/// How a task's standard output and error are kept: rotated files of bounded size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct LogConfig {
    /// Files kept for each of the two; 10 when not given.
    #[n(0)]
    pub max_files: u32,
    /// MiB; 10 when not given.
    #[n(1)]
    pub max_file_size_mb: u32,
    /// Keep nothing.
    #[n(2)]
    pub disabled: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { max_files: 10, max_file_size_mb: 10, disabled: false }
    }
}
