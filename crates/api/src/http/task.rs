//! Tasks of an allocation: where they are in their lives, and what happened to them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Text, Time};

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "TaskState")]
pub struct TaskState<S: Text = String> {
    /// `pending`, `running` or `dead`.
    pub state: S,
    /// Whether it ended badly for good.
    pub failed: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// By the node's clock.
    pub last_restart: Time,
    /// By the node's clock.
    pub started_at: Time,
    /// By the node's clock.
    pub finished_at: Time,
    /// The last ones, oldest first.
    pub events: Vec<TaskEvent<S>>,
}

/// A moment in a task's life.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "TaskEvent")]
pub struct TaskEvent<S: Text = String> {
    /// What happened.
    #[serde(rename = "Type")]
    pub kind: S,
    /// By the node's clock, nanoseconds.
    pub time: u64,
    /// In words, what happened.
    pub message: S,
    /// In words, what happened.
    pub display_message: S,
    /// The same for programs.
    pub details: BTreeMap<S, S>,
    /// Whether the task has failed by this.
    pub fails_task: bool,
    /// Of a process that ended.
    pub exit_code: i32,
    /// Of a process that ended; 0 for none.
    pub signal: i32,
    /// Nanoseconds until the next start.
    pub start_delay: u64,
}
