//! `liveness`: nodes under load fall silent for good and must soon be reported down, also while another leader is elected, and no other
//! node ever may be; then a part of all nodes vanishes, and comes back all at once. There is no published counterpart: by the formula of
//! Nomad's heartbeats a dead node of 40,000 is found after 810 to 1,610 s.

mod drive;
mod figures;
mod leaders;
mod load;
mod memory;
mod node_groups;
mod status_reports;

use super::{
    Experiment, Param, ParamKind, Run, RunError, RunOutcome,
    cluster::{ClusterParams, NodesParams, on_cluster},
    params::same,
};

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "liveness",
    about: "Nodes fall silent, another leader is elected, and a tenth of all nodes vanishes and comes back at once",
    params: &[
        Param {
            name: "nodes",
            kind: ParamKind::Count { min: 30, max: 200_000 },
            about: "Simulated nodes, spread over three servers",
            defaults: ["90", "5000", "40000"],
        },
        Param {
            name: "active-per-node",
            kind: ParamKind::Count { min: 1, max: 100 },
            about: "Running allocations per node, in jobs of 200",
            defaults: ["5", "10", "10"],
        },
        Param {
            name: "silent",
            kind: ParamKind::Count { min: 1, max: 1_000 },
            about: "Nodes that stop sending for good, and as many again just before the leader is killed",
            defaults: ["3", "10", "20"],
        },
        Param {
            name: "vanish",
            kind: ParamKind::Count { min: 1, max: 30 },
            about: "Percentage of nodes that vanish, are replaced, and come back all at once",
            defaults: same("10"),
        },
        Param {
            name: "changes",
            kind: ParamKind::Count { min: 1, max: 10_000 },
            about: "Jobs a second that are registered, run briefly and are purged, while nodes send nothing",
            defaults: ["20", "100", "200"],
        },
        Param {
            name: "watch-seconds",
            kind: ParamKind::Count { min: 0, max: 86_400 },
            about: "Minimum time during which no other node may be marked down while changes go on",
            defaults: ["0", "60", "1800"],
        },
        Param {
            name: "others-silent",
            kind: ParamKind::Text("OUTAGES"),
            about: "Let other nodes stop sending too, e.g. share=0.1,every=1s..5s,lasts=30s, to show that the run fails then",
            defaults: same(""),
        },
    ],
    metrics: &[figures::METRICS],
    run,
};

/// Servers of the cluster.
const SERVERS: u32 = 3;

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    run.needs_own_server()?;
    let size = node_groups::LivenessSize::of(run);
    if size.well().len() < size.nodes as usize / 2 {
        let reason = "so many would fall silent that no half of the nodes stays as it is";
        return Err(run.params.refuse("silent", reason).into());
    }
    let cluster_params =
        ClusterParams { nodes: NodesParams::none(), servers: SERVERS, server: Vec::new(), secure: false };
    on_cluster(run, &cluster_params, async |cluster| drive::drive(run, cluster, size).await, async |_| Ok(()))
}
