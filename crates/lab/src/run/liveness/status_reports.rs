//! The status of nodes in a server's event stream: which node was reported down or ready when.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde::Deserialize;
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};

use super::node_groups::NodeNumbers;
use crate::run::{RunError, Target, http::Connection};

/// How all names of nodes begin that are simulated.
const NAME: &str = "sim-";
/// Before a stream is opened to replace one that broke.
const FOLLOW_AGAIN: Duration = Duration::from_millis(50);
/// How long opening the first stream may take.
const OPEN_MAX: Duration = Duration::from_secs(10);

/// The status of a node as an event reported it.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatusReport {
    pub at: Instant,
    /// Number of the node.
    pub node: u32,
    /// It is ready, or else down or disconnected.
    pub is_ready: bool,
}

/// A period in which some nodes are silent, and may be reported down.
#[derive(Debug, Clone)]
pub(super) struct SilentPeriod {
    pub nodes: NodeNumbers,
    /// They are silent from then on.
    pub since: Instant,
    /// Until then, if they come back.
    pub until: Option<Instant>,
}

impl SilentPeriod {
    /// Whether this period explains the report.
    fn is_for(&self, report: &StatusReport) -> bool {
        let is_in_time = report.at >= self.since && self.until.is_none_or(|until| report.at < until);
        self.nodes.contains(&report.node) && is_in_time
    }
}

/// The reports so far, in the order of their events.
#[derive(Debug, Clone, Default)]
pub(super) struct StatusReports(Vec<StatusReport>);

impl StatusReports {
    /// How long after `since` each of these nodes was first reported down: seconds, in the order of their numbers; none for those
    /// that were not.
    pub fn down_after(&self, nodes: NodeNumbers, since: Instant) -> Vec<Option<f64>> {
        let mut first = HashMap::new();
        for report in self.0.iter().filter(|report| !report.is_ready && report.at >= since) {
            first.entry(report.node).or_insert_with(|| report.at.duration_since(since).as_secs_f64());
        }
        nodes.map(|node| first.get(&node).copied()).collect()
    }

    /// Whether each of these nodes is ready by its last report.
    pub fn are_ready(&self, nodes: NodeNumbers) -> bool {
        let last: HashMap<u32, bool> = self.0.iter().map(|report| (report.node, report.is_ready)).collect();
        nodes.into_iter().all(|node| last.get(&node).is_some_and(|is_ready| *is_ready))
    }

    /// The numbers of nodes that were reported down outside their silent periods, each once.
    pub fn falsely_down(&self, silent_periods: &[SilentPeriod]) -> Vec<u32> {
        let down = self.0.iter().filter(|report| !report.is_ready);
        let falsely = down.filter(|report| !silent_periods.iter().any(|period| period.is_for(report)));
        let mut nodes: Vec<u32> = falsely.map(|report| report.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

/// Follows the event stream until this is dropped.
pub(super) struct StatusWatcher {
    reports: Arc<Mutex<StatusReports>>,
    work: JoinHandle<()>,
}

impl StatusWatcher {
    /// Follows from now on.
    pub async fn start(target: &Target) -> Result<Self, RunError> {
        let reports = Arc::new(Mutex::new(StatusReports::default()));
        let (opened, open) = oneshot::channel();
        let follower = NodeFollower { target: target.clone(), reports: reports.clone(), from: None };
        let work = tokio::spawn(follower.work(opened));
        match tokio::time::timeout(OPEN_MAX, open).await {
            Ok(Ok(())) => Ok(Self { reports, work }),
            _ => Err(RunError::Http {
                doing: "follow what becomes of nodes".to_owned(),
                reason: format!("no stream after {OPEN_MAX:?}"),
            }),
        }
    }

    /// The reports received so far.
    pub fn reports(&self) -> StatusReports {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for StatusWatcher {
    fn drop(&mut self) {
        self.work.abort();
    }
}

/// A line of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct NodeEventLine {
    index: u64,
    events: Vec<NodeEvent>,
    more: bool,
    error: String,
    resume_index: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NodeEvent {
    payload: Option<NodePayload>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NodePayload {
    node: Option<NodeStatusRow>,
}

/// A node, in an event or in a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct NodeStatusRow {
    pub name: String,
    pub status: String,
}

impl NodeStatusRow {
    /// The report that it makes; none of a node that is initializing, or of another experiment.
    pub fn report(&self, at: Instant) -> Option<StatusReport> {
        let node = self.name.strip_prefix(NAME)?.parse().ok()?;
        let is_ready = match self.status.as_str() {
            "ready" => true,
            "down" | "disconnected" => false,
            _ => return None,
        };
        Some(StatusReport { at, node, is_ready })
    }
}

/// All nodes, as a server lists them.
pub(super) async fn list(target: &Target) -> Result<Vec<NodeStatusRow>, RunError> {
    Connection::open(target).await?.list("/v1/nodes?").await
}

struct NodeFollower {
    target: Target,
    reports: Arc<Mutex<StatusReports>>,
    /// Where to go on.
    from: Option<u64>,
}

impl NodeFollower {
    /// Follows forever, on one stream after the other.
    async fn work(mut self, opened: oneshot::Sender<()>) {
        let mut opened = Some(opened);
        loop {
            if let Err(error) = self.follow(&mut opened).await {
                tracing::debug!(%error, "the stream of nodes broke");
            }
            sleep(FOLLOW_AGAIN).await;
        }
    }

    async fn follow(&mut self, opened: &mut Option<oneshot::Sender<()>>) -> Result<(), RunError> {
        let from = self.from.map_or_else(|| "recent=false".to_owned(), |from| format!("index={from}"));
        let connection = Connection::open(&self.target).await?;
        let mut lines = connection.lines(&format!("/v1/event/stream?topic=Node&{from}")).await?;
        loop {
            let line = read(&lines.next().await?)?;
            if let Some(opened) = opened.take() {
                let _ = opened.send(());
            }
            if !line.error.is_empty() {
                // What the stream skipped is in the state, but for nodes that were down in between.
                let now = list(&self.target).await?;
                self.note(now.iter());
                self.from = Some(line.resume_index);
                return Ok(());
            }
            self.note(line.events.iter().filter_map(|event| event.payload.as_ref()?.node.as_ref()));
            if line.index > 0 {
                self.from = Some(line.index + u64::from(!line.more));
            }
        }
    }

    fn note<'n>(&self, nodes: impl Iterator<Item = &'n NodeStatusRow>) {
        let at = Instant::now();
        let report = nodes.filter_map(|node| node.report(at));
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).0.extend(report);
    }
}

fn read(line: &Bytes) -> Result<NodeEventLine, RunError> {
    serde_json::from_slice(line).map_err(|error| RunError::Http {
        doing: "follow what becomes of nodes".to_owned(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Told so many seconds after `begun`, of the node of that number, whether it is ready.
    fn reports(started_at: Instant, report: &[(u64, u32, bool)]) -> StatusReports {
        let report = report.iter().map(|(s, node, is_ready)| StatusReport {
            at: started_at + seconds(*s),
            node: *node,
            is_ready: *is_ready,
        });
        StatusReports(report.collect())
    }

    #[test]
    fn the_first_report_after_a_node_fell_silent_counts() {
        let started_at = Instant::now();
        let reports = reports(
            started_at,
            &[(1, 7, false), (2, 7, true), (20, 7, false), (25, 7, false), (22, 8, false)],
        );
        let since = started_at + seconds(5);
        assert_eq!(reports.down_after(7..10, since), [Some(15.0), Some(17.0), None]);
    }

    #[test]
    fn nodes_are_ready_by_the_last_report() {
        let started_at = Instant::now();
        let reports = reports(started_at, &[(1, 7, false), (2, 8, false), (3, 7, true)]);
        assert!(reports.are_ready(7..8) && !reports.are_ready(7..9) && !reports.are_ready(9..10));
    }

    #[test]
    fn whoever_is_down_without_an_excuse_is_so_falsely() {
        let started_at = Instant::now();
        let silent = SilentPeriod { nodes: 0..3, since: started_at + seconds(10), until: None };
        let away = SilentPeriod {
            nodes: 3..5,
            since: started_at + seconds(40),
            until: Some(started_at + seconds(70)),
        };
        let silent_periods = [silent, away];
        let falsely = |report: &[(u64, u32, bool)]| reports(started_at, report).falsely_down(&silent_periods);
        assert_eq!(falsely(&[(25, 0, false), (80, 2, false), (60, 3, false), (75, 3, true)]), [0_u32; 0]);
        assert_eq!(falsely(&[(9, 0, false), (39, 4, false), (30, 9, false), (31, 9, false)]), [0, 4, 9]);
        assert_eq!(falsely(&[(71, 3, false)]), [3], "it is back");
    }

    #[test]
    fn nodes_are_known_by_their_names() {
        let line = r#"{"Index":9,"Events":[
            {"Topic":"Node","Type":"NodeEvent","Payload":{"Node":{"ID":"x","Name":"sim-41","Status":"disconnected"}}},
            {"Topic":"Node","Type":"NodeEvent","Payload":{"Node":{"ID":"y","Name":"sim-5","Status":"ready"}}},
            {"Topic":"Node","Type":"NodeRegistration","Payload":{"Node":{"ID":"z","Name":"sim-6","Status":"initializing"}}},
            {"Topic":"Node","Type":"NodeEvent","Payload":{"Node":{"ID":"a","Name":"other","Status":"down"}}}]}"#;
        let line = read(&Bytes::from(line)).unwrap();
        let nodes = line.events.iter().filter_map(|event| event.payload.as_ref()?.node.as_ref());
        let report: Vec<_> = nodes.filter_map(|node| node.report(Instant::now())).collect();
        let report: Vec<_> = report.iter().map(|report| (report.node, report.is_ready)).collect();
        assert_eq!(report, [(41, false), (5, true)]);
    }
}
