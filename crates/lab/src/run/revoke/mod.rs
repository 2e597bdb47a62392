//! `revoke`: a token is deleted while event streams and blocking reads are open with it, and nodes are revoked while their agents
//! are connected. All of them must end, each seen by its client or agent, and those of others must not.

mod figures;
mod nodes;
mod open_requests;
mod token;

use std::time::{Duration, Instant};

use tokio::{task::JoinSet, time::timeout};

use super::{
    Experiment, Param, ParamKind, Run, RunError, RunOutcome, Scale,
    cluster::{Cluster, ClusterParams, NodesParams, on_cluster},
    http::Connection,
};
use figures::RevokeFigures;
use open_requests::{EndedRequest, OpenRequest, OpenRequests};
use token::ReaderToken;

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "revoke",
    about: "A token is deleted while streams and waiting reads are open with it; connected nodes are revoked",
    params: &[
        Param {
            name: "streams",
            kind: ParamKind::Count { min: 1, max: 3_000 },
            about: "Event streams, each on a connection of its own",
            defaults: ["100", "1000", "1000"],
        },
        Param {
            name: "reads",
            kind: ParamKind::Count { min: 1, max: 3_000 },
            about: "Blocking queries, each on a connection of its own",
            defaults: ["100", "1000", "1000"],
        },
        Param {
            name: "nodes",
            kind: ParamKind::Count { min: 1, max: 1_000 },
            about: "Nodes that are revoked, one after the other, each with an agent on a connection of its own",
            defaults: ["10", "50", "100"],
        },
    ],
    metrics: &[figures::METRICS],
    run,
};

/// Between the last request and the end of the token: all requests are waiting at the server by then.
const REST: Duration = Duration::from_secs(1);
/// After so long whatever is still open stays so.
const ENDED_MAX: Duration = Duration::from_secs(15);

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    run.needs_own_server()?;
    let cluster_params =
        ClusterParams { nodes: NodesParams::none(), servers: 1, server: Vec::new(), secure: true };
    on_cluster(run, &cluster_params, async |cluster| drive(run, cluster).await, async |_| Ok(()))
}

async fn drive(run: &Run<'_>, cluster: &mut Cluster) -> Result<RunOutcome, RunError> {
    let (streams, reads) = (run.params.count_u32("streams"), run.params.count_u32("reads"));
    let operator = &cluster.target;
    let token = ReaderToken::make(operator).await?;
    let guest = token.target(operator);
    run.progress.print(&format!("opening {streams} streams and {reads} reads that wait"));
    let mut other_requests = OpenRequests::default();
    other_requests.open(operator, OpenRequest::Stream, 1).await?;
    let mut requests = OpenRequests::default();
    requests.open(&guest, OpenRequest::Stream, streams).await?;
    requests.open(&guest, OpenRequest::Read, reads).await?;
    tokio::time::sleep(REST).await;

    run.progress.print("the token is deleted");
    let mut connection = Connection::open(operator).await?;
    let started_at = Instant::now();
    token.delete(&mut connection).await?;
    let answered_s = started_at.elapsed().as_secs_f64();
    let mut ended = Vec::new();
    // Those never informed are counted by the difference.
    let _ = timeout(ENDED_MAX, collect(&mut requests.clients, &mut ended)).await;
    let others_ended = other_requests.clients.try_join_next().is_some();
    let cut_off = nodes::cut_off(run, cluster, run.params.count_u32("nodes")).await?;
    cluster.check()?;
    let figures = RevokeFigures { streams, reads, started_at, answered_s, ended, others_ended, cut_off };
    Ok(figures.outcome(run.options.scale != Scale::Small))
}

async fn collect(clients: &mut JoinSet<EndedRequest>, ended: &mut Vec<EndedRequest>) {
    while let Some(client) = clients.join_next().await {
        ended.push(client.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic())));
    }
}
