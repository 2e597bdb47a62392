//! Runs one round after the other, and at the end deletes everything.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use tokio::time::sleep;

use super::{
    churn::{RoundLatencies, SoakClients, SoakLoad},
    figures::{self, SoakFigures, SoakRound},
    footprint::ServerFootprint,
    jobs,
};
use crate::run::{
    Run, RunError, RunOutcome, Scale, Target, audit, client::JobIds, cluster::Cluster, http::Connection,
};

/// From the end of a round's requests to its garbage collection: what was stopped ends meanwhile.
const SETTLES: Duration = Duration::from_secs(1);
/// Between two checks of whether all is given back.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Does all rounds.
pub(super) async fn drive(run: &Run<'_>, cluster: &mut Cluster) -> Result<RunOutcome, RunError> {
    let churn = SoakLoad {
        target: cluster.target.clone(),
        staying: JobIds::of(0x50a0),
        passing: JobIds::of(0x50a1),
        services: run.params.count("services"),
        node: a_node(&cluster.target).await?,
    };
    let idle = ServerFootprint::measure(cluster).await?;
    begin(&churn).await?;
    let lasts = Duration::from_secs(run.params.count("round-seconds"));
    let mut clients = SoakClients::start(&churn, run.params.count("rate"));
    let (started_at, mut rounds, mut wrong) = (Instant::now(), Vec::new(), Vec::new());
    for number in 1..=run.params.count("rounds") {
        clients.go_on();
        sleep(lasts).await;
        let latencies = clients.pause().await?;
        sleep(SETTLES).await;
        let round = round(cluster, &churn.target, started_at, latencies).await?;
        run.progress.print(&format!("round {number}: {round}"));
        rounds.push(round);
        wrong.extend(audit::failures(&churn.target).await?);
    }
    drop(clients);
    run.progress.print("all jobs are purged");
    purge_all(&churn.target).await?;
    let given_back = Duration::from_secs(run.params.count("given-back-seconds"));
    let timed = run.options.scale != Scale::Small;
    let is_given_back = |left| figures::is_given_back(left, [idle, rounds[0].footprint], timed);
    let left = until(is_given_back, cluster, &churn.target, given_back).await?;
    let mut outcome = figures::outcome(&SoakFigures { idle, rounds, left }, timed);
    outcome.failures.extend(wrong);
    Ok(outcome)
}

/// What is there from the begin.
async fn begin(churn: &SoakLoad) -> Result<(), RunError> {
    let mut connection = Connection::open(&churn.target).await?;
    let services = (0..churn.services).map(|number| {
        let id = churn.staying.id(u32::try_from(number).unwrap_or(u32::MAX));
        jobs::service(&id, 0)
    });
    let others = [jobs::parameterized(&churn.parameterized()), jobs::periodic(&churn.periodic())];
    for body in services.chain(others) {
        connection.write(Method::PUT, "/v1/jobs", body).await?;
    }
    Ok(())
}

/// Ends a round.
async fn round(
    cluster: &mut Cluster,
    target: &Target,
    started_at: Instant,
    latencies: RoundLatencies,
) -> Result<SoakRound, RunError> {
    collect_garbage(target).await?;
    Ok(SoakRound {
        ended_s: started_at.elapsed().as_secs_f64(),
        footprint: ServerFootprint::measure(cluster).await?,
        latencies,
    })
}

async fn collect_garbage(target: &Target) -> Result<(), RunError> {
    Connection::open(target).await?.write(Method::PUT, "/v1/system/gc", Bytes::new()).await
}

/// What is left once all jobs are purged: at the latest after `at_most`.
async fn until(
    is_given_back: impl Fn(ServerFootprint) -> bool,
    cluster: &mut Cluster,
    target: &Target,
    at_most: Duration,
) -> Result<ServerFootprint, RunError> {
    let started_at = Instant::now();
    loop {
        collect_garbage(target).await?;
        let left = ServerFootprint::measure(cluster).await?;
        if is_given_back(left) || started_at.elapsed() > at_most {
            return Ok(left);
        }
        sleep(POLL_EVERY).await;
    }
}

#[derive(Deserialize)]
struct NamedNode {
    #[serde(rename = "ID")]
    id: String,
}

async fn a_node(target: &Target) -> Result<String, RunError> {
    let nodes: Vec<NamedNode> = Connection::open(target).await?.list("/v1/nodes?").await?;
    let first = nodes.into_iter().next();
    first.map(|node| node.id).ok_or_else(|| RunError::Incomplete("there is no node".to_owned()))
}

async fn purge_all(target: &Target) -> Result<(), RunError> {
    let mut connection = Connection::open(target).await?;
    let all: Vec<NamedNode> = connection.list("/v1/jobs?").await?;
    for job in all {
        let path = format!("/v1/job/{}?purge=true", job.id.replace('/', "%2F"));
        // A child of the periodic job may be gone with its parent.
        connection.exchange(Method::DELETE, &path, Bytes::new()).await?;
    }
    Ok(())
}
