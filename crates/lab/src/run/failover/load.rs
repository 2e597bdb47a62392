//! The jobs: those that run, those that have ended before, and probes.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::run::{
    client::{JobIds, JobTemplate, SubmittedJobs},
    mock_job::MockJob,
};

/// Allocations of a job.
const JOB_ALLOCS: u32 = 200;
/// What one task requests: a tenth of a core of 1 GHz. The published benchmark's 5 MB are less than a task may request.
const TASK_CPU_MHZ: u32 = 100;
const TASK_MEMORY_MB: u32 = 10;
const TASK_DISK_MB: u32 = 10;
/// What a probe's task requests: less than any other, so that it fits when nodes are full.
const PROBE_CPU_MHZ: u32 = 10;
/// Labels of a job.
const LABELS: u32 = 10;

/// The leadership may move while a large cluster is filled; what is measured comes later.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ids of the jobs that run, of those that have ended, and of the probes.
pub(in crate::run) const ACTIVE: u32 = 1;
pub(super) const COMPLETED: u32 = 2;
pub(super) const PROBES: u32 = 3;

/// What a node is to have for so many allocations that run, and one probe: MHz, MiB of memory, MiB of disk.
pub(in crate::run) fn node_resources(active: u32) -> [u32; 3] {
    [active * TASK_CPU_MHZ + PROBE_CPU_MHZ, (active + 1) * TASK_MEMORY_MB, (active + 1) * TASK_DISK_MB]
}

/// Jobs with so many allocations in all that run until they are stopped.
pub(in crate::run) fn active(allocs: u32) -> SubmittedJobs {
    jobs(JobIds::of(ACTIVE), allocs, |count| job("service", count, "24h", TASK_CPU_MHZ))
}

/// Jobs with so many allocations in all that end at once.
pub(super) fn completed(allocs: u32) -> SubmittedJobs {
    jobs(JobIds::of(COMPLETED), allocs, |count| job("batch", count, "0s", TASK_CPU_MHZ))
}

/// A job of one allocation.
pub(super) fn probe() -> JobTemplate {
    JobTemplate::new(1, job("service", 1, "24h", PROBE_CPU_MHZ))
}

/// How many allocations each of the jobs has: the last may have fewer.
pub(super) fn counts(allocs: u32) -> Vec<u32> {
    let mut counts = vec![JOB_ALLOCS; (allocs / JOB_ALLOCS) as usize];
    counts.extend(Some(allocs % JOB_ALLOCS).filter(|rest| *rest > 0));
    counts
}

fn jobs(ids: JobIds, allocs: u32, job: impl Fn(u32) -> Value) -> SubmittedJobs {
    let counts = counts(allocs);
    let last = counts.last().copied().unwrap_or_default();
    let templates = [JOB_ALLOCS, last].map(|count| JobTemplate::new(count, job(count)));
    let kinds = counts.iter().map(|count| usize::from(*count != JOB_ALLOCS)).collect();
    SubmittedJobs { ids, templates: templates.into(), kinds, population: None, patience: PATIENCE }
}

fn job(kind: &str, count: u32, run_for: &str, cpu_mhz: u32) -> Value {
    let labels = (0..LABELS).map(|label| (format!("key{label}"), format!("value{label}").into()));
    let job = MockJob { kind, count, run_for, cpu_mhz, memory_mb: TASK_MEMORY_MB, disk_mb: TASK_DISK_MB };
    let mut job = job.json();
    job["Meta"] = labels.collect::<Map<String, Value>>().into();
    job
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_dealt_to_jobs_of_two_hundred() {
        assert_eq!(counts(600), [200, 200, 200]);
        assert_eq!(counts(250), [200, 50]);
        assert_eq!((counts(7), counts(0)), (vec![7], Vec::<u32>::new()));
        assert_eq!((active(250).count(), &*active(250).kinds), (2, &[0, 1][..]));
    }

    #[test]
    fn a_full_node_has_room_for_one_probe() {
        let [cpu_mhz, memory_mb, disk_mb] = node_resources(10);
        assert_eq!(cpu_mhz - 10 * TASK_CPU_MHZ, PROBE_CPU_MHZ);
        assert_eq!([memory_mb - 10 * TASK_MEMORY_MB, disk_mb - 10 * TASK_DISK_MB], [10, 10]);
    }
}
