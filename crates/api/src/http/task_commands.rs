//! Commands to single tasks of an allocation: restart, signal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Asks to restart tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocRestart {
    /// The task's name; empty for all that run.
    pub task_name: String,
    /// Those that have ended well start again, too.
    pub all_tasks: bool,
}

/// Asks to send a signal to tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocSignal {
    /// The task's name; empty for all that run.
    pub task: String,
    /// As `SIGHUP`; empty for `SIGKILL`.
    pub signal: String,
}
