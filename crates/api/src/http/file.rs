//! Files of an allocation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;

/// A file, or a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocFileInfo {
    /// Without the directory that it lies in.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Bytes.
    pub size: u64,
    /// As `-rw-r--r--`: its kind, and who may do what with it.
    pub file_mode: String,
    /// When its content was last changed.
    pub mod_time: Time,
    /// As `text/plain; charset=utf-8`; only of a single file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub content_type: String,
}
