//! Encoded group specifications, shared by all allocations of a group and job version.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Weak},
};

use berth_model::{
    job::Job,
    store::{AllocRow, Store},
};
use bytes::Bytes;
use prost::Message;

use crate::convert::desired;

/// Bytes of specifications in a generation, of which two are kept.
const GENERATION_BYTES_MAX: usize = 4 << 20;
/// So many specifications of jobs that are gone may be kept before a sweep.
const UNSWEPT_MAX: usize = 64;
/// What one takes besides its own bytes: its key, and what is left of a job that is gone.
const ENTRY_BYTES: usize = size_of::<(SpecKey, EncodedSpec)>() + size_of::<Job>();

/// Which specification: the job's very version, its group, and whether memory is oversubscribed. A job is identified by its
/// place in memory, which is its own as long as it is kept here: names and versions begin again after a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SpecKey {
    job: usize,
    group: u16,
    oversubscribed: bool,
}

/// A specification. The job's place in memory is nobody else's as long as it is pointed to, even once the job is gone: what the
/// job holds, which is far more than its specification, goes with the state's last version of it.
#[derive(Debug)]
struct EncodedSpec {
    job: Weak<Job>,
    spec: Bytes,
}

impl EncodedSpec {
    fn bytes(&self) -> usize {
        self.spec.len() + ENTRY_BYTES
    }
}

/// A cache of two generations: a specification that is not requested while a generation fills is dropped with the next. Those of jobs
/// that are gone are dropped by a sweep, since each of them, small as it is, keeps a page of memory in use. Sweeps are due as
/// specifications are added, and every few seconds.
#[derive(Debug, Default)]
pub struct GroupSpecs {
    recent: HashMap<SpecKey, EncodedSpec>,
    older: HashMap<SpecKey, EncodedSpec>,
    recent_bytes: usize,
    /// With more than this in the recent generation, the next sweep is due.
    sweep_above: usize,
}

impl GroupSpecs {
    /// The encoded [`berth_api::agent::GroupSpec`] of an allocation's group; none when the state has no such group.
    pub(super) fn get(&mut self, store: &Store, row: &AllocRow) -> Option<(SpecKey, Bytes)> {
        let (job, group) = store.job_of(row)?;
        let oversubscribed = store.scheduler_config().memory_oversubscription(&job.node_pool);
        let key = SpecKey { job: Arc::as_ptr(job) as usize, group: row.group, oversubscribed };
        if let Some(entry) = self.recent.get(&key) {
            return Some((key, entry.spec.clone()));
        }
        let entry = self.older.remove(&key).unwrap_or_else(|| EncodedSpec {
            job: Arc::downgrade(job),
            spec: desired::group_spec(job, group, oversubscribed).encode_to_vec().into(),
        });
        let spec = entry.spec.clone();
        self.insert(key, entry);
        Some((key, spec))
    }

    /// To be called every few seconds: drops those of jobs that are gone, which nobody requests again.
    pub(crate) fn ease(&mut self) {
        self.sweep();
        for generation in [&mut self.recent, &mut self.older] {
            if generation.capacity() / 4 > generation.len() {
                generation.shrink_to(2 * generation.len());
            }
        }
    }

    fn insert(&mut self, key: SpecKey, entry: EncodedSpec) {
        self.recent_bytes += entry.bytes();
        self.recent.insert(key, entry);
        if self.recent.len() > self.sweep_above {
            self.sweep();
        }
        if self.recent_bytes > GENERATION_BYTES_MAX {
            self.older = mem::take(&mut self.recent);
            (self.recent_bytes, self.sweep_above) = (0, UNSWEPT_MAX);
        }
    }

    /// Drops those of jobs that are gone. The next sweep is due once there are twice as many as are left.
    fn sweep(&mut self) {
        for generation in [&mut self.recent, &mut self.older] {
            generation.retain(|_, entry| entry.job.strong_count() > 0);
        }
        self.recent_bytes = self.recent.values().map(EncodedSpec::bytes).sum();
        self.sweep_above = UNSWEPT_MAX.max(2 * self.recent.len());
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{JobKey, job::JobType};

    use super::*;

    fn entry(job: &Arc<Job>, spec_bytes: usize) -> (SpecKey, EncodedSpec) {
        let key = SpecKey { job: Arc::as_ptr(job) as usize, group: 0, oversubscribed: false };
        (key, EncodedSpec { job: Arc::downgrade(job), spec: vec![0; spec_bytes].into() })
    }

    #[test]
    fn what_is_kept_is_bounded_and_holds_no_job() {
        let mut specs = GroupSpecs::default();
        let mut first = None;
        for number in 0..200 {
            let job = Arc::new(Job::new(JobKey::new("default", "web"), JobType::Service));
            first.get_or_insert_with(|| Arc::downgrade(&job));
            let (key, entry) = entry(&job, 1 << 20);
            specs.insert(key, entry);
            let all = [&specs.recent, &specs.older].into_iter().flat_map(HashMap::values);
            let bytes: usize = all.map(|entry| entry.spec.len()).sum();
            assert!(bytes <= 2 * (GENERATION_BYTES_MAX + (1 << 20)), "{bytes} after {number}");
        }
        assert!(first.is_some_and(|job| job.upgrade().is_none()));
    }

    #[test]
    fn what_is_of_jobs_that_are_gone_goes_and_the_rest_stays() {
        let (mut specs, mut living) = (GroupSpecs::default(), Vec::new());
        for number in 0..10_000 {
            let job = Arc::new(Job::new(JobKey::new("default", "web"), JobType::Service));
            let (key, entry) = entry(&job, 10);
            specs.insert(key, entry);
            if number % 100 == 0 {
                living.push((job, key));
            }
            let all = specs.recent.len() + specs.older.len();
            assert!(all <= 2 * living.len() + UNSWEPT_MAX + 1, "{all} with {} living", living.len());
        }
        assert!(living.iter().all(|(_, key)| specs.recent.contains_key(key)));
    }

    #[test]
    fn specifications_of_removed_jobs_are_dropped_without_further_requests() {
        let mut specs = GroupSpecs::default();
        let jobs: Vec<_> = (0..UNSWEPT_MAX * 20)
            .map(|_| Arc::new(Job::new(JobKey::new("default", "web"), JobType::Service)))
            .collect();
        for job in &jobs {
            let (key, entry) = entry(job, GENERATION_BYTES_MAX / jobs.len());
            specs.insert(key, entry);
        }
        assert!(!specs.older.is_empty(), "both generations have some");
        specs.ease();
        assert_eq!(specs.recent.len() + specs.older.len(), jobs.len(), "they may be asked for");
        drop(jobs);
        specs.ease();
        assert_eq!((specs.recent.capacity(), specs.older.capacity(), specs.recent_bytes), (0, 0, 0));
    }
}
