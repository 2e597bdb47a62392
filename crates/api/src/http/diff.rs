//! What differs between two versions of a job: settings, blocks of settings, groups and tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of something.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum DiffKind {
    /// Nothing.
    #[default]
    None,
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// It says something else.
    Edited,
}

/// What differs between two versions of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobDiff {
    /// What became of the job.
    #[serde(rename = "Type")]
    pub kind: DiffKind,
    /// Its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Settings of the job itself.
    pub fields: Vec<FieldDiff>,
    /// Blocks of settings.
    pub objects: Vec<ObjectDiff>,
    /// Its groups, by name.
    pub task_groups: Vec<TaskGroupDiff>,
}

/// What differs in a group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct TaskGroupDiff {
    /// What became of the group.
    #[serde(rename = "Type")]
    pub kind: DiffKind,
    /// Its name.
    pub name: String,
    /// Settings of the group itself.
    pub fields: Vec<FieldDiff>,
    /// Blocks of settings.
    pub objects: Vec<ObjectDiff>,
    /// Its tasks, by name.
    pub tasks: Vec<TaskDiff>,
    /// How many allocations the change means, by what happens to them, as `create` or `in-place update`; none outside of
    /// a plan.
    pub updates: Option<std::collections::BTreeMap<String, u64>>,
}

/// What differs in a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct TaskDiff {
    /// What became of the task.
    #[serde(rename = "Type")]
    pub kind: DiffKind,
    /// Its name.
    pub name: String,
    /// Settings of the task itself.
    pub fields: Vec<FieldDiff>,
    /// Blocks of settings.
    pub objects: Vec<ObjectDiff>,
    /// What the change means, as `forces create/destroy update`.
    pub annotations: Option<Vec<String>>,
}

/// What differs in a block of settings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ObjectDiff {
    /// What became of the block.
    #[serde(rename = "Type")]
    pub kind: DiffKind,
    /// Its name.
    pub name: String,
    /// Its settings.
    pub fields: Vec<FieldDiff>,
    /// Blocks within it.
    pub objects: Vec<ObjectDiff>,
}

/// What differs in one setting.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct FieldDiff {
    /// What became of the setting.
    #[serde(rename = "Type")]
    pub kind: DiffKind,
    /// Its name; of a member of a map, `MAP[KEY]`.
    pub name: String,
    /// What it was; empty for nothing.
    pub old: String,
    /// What it is; empty for nothing.
    pub new: String,
    /// What the change means.
    pub annotations: Option<Vec<String>>,
}
