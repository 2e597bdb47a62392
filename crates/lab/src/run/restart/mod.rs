//! `restart`: a server is killed again and again while clients write and some agents are away. It must come back soon, with
//! all acknowledged writes, and no task may end because of it.

mod churn;
mod cycle;
mod figures;
mod job_states;
mod ledger;
mod probe;
mod settle;
mod tasks;

pub(super) use churn::is_recovering;

use serde_json::Value;

use super::{
    Experiment, Param, ParamKind, Run, RunError, RunOutcome,
    client::JobIds,
    cluster::{ClusterParams, NodesParams, on_cluster},
    mock_job::MockJob,
    params::same,
};

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "restart",
    about: "Kill a server again and again while clients write, and see what it has lost",
    params: &[
        Param {
            name: "jobs",
            kind: ParamKind::Count { min: 1, max: 1_000_000 },
            about: "Jobs of one allocation that never change",
            defaults: ["200", "5000", "20000"],
        },
        Param {
            name: "nodes",
            kind: ParamKind::Count { min: 1, max: 10_000 },
            about: "Simulated nodes",
            defaults: ["20", "100", "200"],
        },
        Param {
            name: "churn",
            kind: ParamKind::Count { min: 1, max: 10_000 },
            about: "Changes a second of ten times as many other jobs: registered, updated, stopped, purged",
            defaults: ["20", "100", "100"],
        },
        Param {
            name: "away",
            kind: ParamKind::Count { min: 0, max: 100 },
            about: "Percentage of nodes whose connection breaks repeatedly for 1 to 6 s",
            defaults: same("10"),
        },
        Param {
            name: "restarts",
            kind: ParamKind::Count { min: 1, max: 10_000 },
            about: "Number of times that the server is killed",
            defaults: ["4", "20", "20"],
        },
        Param {
            name: "servers",
            kind: ParamKind::Count { min: 1, max: 1 },
            about: "Number of servers",
            defaults: same("1"),
        },
    ],
    metrics: &[figures::METRICS],
    run,
};

/// What one task requests.
const TASK_CPU_MHZ: u32 = 10;
const TASK_MEMORY_MB: u32 = 10;
const TASK_DISK_MB: u32 = 10;
/// Nodes have this many times the resources that all jobs need, as a successor may have to wait for an absent node's report.
const HEADROOM: u32 = 3;
/// How absences come and last: shorter than it takes until an absent node is declared down.
const ABSENCES: &str = "every=4s..10s,lasts=1s..6s";

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    if run.options.target.is_some() {
        return Err(RunError::Start {
            what: "the experiment".to_owned(),
            reason: "it kills servers, and does so to none but its own: leave --target out".to_owned(),
        });
    }
    let cluster_params = ClusterParams { nodes: nodes(run), servers: 1, server: Vec::new(), secure: false };
    let ids = JobIds::new();
    on_cluster(run, &cluster_params, async |cluster| cycle::drive(run, ids, cluster).await, async |_| Ok(()))
}

fn nodes(run: &Run<'_>) -> NodesParams {
    let count = run.params.count_u32("nodes");
    let (_, changing) = churn::size(run.params.count_u32("churn"));
    let each = (run.params.count_u32("jobs") + changing).div_ceil(count) * HEADROOM;
    let away = run.params.count_u32("away");
    let mut behaviour = vec!["--journal".to_owned()];
    if away > 0 {
        let share = f64::from(away) / 100.0;
        behaviour.extend(["--flap".to_owned(), format!("share={share},{ABSENCES}")]);
    }
    NodesParams {
        count,
        cpu_mhz: each * TASK_CPU_MHZ,
        memory_mb: each * TASK_MEMORY_MB,
        disk_mb: each * TASK_DISK_MB,
        behaviour,
    }
}

/// A job without its id, whose allocations run until they are stopped.
fn job(count: u32) -> Value {
    MockJob::service(count, [TASK_CPU_MHZ, TASK_MEMORY_MB, TASK_DISK_MB]).json()
}
