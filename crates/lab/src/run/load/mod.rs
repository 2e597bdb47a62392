//! A load: jobs are submitted over HTTP, and a client follows the event stream until all their allocations are in the
//! awaited state, and their deployments successful where they have some. Clocks and counts are the client's and the kernel's.

mod counters;
mod drive;
mod figures;
mod ledger;
mod rollouts;

use std::time::Duration;

use super::{
    Run, RunError, RunOutcome,
    client::{JobIds, JobTemplate, SubmittedJobs, clean_up},
    cluster::{ClusterParams, NodesParams, on_cluster},
};
pub(super) use counters::Counters;
use drive::drive;
pub(super) use drive::fill;
pub(super) use figures::{DEPLOYMENT_METRICS, METRICS};
pub(super) use ledger::AwaitedState;

/// A load, and the cluster that it needs.
#[derive(Debug, Clone)]
pub(super) struct LoadParams {
    pub nodes: NodesParams,
    /// How many servers there are.
    pub servers: u32,
    /// Everything over TLS, with ACLs and an audit log.
    pub secure: bool,
    /// What the jobs have in common.
    pub template: JobTemplate,
    /// Number of jobs.
    pub jobs: u32,
    /// Which state every allocation must reach.
    pub awaited: AwaitedState,
    /// With jobs that have deployments, which must all be successful then: their `min_healthy_time`.
    pub min_healthy: Option<Duration>,
}

impl LoadParams {
    fn jobs(&self, ids: JobIds) -> SubmittedJobs {
        SubmittedJobs::alike(ids, self.template.clone(), self.jobs)
    }
}

/// Puts the load on a cluster, and measures.
pub(super) fn measure(run: &Run<'_>, load: &LoadParams) -> Result<RunOutcome, RunError> {
    let cluster_params = ClusterParams {
        nodes: load.nodes.clone(),
        servers: load.servers,
        server: Vec::new(),
        secure: load.secure,
    };
    let ids = JobIds::new();
    let work = async |cluster: &mut _| drive(run, load, ids, cluster).await;
    on_cluster(run, &cluster_params, work, async |target| clean_up(target, ids, load.jobs).await)
}
