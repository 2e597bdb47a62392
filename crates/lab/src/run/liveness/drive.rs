//! The run: nodes are filled; some fall silent, the leader is killed, a part of them vanishes and comes back; meanwhile a client follows
//! the events that report their status.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::Method;
use serde_json::json;
use tokio::time::sleep;

use super::{
    figures::{LivenessFigures, ReturnFigures},
    leaders::LeaderWatcher,
    load::{self, RETURNED, WriteLoad},
    memory::MemorySampler,
    node_groups::{LivenessSize, NodeGroups, NodeNumbers, running},
    status_reports::{self, SilentPeriod, StatusWatcher},
};
use crate::{
    nodes::Presence,
    run::{
        Run, RunError, RunOutcome, Scale, Target,
        client::{JobIds, RunClock, Submission},
        cluster::Cluster,
        failover::{self, ACTIVE, AllocCounts, sums},
        http::Connection,
    },
};

/// Between two polls of what a client has received, and of what it reads.
const POLL_EVERY: Duration = Duration::from_millis(50);
const READ_AGAIN: Duration = Duration::from_millis(200);
/// Until all of what runs must run, at the begin and again and again.
const RUNNING_MAX: Duration = Duration::from_secs(300);
/// A silent node that is not reported by then never will be.
const DOWN_MAX: Duration = Duration::from_secs(120);
/// Until a server that was killed must be there again, and a leader be named.
const SERVER_MAX: Duration = Duration::from_secs(120);
/// From the silence of nodes to the death of the leader.
const KILLED_AFTER: Duration = Duration::from_secs(1);
/// What is on its way has arrived by then.
const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// Until nodes must run what the state desires, and no more.
const AGREED_MAX: Duration = Duration::from_secs(30);

/// Does it on a cluster without nodes.
pub(super) async fn drive(
    run: &Run<'_>,
    cluster: &mut Cluster,
    size: LivenessSize,
) -> Result<RunOutcome, RunError> {
    spread(&cluster.target).await?;
    let groups = NodeGroups::start(run, cluster, size)?;
    run.progress.print(&format!("waiting for {} nodes", size.nodes));
    cluster.until_nodes_are_ready(size.nodes).await?;
    run.progress.print("starting what is to run");
    fill(run, cluster, size).await?;
    for (shared_connections, nodes) in [
        (groups.silent(), size.silent()),
        (groups.silent_in_election(), size.silent_in_election()),
        (groups.vanishing(), size.vanishing()),
    ] {
        if running(shared_connections) < nodes.len() as u64 {
            let reason = format!(
                "nodes {nodes:?} run {} allocations: too few to lose any",
                running(shared_connections)
            );
            return Err(RunError::Incomplete(reason));
        }
    }
    let leader = leader(cluster).await?;
    // A client that follows this server notices the other one's death only by the events that it receives.
    let here = (leader + 1) % cluster.members().len();
    let target = cluster.members()[here].target.clone();
    let watcher = StatusWatcher::start(&target).await?;
    let mut watched = WatchedNodes { run, size, groups, target, watcher, silent_periods: Vec::new() };
    let load = WriteLoad::start(&watched.target, run.params.count_u32("changes"));
    let started_at = Instant::now();
    let silent = watched.silence(cluster).await?;
    let silent_in_election = watched.silence_in_election(cluster, leader).await?;
    watched.watch(cluster, started_at).await?;
    let (watched_s, writes) = (started_at.elapsed().as_secs_f64(), load.writes());
    let returned = watched.vanish(cluster).await?;
    drop(load);
    let wrong = watched.look_at_all(cluster).await?;
    cluster.check()?;
    let reports = watched.watcher.reports();
    let figures = LivenessFigures {
        silent,
        silent_in_election,
        falsely_down: reports.falsely_down(&watched.silent_periods),
        watched_s,
        writes,
        returned,
        wrong,
    };
    Ok(figures.outcome(run.options.scale == Scale::Full))
}

/// Work is dealt to all nodes: those that will be lost have some.
async fn spread(target: &Target) -> Result<(), RunError> {
    let config = json!({"SchedulerAlgorithm": "spread"}).to_string();
    let path = "/v1/operator/scheduler/configuration";
    Connection::open(target).await?.write(Method::PUT, path, config.into()).await
}

async fn fill(run: &Run<'_>, cluster: &mut Cluster, size: LivenessSize) -> Result<(), RunError> {
    let jobs = failover::active(size.active());
    let mut submission =
        Submission::start(&cluster.target, &jobs, run.options.connections, RunClock::start());
    while !submission.is_done() {
        submission.next().await?;
    }
    let target = cluster.target.clone();
    until_running(cluster, &target, ACTIVE, size.active()).await
}

/// Waits until clients of a server read that so many allocations of a kind of jobs run, and no others are to.
async fn until_running(
    cluster: &mut Cluster,
    target: &Target,
    kind: u32,
    expected: u32,
) -> Result<(), RunError> {
    let started_at = Instant::now();
    loop {
        let read = match Connection::open(target).await {
            Ok(mut connection) => sums(&mut connection, JobIds::of(kind)).await,
            Err(error) => Err(error),
        };
        if let Ok(AllocCounts { running, others: 0, .. }) = read
            && running == u64::from(expected)
        {
            return Ok(());
        }
        if started_at.elapsed() > RUNNING_MAX {
            let reason = format!("clients read {:?} after {RUNNING_MAX:?}, and {expected} are to run", read?);
            return Err(RunError::Incomplete(reason));
        }
        cluster.check()?;
        sleep(READ_AGAIN).await;
    }
}

/// The position of the server that leads, as the first live one reports.
async fn leader(cluster: &mut Cluster) -> Result<usize, RunError> {
    let started_at = Instant::now();
    loop {
        for member in cluster.members() {
            let Ok(mut connection) = Connection::open(&member.target).await else { continue };
            let Ok((named, _)) = connection.get::<String>("/v1/status/leader").await else { continue };
            if let Some(leader) = cluster.members().iter().position(|member| member.agents == named) {
                return Ok(leader);
            }
        }
        if started_at.elapsed() > SERVER_MAX {
            return Err(RunError::Incomplete(format!("no server leads after {SERVER_MAX:?}")));
        }
        cluster.check()?;
        sleep(POLL_EVERY).await;
    }
}

/// Nodes, and the status that a client receives of them.
struct WatchedNodes<'a> {
    run: &'a Run<'a>,
    size: LivenessSize,
    groups: NodeGroups,
    /// A server that lives all the time.
    target: Target,
    watcher: StatusWatcher,
    /// Who may be reported down, and when.
    silent_periods: Vec<SilentPeriod>,
}

impl WatchedNodes<'_> {
    /// Some fall silent: after how many seconds each of them is reported down.
    async fn silence(&mut self, cluster: &mut Cluster) -> Result<Vec<Option<f64>>, RunError> {
        let nodes = self.size.silent();
        self.run.progress.print(&format!("{} nodes fall silent", nodes.len()));
        let since = Instant::now();
        self.period(nodes.clone(), since);
        self.groups.silent().be(Presence::Frozen);
        self.until_down(cluster, nodes, since).await
    }

    /// More of them fall silent, and the leader is killed. It is started again once they are reported.
    async fn silence_in_election(
        &mut self,
        cluster: &mut Cluster,
        leader: usize,
    ) -> Result<Vec<Option<f64>>, RunError> {
        let nodes = self.size.silent_in_election();
        let since = Instant::now();
        self.period(nodes.clone(), since);
        self.groups.silent_in_election().be(Presence::Frozen);
        sleep(KILLED_AFTER).await;
        self.run.progress.print(&format!("{} nodes more are silent, and the leader is killed", nodes.len()));
        let (_, processes) = cluster.kill(&[leader]);
        std::thread::spawn(move || drop(processes));
        let down = self.until_down(cluster, nodes, since).await?;
        cluster.start_again(leader)?;
        self.until_there(cluster, leader).await?;
        Ok(down)
    }

    /// Watches on, for as long as the run is to since `begun`.
    async fn watch(&self, cluster: &mut Cluster, started_at: Instant) -> Result<(), RunError> {
        let lasts = Duration::from_secs(self.run.params.count("watch-seconds"));
        if started_at.elapsed() < lasts {
            self.run.progress.print(&format!("watching the others until {lasts:?} have passed"));
        }
        while started_at.elapsed() < lasts {
            cluster.check()?;
            sleep(READ_AGAIN).await;
        }
        Ok(())
    }

    /// A part of all nodes goes away, is replaced, and comes back all at once.
    async fn vanish(&mut self, cluster: &mut Cluster) -> Result<ReturnFigures, RunError> {
        let nodes = self.size.vanishing();
        let target = self.target.clone();
        // What is on nodes that are lost already runs elsewhere.
        until_running(cluster, &target, ACTIVE, self.size.active()).await?;
        sleep(SETTLED_AFTER).await;
        let (leaders, memory) = (LeaderWatcher::start(&target), MemorySampler::watch(cluster));
        self.run.progress.print(&format!("{} nodes vanish", nodes.len()));
        let since = Instant::now();
        self.period(nodes.clone(), since);
        self.groups.vanishing().be(Presence::Away);
        let down = self.until_down(cluster, nodes.clone(), since).await?;
        until_running(cluster, &target, ACTIVE, self.size.active()).await?;
        let replaced_s = since.elapsed().as_secs_f64();
        self.run.progress.print(&format!("{} nodes come back at once", nodes.len()));
        let returned = Instant::now();
        if let Some(period) = self.silent_periods.last_mut() {
            period.until = Some(returned);
        }
        self.groups.vanishing().be(Presence::There);
        let mut connection = Connection::open(&target).await?;
        connection.write(Method::PUT, "/v1/jobs", load::on_all_returned()).await?;
        let ready_s = self.until_ready(cluster, nodes.clone(), returned).await?;
        until_running(cluster, &target, RETURNED, nodes.len() as u32).await?;
        let placing_s = returned.elapsed().as_secs_f64();
        sleep(SETTLED_AFTER).await;
        Ok(ReturnFigures {
            down,
            replaced_s,
            ready_s,
            placing_s,
            leader_changes: leaders.changes(),
            memory: memory.samples(),
        })
    }

    fn period(&mut self, nodes: NodeNumbers, since: Instant) {
        self.silent_periods.push(SilentPeriod { nodes, since, until: None });
    }

    /// Waits until all of these nodes are reported down, for so long as it may take.
    async fn until_down(
        &self,
        cluster: &mut Cluster,
        nodes: NodeNumbers,
        since: Instant,
    ) -> Result<Vec<Option<f64>>, RunError> {
        loop {
            let after = self.watcher.reports().down_after(nodes.clone(), since);
            if after.iter().all(Option::is_some) || since.elapsed() > DOWN_MAX {
                return Ok(after);
            }
            cluster.check()?;
            sleep(POLL_EVERY).await;
        }
    }

    /// Waits until all of these nodes are reported ready: after how many seconds.
    async fn until_ready(
        &self,
        cluster: &mut Cluster,
        nodes: NodeNumbers,
        since: Instant,
    ) -> Result<f64, RunError> {
        while !self.watcher.reports().are_ready(nodes.clone()) {
            if since.elapsed() > RUNNING_MAX {
                return Err(RunError::Incomplete(format!("not all nodes are back after {RUNNING_MAX:?}")));
            }
            cluster.check()?;
            sleep(POLL_EVERY).await;
        }
        Ok(since.elapsed().as_secs_f64())
    }

    /// Waits until a server that was started again answers as the others do.
    async fn until_there(&self, cluster: &mut Cluster, member: usize) -> Result<(), RunError> {
        let (target, started_at) = (cluster.members()[member].target.clone(), Instant::now());
        loop {
            if let Ok(mut connection) = Connection::open(&target).await
                && connection
                    .exchange(Method::GET, "/v1/jobs?per_page=1", Bytes::new())
                    .await
                    .is_ok_and(|reply| reply.status.is_success())
            {
                return Ok(());
            }
            if started_at.elapsed() > SERVER_MAX {
                return Err(RunError::Incomplete(format!("a server does not answer after {SERVER_MAX:?}")));
            }
            cluster.check()?;
            sleep(READ_AGAIN).await;
        }
    }

    /// What all servers report in the end, where it is wrong, for people.
    async fn look_at_all(&self, cluster: &mut Cluster) -> Result<Vec<String>, RunError> {
        let size = &self.size;
        let silent: BTreeSet<u32> = size.silent().chain(size.silent_in_election()).collect();
        let mut wrong = Vec::new();
        let targets: Vec<Target> = cluster.members().iter().map(|member| member.target.clone()).collect();
        for (number, target) in (1..).zip(&targets) {
            let listed = status_reports::list(target).await?;
            let report = listed.iter().filter_map(|node| node.report(Instant::now()));
            let down: BTreeSet<u32> =
                report.filter(|report| !report.is_ready).map(|report| report.node).collect();
            if down != silent || listed.len() != size.nodes as usize {
                let others: Vec<_> = down.symmetric_difference(&silent).take(5).collect();
                wrong.push(format!(
                    "server {number} lists {} nodes, {} of them as down, and {} are silent; nodes {others:?} are not as they should be",
                    listed.len(),
                    down.len(),
                    silent.len()
                ));
            }
        }
        let expected = u64::from(size.active()) + size.vanishing().len() as u64;
        let started_at = Instant::now();
        while self.groups.running() != expected && started_at.elapsed() < AGREED_MAX {
            cluster.check()?;
            sleep(READ_AGAIN).await;
        }
        let run = self.groups.running();
        if run != expected {
            wrong.push(format!("nodes that are there run {run} tasks, and {expected} are to run"));
        }
        Ok(wrong)
    }
}
