//! The state that is read: nodes, and as many running allocations as completed ones.

use std::time::Duration;

use serde_json::Value;

use super::ExperimentPart;
use crate::run::{
    Run, RunError, Scale, Target,
    client::{JobIds, JobTemplate, SubmittedJobs, clean_up},
    cluster::{Cluster, NodesParams},
    load::{self, AwaitedState, LoadParams},
    mock_job::MockJob,
};

/// Resources of one task that never changes.
const TASK_CPU_MHZ: u32 = 100;
const TASK_MEMORY_MB: u32 = 64;
const TASK_DISK_MB: u32 = 10;
/// Nodes have this many times the resources that changing jobs need.
const HEADROOM: u32 = 3;

/// The cluster as it is read. Its first jobs have completed, the others run.
#[derive(Debug, Clone)]
pub(super) struct ClusterState {
    pub part: ExperimentPart,
    /// Number of nodes.
    pub count: u32,
    /// Changes a second beside the readers.
    pub changes: u32,
    /// The ids of what stands there.
    pub ids: JobIds,
    /// The ids of what changes.
    pub changing: JobIds,
    /// Jobs that have completed, and as many that run.
    jobs: u32,
    /// Allocations of each.
    each: u32,
}

impl ClusterState {
    /// As published: 10 allocations of either kind a node in part a, in jobs of 200; in the others 10 jobs of 10 of either kind a
    /// node.
    pub fn of(run: &Run<'_>) -> Self {
        let part = ExperimentPart::of(run.params.text("part"));
        let [small, medium, full] = match part {
            ExperimentPart::OneReader => [50, 2_000, 20_000],
            ExperimentPart::ManyReaders | ExperimentPart::BesideOthers => [10, 50, 100],
        };
        let default = match run.options.scale {
            Scale::Small => small,
            Scale::Medium => medium,
            Scale::Full => full,
        };
        let given = run.params.count_given("nodes").and_then(|count| u32::try_from(count).ok());
        let count = given.unwrap_or(default);
        let (jobs, each) = jobs(part, count);
        Self {
            part,
            count,
            changes: run.params.count_u32("changes"),
            ids: JobIds::new(),
            changing: JobIds::new(),
            jobs,
            each,
        }
    }

    /// Allocations that have completed, and as many that run.
    pub fn allocs(&self) -> u64 {
        u64::from(self.jobs) * u64::from(self.each)
    }

    /// Nodes that fit all that is to run.
    pub fn nodes(&self) -> NodesParams {
        let each = self.jobs * self.each / self.count;
        // Tasks that restart, and what is placed by part c: one MHz each.
        let small = (self.changes.div_ceil(self.count) + 20) * HEADROOM;
        NodesParams {
            count: self.count,
            cpu_mhz: TASK_CPU_MHZ * each + small,
            memory_mb: TASK_MEMORY_MB * each + small * super::changes::TASK_MEMORY_MB,
            disk_mb: TASK_DISK_MB * (each + small),
            behaviour: Vec::new(),
        }
    }

    /// Fills the cluster: first what completes, as it holds its resources only for a moment.
    pub async fn fill(&self, run: &Run<'_>, cluster: &mut Cluster) -> Result<(), RunError> {
        let templates = [("batch", "100ms"), ("service", "24h")]
            .map(|(kind, run_for)| JobTemplate::new(self.each, job(kind, run_for, self.each)));
        let count = self.jobs as usize;
        for (kind, awaited) in [AwaitedState::Complete, AwaitedState::Running].into_iter().enumerate() {
            let load = LoadParams {
                nodes: self.nodes(),
                servers: 1,
                secure: false,
                template: templates[kind].clone(),
                jobs: self.jobs,
                awaited,
                min_healthy: None,
            };
            let kinds: Vec<usize> = (0..(kind + 1) * count).map(|number| number / count).collect();
            let jobs = SubmittedJobs {
                ids: self.ids,
                templates: templates.clone().into(),
                kinds: kinds.into(),
                population: None,
                patience: Duration::ZERO,
            };
            let first = u32::try_from(kind * count).unwrap_or(u32::MAX);
            load::fill(run, &load, &jobs, first, cluster).await?;
        }
        Ok(())
    }

    /// Takes all of it away from a server that stays.
    pub async fn clean_up(&self, target: &Target) -> Result<(), RunError> {
        let changing = clean_up(target, self.changing, super::changes::JOBS).await;
        clean_up(target, self.ids, 2 * self.jobs).await.and(changing)
    }
}

/// Jobs of either kind, and allocations of each of them.
fn jobs(part: ExperimentPart, nodes: u32) -> (u32, u32) {
    const LARGE: u32 = 200;
    match part {
        ExperimentPart::OneReader if (nodes * 10).is_multiple_of(LARGE) => (nodes * 10 / LARGE, LARGE),
        ExperimentPart::OneReader => (nodes, 10),
        ExperimentPart::ManyReaders | ExperimentPart::BesideOthers => (nodes * 10, 10),
    }
}

fn job(kind: &str, run_for: &str, count: u32) -> Value {
    let [cpu_mhz, memory_mb, disk_mb] = [TASK_CPU_MHZ, TASK_MEMORY_MB, TASK_DISK_MB];
    MockJob { kind, count, run_for, cpu_mhz, memory_mb, disk_mb }.json()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_jobs_and_allocations_as_published() {
        assert_eq!(jobs(ExperimentPart::OneReader, 20_000), (1_000, 200), "200,000 of either kind");
        assert_eq!(jobs(ExperimentPart::OneReader, 7), (7, 10));
        assert_eq!(
            jobs(ExperimentPart::ManyReaders, 100),
            (1_000, 10),
            "100 nodes with 10 jobs of 10 of either kind"
        );
    }
}
