//! Starts and ends of tasks, written by the nodes that run them: a record that is independent of the servers.

use std::{
    collections::BTreeMap,
    fmt,
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

/// Where nodes write what becomes of their tasks: a line of JSON, a [`TaskEntry`], for each start and each end.
#[derive(Clone)]
pub struct Journal(Arc<Mutex<Box<dyn Write + Send>>>);

impl Journal {
    /// Writes to `out`, each line at once.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(out))))
    }

    /// A reader that is gone takes nothing from the nodes: they live on.
    pub(super) fn write(&self, entry: &TaskEntry) {
        let Ok(mut line) = serde_json::to_vec(entry) else { return };
        line.push(b'\n');
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Journal")
    }
}

/// A task has started or ended on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskEntry {
    pub change: TaskChange,
    /// The node's number.
    pub node: u32,
    /// The allocation's id.
    pub alloc: String,
    /// The job's id.
    pub job: String,
    /// The labels of the job, overlaid by the group's.
    pub meta: BTreeMap<String, String>,
}

/// What became of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskChange {
    Started,
    /// By itself, stopped, or with its machine.
    Ended,
}
