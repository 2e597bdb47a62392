//! `hostile`: hostile readers and peers, one kind after the other, each at a server of its own. What the server holds for
//! them must stay bounded and be given back, and a well-behaved client must hardly notice.

mod attacked_server;
mod attacks;
mod client;
mod figures;
mod follower_log;
mod gate;
mod memory;

use std::time::Duration;

use tokio::{sync::watch, time::sleep};

use super::{
    Experiment, Param, ParamKind, Run, RunError, RunOutcome, Scale,
    cluster::{Cluster, ClusterParams, NodesParams, on_cluster},
    params::same,
};
use attacked_server::AttackedServer;
use attacks::Attack;
use client::WatchedClient;
use figures::AttackFigures;
use memory::MemorySeries;

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hostile",
    about: "Hostile readers and peers, and what they do to memory and to a client that behaves well",
    params: &[
        Param {
            name: "attack",
            kind: ParamKind::Choice(attacks::NAMES),
            about: "Attack to run; defaults to all, one after the other",
            defaults: same(attacks::ALL),
        },
        Param {
            name: "strength",
            kind: ParamKind::Count { min: 1, max: 100 },
            about: "Percentage of the connections, bytes and requests of a full attack",
            defaults: ["5", "50", "100"],
        },
        Param {
            name: "warm-up-seconds",
            kind: ParamKind::Count { min: 1, max: 3_600 },
            about: "Time that the well-behaved client runs alone first, so that its memory is not counted for an attack",
            defaults: ["1", "10", "40"],
        },
        Param {
            name: "seconds",
            kind: ParamKind::Count { min: 1, max: 3_600 },
            about: "Duration of each attack",
            defaults: ["3", "10", "15"],
        },
        Param {
            name: "given-back-seconds",
            kind: ParamKind::Count { min: 1, max: 3_600 },
            about: "Time until the server must have returned its memory",
            defaults: ["30", "60", "60"],
        },
    ],
    metrics: &[figures::METRICS],
    run,
};

/// Simulated nodes of each server, and what one of them has.
const NODES: u32 = 5;
const NODE_CPU_MHZ: u32 = 4_000;
const NODE_MEMORY_MB: u32 = 8_192;
const NODE_DISK_MB: u32 = 102_400;
fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    run.needs_own_server()?;
    let selected = run.params.text("attack").unwrap_or(attacks::ALL);
    let mut outcome = RunOutcome::default();
    for attack in
        Attack::LIST.into_iter().filter(|attack| selected == attacks::ALL || selected == attack.name())
    {
        run.progress.print(&format!("attack: {}", attack.name()));
        let cluster_params = ClusterParams { nodes: nodes(), servers: 1, server: Vec::new(), secure: false };
        let figures = on_cluster(
            run,
            &cluster_params,
            async |cluster| run_attack(run, attack, cluster).await,
            async |_| Ok(()),
        );
        match figures {
            Ok(figures) => {
                run.progress.print(&figures.to_string());
                figures::add(&mut outcome, attack.name(), &figures, run.options.scale != Scale::Small);
            }
            Err(RunError::Interrupted) => return Err(RunError::Interrupted),
            Err(error) => outcome.failures.push(format!("{}: {error}", attack.name())),
        }
    }
    Ok(outcome)
}

fn nodes() -> NodesParams {
    NodesParams {
        count: NODES,
        cpu_mhz: NODE_CPU_MHZ,
        memory_mb: NODE_MEMORY_MB,
        disk_mb: NODE_DISK_MB,
        behaviour: Vec::new(),
    }
}

/// One attack from its preparation to the time when all should be as before.
async fn run_attack(run: &Run<'_>, attack: Attack, cluster: &mut Cluster) -> Result<AttackFigures, RunError> {
    let seconds = |param| Duration::from_secs(run.params.count(param));
    let (warm_up, lasts, given_back) =
        (seconds("warm-up-seconds"), seconds("seconds"), seconds("given-back-seconds"));
    let (stop, stopped) = watch::channel(false);
    let attacked = AttackedServer::new(cluster, run.params.count_u32("strength"), stopped)?;
    attack.prepare(&attacked).await?;
    let client = WatchedClient::start(&attacked)?;
    // The server keeps events of the last half a minute, of this client's writes too: without it, they would count as left.
    sleep(warm_up).await;
    let mut memory = MemorySeries::begin(cluster.children[0].pid());
    client.forget();
    let attacking = tokio::spawn(attack.carry_out(attacked));
    memory.watch(cluster, lasts).await?;
    let report = client.report();
    let _ = stop.send(true);
    let done = memory.watch_until(cluster, attacking).await?;
    let given_back_s = memory.until_given_back(cluster, given_back).await?;
    drop(client);
    Ok(AttackFigures { done, memory, given_back_s, report })
}
