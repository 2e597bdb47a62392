//! Commands that concern the cluster as a whole.

use minicbor::{Decode, Encode};

use crate::{ids::Index, scheduling::SchedulerConfig};

/// Part of a snapshot that is to replace the state, as [`crate::store::snapshot::write_records`] writes it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RestorePart {
    /// From 0, without a gap; 0 begins again.
    #[n(0)]
    pub number: u32,
    /// Bytes of the snapshot; parts may end within a record.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub bytes: Vec<u8>,
    /// The last index that the restored state has or had granted: indexes go on after it.
    #[n(2)]
    pub granted: Index,
    /// With the last part: whether tokens in it that were revoked since are good again; none stands for no. Not in entries before
    /// version 6.
    #[n(3)]
    pub revives_tokens: Option<bool>,
}

/// How the cluster is to place from now on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SetSchedulerConfig {
    /// The whole configuration; replaces the one before.
    #[n(0)]
    pub config: SchedulerConfig,
    /// Only if it was last set at this index; 0 for never.
    #[n(1)]
    pub only_if: Option<Index>,
}
