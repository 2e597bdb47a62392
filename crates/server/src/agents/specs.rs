//! Encoded group specifications, shared by all allocations of a group and job version.

use std::{collections::HashMap, sync::Arc};

use berth_model::{
    job::Job,
    store::{AllocRow, Store},
};
use bytes::Bytes;
use prost::Message;

use crate::convert::agent as convert;

/// Bytes of specifications kept.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// Which specification: the job's very version, its group, and whether memory is oversubscribed. A job is told by its
/// place in memory, which is its own as long as it is kept here: names and versions begin anew after a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SpecKey {
    job: usize,
    group: u16,
    oversubscribed: bool,
}

/// Those that were asked for last.
#[derive(Debug, Default)]
pub struct GroupSpecs {
    specs: HashMap<SpecKey, (Arc<Job>, Bytes)>,
    bytes: usize,
}

impl GroupSpecs {
    /// The encoded [`berth_api::agent::GroupSpec`] of an allocation's group; none when the state has no such group.
    pub(super) fn get(&mut self, store: &Store, row: &AllocRow) -> Option<(SpecKey, Bytes)> {
        let (job, group) = store.job_of(row)?;
        let oversubscribed = store.scheduler_config().memory_oversubscription(&job.node_pool);
        let key = SpecKey { job: Arc::as_ptr(job) as usize, group: row.group, oversubscribed };
        if let Some((_, spec)) = self.specs.get(&key) {
            return Some((key, spec.clone()));
        }
        let spec = Bytes::from(convert::group_spec(job, group, oversubscribed).encode_to_vec());
        if self.bytes + spec.len() > KEPT_BYTES_MAX {
            self.specs.clear();
            self.bytes = 0;
        }
        self.bytes += spec.len();
        self.specs.insert(key, (job.clone(), spec.clone()));
        Some((key, spec))
    }
}
