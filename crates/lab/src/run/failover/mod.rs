//! `failover`: the leader of three servers is killed, or all three are, while agents run what they run. Published in 2017 for
//! masters of Mesos, whose agents all reported everything again. Here a new leader compares digests and asks for differences only,
//! over real connections, through three servers.

mod agents;
mod drive;
mod figures;
mod history;
mod load;
mod observer;
mod probe;
mod state;

use std::path::Path;

use super::{
    Experiment, Param, ParamKind, Run, RunError, RunOutcome,
    cluster::{ClusterParams, NodesParams, on_cluster},
    params::same,
};

pub(super) use load::{ACTIVE, active, node_resources};
pub(super) use state::{AllocCounts, sums};

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "failover",
    about: "Kill the leader of three servers, or all three, and wait until all agents are known again (Mesos 2017)",
    params: &[
        Param {
            name: "mode",
            kind: ParamKind::Choice(&[WARM, COLD]),
            about: "warm: the leader is killed; cold: all servers are, and start again from their disks",
            defaults: same(WARM),
        },
        Param {
            name: "nodes",
            kind: ParamKind::Count { min: SERVERS as u64, max: 200_000 },
            about: "Simulated nodes, spread over the servers",
            defaults: ["300", "5000", "40000"],
        },
        Param {
            name: "active-per-node",
            kind: ParamKind::Count { min: 1, max: 100 },
            about: "Running allocations per node, in jobs of 200 with 10 labels",
            defaults: same("10"),
        },
        Param {
            name: "completed-per-node",
            kind: ParamKind::Count { min: 0, max: 1_000 },
            about: "Ended allocations per node, of batch jobs of 200",
            defaults: ["10", "100", "100"],
        },
        Param {
            name: "tls-connections",
            kind: ParamKind::Count { min: 0, max: 12_000 },
            about: "Agent connections over TLS that the nodes share; 0 for a few without TLS",
            defaults: same("0"),
        },
        Param {
            name: "history",
            kind: ParamKind::Text("FILE"),
            about: "Snapshot with the ended allocations: restored if the file exists, else saved there",
            defaults: same(""),
        },
    ],
    metrics: &[figures::METRICS],
    run,
};

const WARM: &str = "warm";
const COLD: &str = "cold";
/// Servers of the cluster.
const SERVERS: u32 = 3;

/// Which servers are killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailureMode {
    /// The leader.
    Warm,
    /// All servers.
    Cold,
}

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    run.needs_own_server()?;
    let tls_connections = run.params.count_u32("tls-connections");
    if tls_connections > run.params.count_u32("nodes") {
        let reason = "there are fewer nodes, and each is on one connection";
        return Err(run.params.refuse("tls-connections", reason).into());
    }
    if tls_connections > 0 && run.params.text("history").is_some() {
        let reason = "a restored state has tokens of its own, which this run does not know: leave --tls-connections out";
        return Err(run.params.refuse("history", reason).into());
    }
    if run.params.text("history").is_some_and(|file| history::is_too_old(Path::new(file))) {
        let reason = "it was saved more than three hours ago, and servers forget jobs four hours after their end: remove the file, \
                      and the run makes it again";
        return Err(run.params.refuse("history", reason).into());
    }
    let cluster_params = ClusterParams {
        nodes: NodesParams::none(),
        servers: SERVERS,
        server: Vec::new(),
        secure: tls_connections > 0,
    };
    on_cluster(run, &cluster_params, async |cluster| drive::drive(run, cluster).await, async |_| Ok(()))
}

fn mode(run: &Run<'_>) -> FailureMode {
    if run.params.text("mode") == Some(COLD) { FailureMode::Cold } else { FailureMode::Warm }
}
