//! Simulated nodes in processes of their own, and the wait for all nodes to be ready.

use std::{
    collections::HashMap,
    path::Path,
    process::ChildStdout,
    time::{Duration, Instant},
};

use serde::Deserialize;

use super::{ChildProcess, Target};
use crate::run::{RunError, http::Connection};

/// Simulated nodes that one process takes before there is another.
const NODES_PER_PROCESS: u32 = 14_000;
/// Most processes that simulated nodes are spread over.
const PROCESSES_MAX: u32 = 3;
/// Connections of one process.
const CONNECTIONS: u32 = 4;
/// Between two polls of whether nodes are ready, and how much longer for each of them: a poll lists all nodes.
const POLL_EVERY: Duration = Duration::from_millis(100);
const POLL_EVERY_PER_NODE: Duration = Duration::from_micros(50);
/// The driver of all tasks.
const DRIVER: &str = "mock_driver";

/// Which nodes an experiment needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run) struct NodesParams {
    /// Number of nodes.
    pub count: u32,
    /// Processor capacity of each in MHz.
    pub cpu_mhz: u32,
    /// Memory of each in MiB.
    pub memory_mb: u32,
    /// Disk space of each in MiB.
    pub disk_mb: u32,
    /// More flags of `berth lab nodes`: how they behave.
    pub behaviour: Vec<String>,
}

impl NodesParams {
    /// No nodes.
    pub fn none() -> Self {
        Self { count: 0, cpu_mhz: 0, memory_mb: 0, disk_mb: 0, behaviour: Vec::new() }
    }
}

/// Starts them, in at most three processes, each with what it prints.
pub(super) fn start(
    berth: &Path,
    params: &NodesParams,
    seed: u64,
    agents: &str,
    tls: Option<&Path>,
    log_dir: &Path,
) -> Result<Vec<(ChildProcess, ChildStdout)>, RunError> {
    if params.count == 0 {
        return Ok(Vec::new());
    }
    let processes = params.count.div_ceil(NODES_PER_PROCESS).clamp(1, PROCESSES_MAX);
    let each = params.count.div_ceil(processes);
    let firsts = (0..processes).map(|process| process * each);
    let start = |(number, first): (usize, u32)| {
        let count = each.min(params.count - first);
        let mut args = args(params, seed, agents, first, count);
        args.extend(tls.iter().flat_map(|dir| ["--tls-dir".to_owned(), dir.display().to_string()]));
        ChildProcess::start(berth, &format!("nodes {}", number + 1), &args, log_dir)
    };
    firsts.enumerate().map(start).collect()
}

fn args(params: &NodesParams, seed: u64, agents: &str, first: u32, count: u32) -> Vec<String> {
    let shape = format!("cpu={},memory={},disk={}", params.cpu_mhz, params.memory_mb, params.disk_mb);
    let flags = [
        ("--server", agents.to_owned()),
        ("--first", first.to_string()),
        ("--count", count.to_string()),
        ("--connections", CONNECTIONS.to_string()),
        ("--seed", seed.to_string()),
        ("--shape", shape),
    ];
    let flags = flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
    ["lab", "nodes"].map(str::to_owned).into_iter().chain(flags).chain(params.behaviour.clone()).collect()
}

/// What is of interest of a node in a list.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NodeHealth {
    status: String,
    #[serde(default)]
    scheduling_eligibility: String,
    #[serde(default)]
    drivers: HashMap<String, DriverHealth>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DriverHealth {
    #[serde(default)]
    healthy: bool,
}

impl NodeHealth {
    fn is_usable(&self) -> bool {
        self.status == "ready"
            && self.scheduling_eligibility != "ineligible"
            && self.drivers.get(DRIVER).is_some_and(|driver| driver.healthy)
    }
}

/// Waits until so many nodes are ready. A read that is refused is tried again: servers that were just given a large state
/// are behind
/// for a while.
pub(super) async fn wait_until_ready(target: &Target, count: u32, at_most: Duration) -> Result<(), RunError> {
    let started_at = Instant::now();
    loop {
        let ready = ready(target).await;
        if ready.as_ref().is_ok_and(|ready| *ready >= count) {
            return Ok(());
        }
        if started_at.elapsed() > at_most {
            let reason = format!("{} of {count} nodes with {DRIVER} are ready after {at_most:?}", ready?);
            return Err(RunError::Start { what: "the nodes".to_owned(), reason });
        }
        tokio::time::sleep(POLL_EVERY + POLL_EVERY_PER_NODE * count).await;
    }
}

async fn ready(target: &Target) -> Result<u32, RunError> {
    let nodes: Vec<NodeHealth> = Connection::open(target).await?.list("/v1/nodes?").await?;
    let ready = nodes.iter().filter(|node| node.is_usable()).count();
    Ok(u32::try_from(ready).unwrap_or(u32::MAX))
}
