//! Looks again and again, from outside, at how far the servers are: who leads, which agents have a session, how many of them the
//! leader has heard out, and what clients read.

use std::time::{Duration, Instant};

use berth_api::http::RecoveryStatus;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::{
    agents::Agents,
    load::ACTIVE,
    probe::Probes,
    state::{Sums, sums},
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

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Until everything must be known again.
const COMPLETE_MAX: Duration = Duration::from_secs(300);
/// Points of a plot; when there are more, every other one is dropped.
const POINTS_MAX: usize = 400;

/// What must be there again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
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
pub(super) struct Times {
    /// A server names another leader.
    pub elected_s: f64,
    /// All agents have a session.
    pub reconnected_s: f64,
    /// The leader has heard all of them out.
    pub confirmed_s: f64,
    /// Clients read that all run.
    pub complete_s: f64,
    /// What was registered after the failure runs.
    pub placed_s: f64,
}

impl Times {
    /// When the last of all that was.
    pub fn all_s(&self) -> f64 {
        self.confirmed_s.max(self.complete_s).max(self.placed_s).max(self.reconnected_s)
    }
}

/// One who looks.
pub(super) struct Looks<'a> {
    cluster: &'a mut Cluster,
    agents: &'a Agents,
    expected: Expected,
    since: Instant,
    /// The servers that live or are starting: position, where clients find it, and a connection once there is one.
    eyes: Vec<Eye>,
    points: Points,
    /// When all agents had a session.
    reconnected_s: Option<f64>,
    wrong: Vec<String>,
}

struct Eye {
    member: usize,
    target: Target,
    agents: String,
    open: Option<Connection>,
}

/// Values against time.
#[derive(Debug, Default)]
struct Points {
    sessions: Vec<(f64, f64)>,
    confirmed: Vec<(f64, f64)>,
    sent_mb: Vec<(f64, f64)>,
    rss_mb: Vec<(f64, f64)>,
    asked: u64,
    every: u64,
}

impl<'a> Looks<'a> {
    /// Begins to look at these servers; times are since `since`.
    pub fn new(
        cluster: &'a mut Cluster,
        agents: &'a Agents,
        expected: Expected,
        members: &[usize],
        since: Instant,
    ) -> Self {
        let all = cluster.members();
        let eye = |member: &usize| Eye {
            member: *member,
            target: all[*member].target.clone(),
            agents: all[*member].agents.clone(),
            open: None,
        };
        let eyes = members.iter().map(eye).collect();
        let points = Points { every: 1, ..Points::default() };
        Self { cluster, agents, expected, since, eyes, points, reconnected_s: None, wrong: Vec::new() }
    }

    /// Looks until all is known again.
    pub async fn until_complete(&mut self, probes: &Probes) -> Result<Times, RunError> {
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
                return Ok(Times { elected_s, reconnected_s, confirmed_s, complete_s, placed_s });
            }
            if self.since.elapsed() > COMPLETE_MAX {
                let open = self.agents.links().are_open();
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

    /// The position, among those that are looked at, of the server that leads.
    async fn until_elected(&mut self) -> Result<usize, RunError> {
        loop {
            for place in 0..self.eyes.len() {
                let named: Option<String> = self.get(place, "/v1/status/leader").await;
                let leader = named.and_then(|named| self.eyes.iter().position(|eye| eye.agents == named));
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

    /// Whether the leader says that it has heard all agents out; it cannot before they have a session.
    async fn confirmed(&mut self, leader: usize) -> bool {
        let status: Option<RecoveryStatus> = self.get(leader, "/v1/status/recovery").await;
        let Some(status) = status.filter(|status| status.known_leader) else { return false };
        let confirmed = status.confirmed as f64;
        self.points.confirmed.push((self.now_s(), confirmed));
        let is_said = status.done && status.nodes == u64::from(self.expected.nodes);
        let is_open = self.are_all_open();
        let is_early = self.agents.links().opened() == self.expected.opened && !is_open;
        if is_said && is_early && self.wrong.is_empty() {
            let open = self.agents.links().are_open();
            self.wrong.push(format!(
                "the new leader said that all nodes had confirmed, when {open} of {} agents had a session",
                self.expected.nodes
            ));
        }
        is_said && is_open
    }

    /// Whether all agents have a session, those of dead servers another one: some may not have noticed yet.
    fn are_all_open(&self) -> bool {
        let links = self.agents.links();
        let moved = links.opened() - self.expected.opened;
        moved >= u64::from(self.expected.moved) && links.are_open() == self.expected.nodes
    }

    async fn are_all_running(&mut self, leader: usize) -> bool {
        let Some(open) = self.connection(leader).await else { return false };
        match sums(open, JobIds::of(ACTIVE)).await {
            Ok(Sums { running, .. }) => running == u64::from(self.expected.active),
            Err(_) => {
                self.eyes[leader].open = None;
                false
            }
        }
    }

    async fn connection(&mut self, place: usize) -> Option<&mut Connection> {
        let eye = &mut self.eyes[place];
        if eye.open.as_ref().is_none_or(Connection::is_closed) {
            eye.open = Connection::open(&eye.target).await.ok();
        }
        eye.open.as_mut()
    }

    async fn get<T: DeserializeOwned>(&mut self, place: usize, path: &str) -> Option<T> {
        let answer = self.connection(place).await?.get(path).await;
        if answer.is_err() {
            self.eyes[place].open = None;
        }
        answer.ok().map(|(value, _)| value)
    }

    fn now_s(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }

    /// Until the next look.
    async fn rest(&mut self) -> Result<(), RunError> {
        self.cluster.check()?;
        if self.reconnected_s.is_none() && self.are_all_open() {
            self.reconnected_s = Some(self.now_s());
        }
        self.sample();
        sleep(LOOK_AGAIN).await;
        Ok(())
    }

    fn sample(&mut self) {
        let Points { asked, every, .. } = &mut self.points;
        *asked += 1;
        if !asked.is_multiple_of(*every) {
            return;
        }
        let (now_s, links) = (self.now_s(), self.agents.links());
        let rss = self.eyes.iter().filter_map(|eye| self.cluster.process_of(eye.member));
        let rss_bytes = rss.filter_map(|child| usage(child.pid())).map(|used| used.rss_bytes).max();
        let points = &mut self.points;
        points.sessions.push((now_s, f64::from(links.are_open())));
        points.sent_mb.push((now_s, (links.sent_bytes() - self.expected.sent_bytes) as f64 / 1e6));
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
        let Points { sessions, confirmed, sent_mb, rss_mb, .. } = self.points;
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
        let times =
            Times { elected_s: 1.0, reconnected_s: 2.0, confirmed_s: 2.5, complete_s: 2.6, placed_s: 1.5 };
        assert_eq!(times.all_s(), 2.6);
        assert_eq!(Times { placed_s: 3.0, ..times }.all_s(), 3.0);
    }
}
