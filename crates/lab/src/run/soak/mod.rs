//! `soak`: everything that changes a cluster, for hours, in rounds. Each round ends with a garbage collection, and from round to round
//! nothing may grow: the server's memory, open files and data on disk, and the latency of its clients. There is no published
//! counterpart; operators find such growth after weeks.

mod churn;
mod figures;
mod footprint;
mod jobs;
mod rounds;

use super::{
    Experiment, Param, ParamKind, Run, RunError, RunOutcome,
    cluster::{ClusterParams, NodesParams, on_cluster},
    params::same,
};

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "soak",
    about: "Change everything for an hour: memory, files, disk and latency must stay what they were, and be given back",
    params: &[
        Param {
            name: "nodes",
            kind: ParamKind::Count { min: 3, max: 1_000 },
            about: "Simulated nodes; some lose their connection now and then, and one drains",
            defaults: ["6", "30", "50"],
        },
        Param {
            name: "services",
            kind: ParamKind::Count { min: 1, max: 10_000 },
            about: "Long-running services, which get new versions and are scaled",
            defaults: ["5", "50", "100"],
        },
        Param {
            name: "rounds",
            kind: ParamKind::Count { min: 2, max: 10_000 },
            about: "Rounds; each ends with a garbage collection",
            defaults: ["3", "10", "60"],
        },
        Param {
            name: "round-seconds",
            kind: ParamKind::Count { min: 1, max: 3_600 },
            about: "Duration of a round",
            defaults: ["2", "30", "60"],
        },
        Param {
            name: "rate",
            kind: ParamKind::Count { min: 1, max: 1_000 },
            about: "Requests a second, most of them writes",
            defaults: ["50", "100", "100"],
        },
        Param {
            name: "given-back-seconds",
            kind: ParamKind::Count { min: 1, max: 3_600 },
            about: "Time until the server must have returned its memory, once all jobs are purged",
            defaults: same("90"),
        },
    ],
    metrics: &[figures::METRICS],
    run,
};

/// Resources of each node: enough for all services at their largest, and for what comes and goes.
const NODE_CPU_MHZ: u32 = 100_000;
const NODE_MEMORY_MB: u32 = 400_000;
const NODE_DISK_MB: u32 = 2_000_000;
/// How nodes and tasks behave: some connections break, and one start in fifty fails.
const BEHAVIOUR: [&str; 6] = [
    "--flap",
    "share=0.1,every=20s..40s,lasts=1s..5s",
    "--failure-rate",
    "0.02",
    "--start-delay",
    "10ms..100ms",
];

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    run.needs_own_server()?;
    let nodes = NodesParams {
        count: run.params.count_u32("nodes"),
        cpu_mhz: NODE_CPU_MHZ,
        memory_mb: NODE_MEMORY_MB,
        disk_mb: NODE_DISK_MB,
        behaviour: BEHAVIOUR.map(str::to_owned).into(),
    };
    let cluster_params = ClusterParams { nodes, servers: 1, server: Vec::new(), secure: false };
    on_cluster(run, &cluster_params, async |cluster| rounds::drive(run, cluster).await, async |_| Ok(()))
}
