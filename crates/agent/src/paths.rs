//! Where the directories of an allocation are.

use std::path::{Path, PathBuf};

use berth_api::agent::AllocId;

/// One allocation's directory. What tasks may write to lies apart from what the agent and the keepers rely on.
#[derive(Debug, Clone)]
pub struct AllocPaths {
    root: PathBuf,
}

impl AllocPaths {
    /// The directory of `alloc` under the agent's data directory.
    pub fn new(data_dir: &Path, alloc: AllocId) -> Self {
        Self { root: data_dir.join("allocs").join(alloc.to_string()) }
    }

    /// The directory of another allocation of the same node.
    pub(crate) fn of(&self, alloc: AllocId) -> Self {
        Self { root: self.root.with_file_name(alloc.to_string()) }
    }

    /// Holds all else, and the agent's own record.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Shared by the tasks.
    pub fn shared_dir(&self) -> PathBuf {
        self.root.join("alloc")
    }

    /// Output of all tasks.
    pub fn logs_dir(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// One task's own: `local`, `secrets` and `tmp`.
    pub fn task_dir(&self, task: &str) -> PathBuf {
        self.root.join("tasks").join(task)
    }

    /// What a task's keeper keeps.
    pub fn keeper_dir(&self, task: &str) -> PathBuf {
        self.root.join("keepers").join(task)
    }
}

/// Whether a task's name can name a directory, and nothing but one directory.
pub fn is_plain_name(name: &str) -> bool {
    let odd = |c: char| c == '/' || c.is_control();
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && !name.contains(odd)
}
