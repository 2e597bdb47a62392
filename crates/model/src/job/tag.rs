//! Names that users give to versions of a job.

use minicbor::{Decode, Encode};

use crate::time::Timestamp;

/// Versions of one job that may have a tag: each is kept for as long as it has one.
pub const JOB_TAGS_MAX: usize = 64;
/// Bytes of a tag's name.
pub const TAG_NAME_BYTES_MAX: usize = 128;
/// Bytes of a tag's description.
pub const TAG_DESCRIPTION_BYTES_MAX: usize = 4 << 10;

/// The name of a version, by which users find it again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct VersionTag {
    /// Unique among the versions of the job.
    #[n(0)]
    pub name: String,
    /// Why the version is tagged, in the user's words.
    #[n(1)]
    pub description: String,
    /// When the version got it.
    #[n(2)]
    pub tagged_at: Timestamp,
}
