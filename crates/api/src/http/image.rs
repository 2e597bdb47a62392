//! Images that nodes have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The images of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeImages {
    /// By name.
    pub images: Vec<NodeImage>,
    /// Bytes of the filesystem that they are on.
    pub disk_bytes: u64,
    /// Of these, free.
    pub disk_free_bytes: u64,
    /// Images that the answer has no room for.
    pub left_off: u32,
}

/// An image that a node has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeImage {
    /// In full, as `docker.io/library/nginx:latest`, or the path of an archive or directory of the node.
    pub name: String,
    /// That of its manifest, as `sha256:...`; of its config or archive where it came without a manifest.
    pub digest: String,
    /// Of its layers, or of its archive, as they came; 0 where nobody counted.
    pub bytes: u64,
    /// How many layers it has.
    pub layers: u32,
    /// When it came, nanoseconds since the Unix epoch; 0 where nobody noted it.
    pub pulled_at: u64,
    /// When a task last asked for it, nanoseconds since the Unix epoch.
    pub used_at: u64,
    /// Of the allocations that run it, those that the caller sees.
    pub allocations: Vec<String>,
    /// It came with credentials of a job: other jobs have to show the same.
    pub private: bool,
}

/// Which image a node is to pull.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImagePull {
    /// As a job names it.
    pub name: String,
    /// Even if it is there: its registry may have a newer one.
    pub always: bool,
}

/// How far a pull is. It goes on while somebody asks again, at least every 10 s.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImagePulled {
    /// Bytes that are there.
    pub done_bytes: u64,
    /// Bytes in all; 0 while that is not known.
    pub total_bytes: u64,
    /// Once all of it is there.
    pub image: Option<NodeImage>,
}

/// What an archive brought.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImagesLoaded {
    /// Each under each of its names.
    pub images: Vec<NodeImage>,
}
