//! A job as its owner wrote it down: the file and the values of its variables.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

/// Bytes of a submission, all its parts together: with the largest job it still fits into one entry of the log.
pub const SUBMISSION_BYTES_MAX: usize = 384 << 10;

/// What a version of a job was made of. Nothing here reads it; users and their tools do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Submission {
    /// Text of the job file as it was submitted.
    #[n(0)]
    pub source: String,
    /// How it is written, as `hcl2` or `json`.
    #[n(1)]
    pub format: String,
    /// Variables that were given one by one.
    #[n(2)]
    pub variable_flags: BTreeMap<String, String>,
    /// Files of variables, one after the other.
    #[n(3)]
    pub variables: String,
}

impl Submission {
    /// Bytes of its encoding, as the log keeps it.
    pub fn encoded_len(&self) -> usize {
        crate::codec::encoded_len(self)
    }
}
