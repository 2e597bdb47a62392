//! A job as written to a snapshot.

use std::sync::Arc;

use minicbor::{Decode, Encode};

use super::{JobRow, JobVersion};
use crate::{
    ids::{Index, JobKey},
    scaling::ScalingEvent,
    store::Launch,
};

/// What can be counted from its allocations and evaluations is counted again.
#[derive(Debug, Clone, Encode, Decode)]
pub(in crate::store) struct JobRecord {
    #[n(0)]
    pub key: JobKey,
    /// Newest first. In a snapshot's record of the job itself there are none since format 2: each has a record of its
    /// own before it, so that no record grows with how often a job was changed.
    #[n(1)]
    #[cbor(with = "crate::codec::shared")]
    pub versions: Arc<Vec<JobVersion>>,
    #[n(2)]
    pub purge: bool,
    #[n(3)]
    pub create_index: Index,
    #[n(4)]
    pub modify_index: Index,
    #[n(5)]
    pub allocs_index: Index,
    #[n(6)]
    pub evals_index: Index,
    /// Group, complete, failed, lost, queued: counts outlive the allocations they count.
    #[n(7)]
    pub counts: Vec<(String, u32, u32, u32, u32)>,
    /// Newest first; since format 2 in records of their own too.
    #[n(8)]
    #[cbor(with = "crate::codec::shared")]
    pub scalings: Arc<Vec<ScalingEvent>>,
    #[n(9)]
    pub launch: Option<Launch>,
}

impl JobRecord {
    /// Without its versions and scaling events.
    pub fn of(row: &JobRow) -> Self {
        let counts = row.counts.iter();
        Self {
            key: row.key.clone(),
            versions: Arc::default(),
            purge: row.purge,
            create_index: row.create_index,
            modify_index: row.modify_index,
            allocs_index: row.allocs_index,
            evals_index: row.evals_index,
            scalings: Arc::default(),
            launch: row.launch,
            counts: counts.map(|c| (c.group.to_string(), c.complete, c.failed, c.lost, c.queued)).collect(),
        }
    }
}
