//! `connect`: agents, each on a connection of its own, open their sessions all at once; then all connections are cut, and in the
//! end the server is killed and started again. The agents live in this process, and report when the server has welcomed them.

mod figures;
mod round;

use std::time::{Duration, Instant};

use berth_tls::TlsFiles;

use super::{
    Experiment, Param, ParamKind, Run, RunError, RunOutcome, Scale,
    cluster::{Cluster, ClusterParams, NodesParams, on_cluster},
    params::same,
    scrapes::{self, ScrapeTimes},
};
use crate::nodes::{NodesConfig, SimulatedNodes};
use figures::ConnectFigures;
use round::ConnectRound;

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "connect",
    about: "Agents, each on its own connection, that all connect at once, and again after a cut and after a crash",
    params: &[
        Param {
            name: "agents",
            kind: ParamKind::Count { min: 1, max: AGENTS_MAX },
            about: "Simulated agents",
            defaults: ["300", "2000", "10000"],
        },
        Param {
            name: "per-address",
            kind: ParamKind::Count { min: 1, max: AGENTS_MAX },
            about: "Number of these that share an address",
            defaults: same("100"),
        },
        Param {
            name: "secure",
            kind: ParamKind::Switch,
            about: "Use TLS, with one certificate for all agents; --secure=false for plain connections",
            defaults: same("true"),
        },
    ],
    metrics: &[figures::METRICS, scrapes::METRICS],
    run,
};

/// This process has a file open for each, and so has the server.
const AGENTS_MAX: u64 = 12_000;
/// For how long `/metrics` is read while all are connected.
const SCRAPED: Duration = Duration::from_secs(2);

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    run.needs_own_server()?;
    let secure = run.params.switch("secure");
    let cluster_params = ClusterParams { nodes: NodesParams::none(), servers: 1, server: Vec::new(), secure };
    on_cluster(run, &cluster_params, async |cluster| drive(run, cluster).await, async |_| Ok(()))
}

async fn drive(run: &Run<'_>, cluster: &mut Cluster) -> Result<RunOutcome, RunError> {
    let agents = run.params.count_u32("agents");
    let config = NodesConfig {
        connections: agents,
        per_address: run.params.count_u32("per-address"),
        tls: cluster.nodes_tls().map(|dir| TlsFiles::in_dir(dir, "agent")),
        seed: run.seed,
        ..NodesConfig::new(cluster.agents(), agents)
    };
    let failed = |error: crate::nodes::SettingError| RunError::Incomplete(error.to_string());
    let is_secure = config.tls.is_some();

    run.progress.print(&format!("{agents} agents connect"));
    let started_at = Instant::now();
    let simulated = SimulatedNodes::start(config).map_err(failed)?;
    let connect =
        ConnectRound::begin(0, started_at, cluster).until_all_are_open(&simulated, agents, cluster).await?;
    cluster.until_nodes_are_ready(agents).await?;
    let ready_s = started_at.elapsed().as_secs_f64();
    let scrapes = ScrapeTimes::take(&cluster.target, SCRAPED).await?;

    run.progress.print("all connections are cut");
    let cut = ConnectRound::begin(simulated.shared_connections().opened(), Instant::now(), cluster);
    simulated.shared_connections().cut();
    let resumed_before = simulated.shared_connections().resumed();
    let reconnect = cut.until_all_are_open(&simulated, agents, cluster).await?;
    let resumed = simulated.shared_connections().resumed() - resumed_before;

    run.progress.print("the server is killed, and another one starts in its place");
    let opened = simulated.shared_connections().opened();
    let crashed = cluster.crash_server()?;
    let restart =
        ConnectRound::begin(opened, crashed, cluster).until_all_are_open(&simulated, agents, cluster).await?;
    let rss_bytes = super::cluster::usage(cluster.children[0].pid()).map(|used| used.rss_bytes);

    let figures = ConnectFigures {
        agents,
        is_secure,
        connect,
        ready_s,
        reconnect,
        resumed,
        restart,
        rss_bytes,
        scrapes,
    };
    Ok(figures.outcome(run.options.scale == Scale::Full))
}
