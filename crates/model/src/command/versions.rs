//! Commands that concern existing versions of jobs: which are stable, and their tags.

use minicbor::{Decode, Encode};

use crate::ids::JobKey;

/// Marks a version of a job as stable or not: a failed deployment goes back to a stable one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SetJobStable {
    /// The job.
    #[n(0)]
    pub job: JobKey,
    /// Number of the version.
    #[n(1)]
    pub version: u64,
    /// Whether it is to count as stable.
    #[n(2)]
    pub stable: bool,
}

/// A version of a job gets a name, or loses it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TagVersion {
    /// The job.
    #[n(0)]
    pub job: JobKey,
    /// The tag's name.
    #[n(1)]
    pub name: String,
    /// Which version gets it; none to take the tag away.
    #[n(2)]
    pub tagged: Option<NewTag>,
}

/// The version that gets a tag.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NewTag {
    /// The number of the version.
    #[n(0)]
    pub version: u64,
    /// Why the version is tagged, in the user's words.
    #[n(1)]
    pub description: String,
}
