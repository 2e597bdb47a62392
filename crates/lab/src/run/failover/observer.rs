//! Polls, from outside, how far the servers have recovered: who leads, which agents have a session, how many of them have
//! reported in full to the leader, and what clients read.

use std::time::{Duration, Instant};

use berth_api::http::RecoveryStatus;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::{
    agents::Agents,
    load::ACTIVE,
    probe::ProbeClient,
    state::{AllocCounts, sums},
};
use crate::{
    record::{Plot, PlotLine},
    run::{
        RunError, Target,
        client::JobIds,
        cluster::{Cluster, usage},
        http::Connection,
    },
};

/// The pause between two polls.
const POLL_EVERY: Duration = Duration::from_millis(5);
/// Until everything must be known again.
const COMPLETE_MAX: Duration = Duration::from_secs(300);
/// Points of a plot; when there are more, every other one is dropped.
const POINTS_MAX: usize = 400;

/// What must be reached again after the failure.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpectedState {
    pub nodes: u32,
    /// Allocations that run.
    pub active: u32,
    /// Sessions that were opened by then.
    pub opened: u64,
    /// Those of them that end with the servers that are killed.
    pub moved: u32,
    /// Bytes that agents had sent by then.
    pub sent_bytes: u64,
}

/// When what was there again, in seconds since the failure.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecoveryTimes {
    /// A server names another leader.
    pub elected_s: f64,
    /// All agents have a session.
    pub reconnected_s: f64,
    /// All of them have reported in full to the leader.
    pub confirmed_s: f64,
    /// Clients read that all run.
    pub complete_s: f64,
    /// What was registered after the failure runs.
    pub placed_s: f64,
}

impl RecoveryTimes {
    /// When the last of all that was.
    pub fn all_s(&self) -> f64 {
        self.confirmed_s.max(self.complete_s).max(self.placed_s).max(self.reconnected_s)
    }
}

/// Polls the servers and records when each stage of the recovery was reached.
pub(super) struct RecoveryObserver<'a> {
    cluster: &'a mut Cluster,
    agents: &'a Agents,
    expected: ExpectedState,
    since: Instant,
    /// The servers that live or are starting: position, where clients find it, and a connection once there is one.
    servers: Vec<ObservedServer>,
    points: RecoverySeries,
    /// When all agents had a session.
    reconnected_s: Option<f64>,
    wrong: Vec<String>,
}

struct ObservedServer {
    member: usize,
    target: Target,
    agents: String,
    open: Option<Connection>,
}

/// Series against seconds since the failure.
#[derive(Debug, Default)]
struct RecoverySeries {
    sessions: Vec<(f64, f64)>,
    confirmed: Vec<(f64, f64)>,
    sent_mb: Vec<(f64, f64)>,
    rss_mb: Vec<(f64, f64)>,
    calls: u64,
    every: u64,
}

impl<'a> RecoveryObserver<'a> {
    /// Begins to observe these servers; times are since `since`.
    pub fn new(
        cluster: &'a mut Cluster,
        agents: &'a Agents,
        expected: ExpectedState,
        members: &[usize],
        since: Instant,
    ) -> Self {
        let all = cluster.members();
        let server = |member: &usize| ObservedServer {
            member: *member,
            target: all[*member].target.clone(),
            agents: all[*member].agents.clone(),
            open: None,
        };
        let servers = members.iter().map(server).collect();
        let points = RecoverySeries { every: 1, ..RecoverySeries::default() };
        Self { cluster, agents, expected, since, servers, points, reconnected_s: None, wrong: Vec::new() }
    }

    /// Looks until all is known again.
    pub async fn until_complete(&mut self, probes: &ProbeClient) -> Result<RecoveryTimes, RunError> {
        let leader = self.until_elected().await?;
        let elected_s = self.now_s();
        let (mut confirmed, mut complete) = (None, None);
        loop {
            if confirmed.is_none() {
                confirmed = self.confirmed(leader).await.then(|| self.now_s());
            } else if complete.is_none() {
                complete = self.are_all_running(leader).await.then(|| self.now_s());
            }
            let found = (self.reconnected_s, confirmed, complete, probes.first_s());
            if let (Some(reconnected_s), Some(confirmed_s), Some(complete_s), Some(placed_s)) = found {
                return Ok(RecoveryTimes { elected_s, reconnected_s, confirmed_s, complete_s, placed_s });
            }
            if self.since.elapsed() > COMPLETE_MAX {
                let open = self.agents.shared_connections().are_open();
                let message = format!(
                    "after {COMPLETE_MAX:?}, {open} of {} agents have a session; all had one, all confirmed, all running, a probe \
                     placed: {found:?}",
                    self.expected.nodes
                );
                return Err(RunError::Incomplete(message));
            }
            self.rest().await?;
        }
    }

    /// The index in `servers` of the one that leads.
    async fn until_elected(&mut self) -> Result<usize, RunError> {
        loop {
            for index in 0..self.servers.len() {
                let named: Option<String> = self.get(index, "/v1/status/leader").await;
                let leader =
                    named.and_then(|named| self.servers.iter().position(|server| server.agents == named));
                if let Some(leader) = leader {
                    return Ok(leader);
                }
            }
            if self.since.elapsed() > COMPLETE_MAX {
                return Err(RunError::Incomplete(format!("no server leads after {COMPLETE_MAX:?}")));
            }
            self.rest().await?;
        }
    }

    /// Whether the leader reports that all nodes are confirmed; it cannot before their agents have a session.
    async fn confirmed(&mut self, leader: usize) -> bool {
        let status: Option<RecoveryStatus> = self.get(leader, "/v1/status/recovery").await;
        let Some(status) = status.filter(|status| status.known_leader) else { return false };
        let confirmed = status.confirmed as f64;
        self.points.confirmed.push((self.now_s(), confirmed));
        let is_said = status.done && status.nodes == u64::from(self.expected.nodes);
        let is_open = self.are_all_open();
        let is_early = self.agents.shared_connections().opened() == self.expected.opened && !is_open;
        if is_said && is_early && self.wrong.is_empty() {
            let open = self.agents.shared_connections().are_open();
            self.wrong.push(format!(
                "the new leader said that all nodes had confirmed, when {open} of {} agents had a session",
                self.expected.nodes
            ));
        }
        is_said && is_open
    }

    /// Whether all agents have a session, those of dead servers another one: some may not have noticed yet.
    fn are_all_open(&self) -> bool {
        let shared_connections = self.agents.shared_connections();
        let moved = shared_connections.opened() - self.expected.opened;
        moved >= u64::from(self.expected.moved) && shared_connections.are_open() == self.expected.nodes
    }

    async fn are_all_running(&mut self, leader: usize) -> bool {
        let Some(open) = self.connection(leader).await else { return false };
        match sums(open, JobIds::of(ACTIVE)).await {
            Ok(AllocCounts { running, .. }) => running == u64::from(self.expected.active),
            Err(_) => {
                self.servers[leader].open = None;
                false
            }
        }
    }

    async fn connection(&mut self, index: usize) -> Option<&mut Connection> {
        let server = &mut self.servers[index];
        if server.open.as_ref().is_none_or(Connection::is_closed) {
            server.open = Connection::open(&server.target).await.ok();
        }
        server.open.as_mut()
    }

    async fn get<T: DeserializeOwned>(&mut self, index: usize, path: &str) -> Option<T> {
        let answer = self.connection(index).await?.get(path).await;
        if answer.is_err() {
            self.servers[index].open = None;
        }
        answer.ok().map(|(value, _)| value)
    }

    fn now_s(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }

    /// Sleeps until the next poll.
    async fn rest(&mut self) -> Result<(), RunError> {
        self.cluster.check()?;
        if self.reconnected_s.is_none() && self.are_all_open() {
            self.reconnected_s = Some(self.now_s());
        }
        self.sample();
        sleep(POLL_EVERY).await;
        Ok(())
    }

    fn sample(&mut self) {
        let RecoverySeries { calls, every, .. } = &mut self.points;
        *calls += 1;
        if !calls.is_multiple_of(*every) {
            return;
        }
        let (now_s, shared_connections) = (self.now_s(), self.agents.shared_connections());
        let rss = self.servers.iter().filter_map(|server| self.cluster.process_of(server.member));
        let rss_bytes = rss.filter_map(|child| usage(child.pid())).map(|used| used.rss_bytes).max();
        let points = &mut self.points;
        points.sessions.push((now_s, f64::from(shared_connections.are_open())));
        points
            .sent_mb
            .push((now_s, (shared_connections.sent_bytes() - self.expected.sent_bytes) as f64 / 1e6));
        points.rss_mb.push((now_s, rss_bytes.unwrap_or_default() as f64 / 1e6));
        if points.sessions.len() > POINTS_MAX {
            points.every *= 2;
            let lines = [&mut points.sessions, &mut points.sent_mb, &mut points.rss_mb];
            lines.into_iter().for_each(every_other);
        }
        if points.confirmed.len() > POINTS_MAX {
            every_other(&mut points.confirmed);
        }
    }

    /// What should not have been, for people, and charts of what was seen.
    pub fn end(self) -> (Vec<String>, Vec<Plot>) {
        let plot = |title: &str, y: &str, lines: Vec<(&str, Vec<(f64, f64)>)>| Plot {
            title: title.to_owned(),
            x: "seconds since the failure".to_owned(),
            y: y.to_owned(),
            lines: lines.into_iter().map(|(name, points)| PlotLine::measured(name, points)).collect(),
            groups: Vec::new(),
        };
        let RecoverySeries { sessions, confirmed, sent_mb, rss_mb, .. } = self.points;
        let nodes = vec![("agents with a session", sessions), ("nodes confirmed, by the leader", confirmed)];
        let plots = vec![
            plot("Nodes after the failure", "nodes", nodes),
            plot("Sent by agents since the failure", "MB", vec![("all agents", sent_mb)]),
            plot("Memory", "MB", vec![("the largest server", rss_mb)]),
        ];
        (self.wrong, plots)
    }
}

fn every_other(points: &mut Vec<(f64, f64)>) {
    let mut keep = false;
    points.retain(|_| {
        keep = !keep;
        keep
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_there_when_the_last_of_it_is() {
        let times = RecoveryTimes {
            elected_s: 1.0,
            reconnected_s: 2.0,
            confirmed_s: 2.5,
            complete_s: 2.6,
            placed_s: 1.5,
        };
        assert_eq!(times.all_s(), 2.6);
        assert_eq!(RecoveryTimes { placed_s: 3.0, ..times }.all_s(), 3.0);
    }
}
