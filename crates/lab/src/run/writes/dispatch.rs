//! Dispatches of one parameterized job: how many a second are accepted, whether each of them exists afterwards, and whether
//! their number makes later ones slower.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{background_writer::BackgroundWriter, latencies_ms, queue};
use crate::{
    record::percentile,
    run::{
        Metric, Run, RunError, RunOutcome, Target,
        client::{JobIds, JobTimes, RunClock},
        cluster::{Cluster, NodesParams},
        http::Connection,
    },
};

pub(super) const METRICS: &[Metric] = &[
    Metric { name: "dispatches_per_s", unit: "1/s" },
    Metric { name: "dispatches_refused", unit: "1" },
    Metric { name: "dispatch_latency_ms_p50", unit: "ms" },
    Metric { name: "dispatch_latency_ms_p99", unit: "ms" },
    Metric { name: "dispatch_latency_ms_max", unit: "ms" },
    Metric { name: "dispatch_latency_ms_p50_first_tenth", unit: "ms" },
    Metric { name: "dispatch_latency_ms_p50_last_tenth", unit: "ms" },
    Metric { name: "children", unit: "1" },
    Metric { name: "queue_done_s", unit: "s" },
    Metric { name: "queue_done_after_last_accepted_s", unit: "s" },
    Metric { name: "others_placed", unit: "1" },
    Metric { name: "others_placed_ms_p50", unit: "ms" },
    Metric { name: "others_placed_ms_max", unit: "ms" },
];

/// What one run requests, and for how long it runs.
const TASK_CPU_MHZ: u32 = 100;
const TASK_MEMORY_MB: u32 = 64;
const TASK_DISK_MB: u32 = 10;
const RUN_FOR: &str = "100ms";
/// Runs that fit on a node at a time, besides one job of the background writer.
const HEADROOM: u32 = 10;
/// Of each payload as it is sent, in base64: of digits, which are some of its characters, 66 bytes.
const PAYLOAD_CHARS: usize = 88;
/// Kinds of refusals that are distinguished.
const REASONS_MAX: usize = 8;
/// How many of the runs that are missing are named.
const NAMED_MAX: usize = 3;
/// Between two checks that the server still lives.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// Nodes that fit so many runs at a time.
pub(super) fn nodes(count: u32) -> NodesParams {
    let each = HEADROOM + 1;
    NodesParams {
        count,
        cpu_mhz: each * TASK_CPU_MHZ,
        memory_mb: each * TASK_MEMORY_MB,
        disk_mb: each * TASK_DISK_MB,
        behaviour: Vec::new(),
    }
}

/// Dispatches so often, and checks the results.
pub(super) async fn drive(
    run: &Run<'_>,
    ids: JobIds,
    count: u32,
    nodes: u32,
    cluster: &mut Cluster,
) -> Result<RunOutcome, RunError> {
    let target = cluster.target.clone();
    let parent = ids.id(0);
    let job = parameterized(&parent);
    Connection::open(&target).await?.write(Method::PUT, "/v1/jobs", job).await?;
    // Where nothing can be placed at all, nothing shows that others are.
    let writer = if nodes > 0 { Some(BackgroundWriter::begin(&target, ids).await?) } else { None };
    run.progress.print(&format!("dispatching {count} times"));
    let clock = RunClock::start();
    let mut dispatches = Dispatches::start(&target, &parent, count, run.options.connections, clock);
    while !dispatches.connections.is_empty() {
        if tokio::time::timeout(POLL_EVERY, dispatches.next()).await.is_ok_and(|next| next.is_err()) {
            cluster.check()?;
        }
        dispatches.failed.take().map_or(Ok(()), Err)?;
    }
    cluster.check()?;
    let mut outcome = dispatches.outcome();
    let last_s = dispatches.last_s();
    // What has been idle for as long as that took may be closed.
    let mut connection = Connection::open(&target).await?;
    let there = children(&mut connection, &parent).await?;
    dispatches.compare(&there, &mut outcome);
    if let Some(writer) = writer {
        run.progress.print("waiting until the queue is worked off");
        let done_s = queue::worked_off(cluster, &mut connection, &parent, clock).await?;
        outcome.metrics.insert("queue_done_s", done_s);
        outcome.metrics.insert("queue_done_after_last_accepted_s", done_s - last_s);
        writer.end(&mut outcome).await?;
    } else {
        outcome.notes.push("there are no nodes: everything that is dispatched waits for room".to_owned());
    }
    cluster.check()?;
    Ok(outcome)
}

/// Takes everything away again from a server that stays.
pub(super) async fn clean_up(target: &Target, ids: JobIds) -> Result<(), RunError> {
    let mut connection = Connection::open(target).await?;
    let parent = ids.id(0);
    for id in children(&mut connection, &parent).await?.iter().chain([&parent]) {
        let path = format!("/v1/job/{}?purge=true", id.replace('/', "%2F"));
        connection.write(Method::DELETE, &path, Bytes::new()).await?;
    }
    BackgroundWriter::clean_up(target, ids).await
}

fn parameterized(id: &str) -> Bytes {
    let task = json!({
        "Name": "task",
        "Driver": "mock_driver",
        "Config": {"run_for": RUN_FOR},
        "LogConfig": {"Disabled": true, "MaxFiles": 1, "MaxFileSizeMB": 1},
        "Resources": {"CPU": TASK_CPU_MHZ, "MemoryMB": TASK_MEMORY_MB},
    });
    let group = json!({"Name": "group", "EphemeralDisk": {"SizeMB": TASK_DISK_MB}, "Tasks": [task]});
    let job = json!({
        "ID": id,
        "Name": id,
        "Type": "batch",
        "Datacenters": ["*"],
        "ParameterizedJob": {"Payload": "required", "MetaRequired": ["number"]},
        "TaskGroups": [group],
    });
    json!({ "Job": job }).to_string().into()
}

/// The ids of all jobs that were made of this one.
async fn children(connection: &mut Connection, parent: &str) -> Result<BTreeSet<String>, RunError> {
    #[derive(Deserialize)]
    struct Child {
        #[serde(rename = "ID")]
        id: String,
    }
    let listed: Vec<Child> = connection.list(&format!("/v1/jobs?prefix={parent}/dispatch-&")).await?;
    Ok(listed.into_iter().map(|child| child.id).collect())
}

/// What became of one request.
struct DispatchAnswer {
    number: u32,
    times: JobTimes,
    /// The id of the run, or why there is none.
    result: Result<String, String>,
}

/// Dispatches on their way, and what was answered so far.
struct Dispatches {
    connections: JoinSet<Result<Vec<DispatchAnswer>, RunError>>,
    answered: Vec<DispatchAnswer>,
    failed: Option<RunError>,
}

impl Dispatches {
    fn start(target: &Target, parent: &str, count: u32, connections: u32, clock: RunClock) -> Self {
        let next = Arc::new(AtomicU32::new(0));
        let path: Arc<str> = format!("/v1/job/{parent}/dispatch").into();
        let mut tasks = JoinSet::new();
        for _ in 0..connections.clamp(1, count) {
            let (target, next, path) = (target.clone(), next.clone(), path.clone());
            tasks.spawn(async move {
                let mut connection = Connection::open(&target).await?;
                let mut answered = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Ok(answered);
                    }
                    answered.push(dispatch(&mut connection, &path, number, clock).await?);
                }
            });
        }
        Self { connections: tasks, answered: Vec::new(), failed: None }
    }

    /// Waits until a connection is done; fails when it has failed, for the reason that is kept.
    async fn next(&mut self) -> Result<(), ()> {
        match self.connections.join_next().await {
            None => {}
            Some(Ok(Ok(answered))) => self.answered.extend(answered),
            Some(Ok(Err(failed))) => {
                self.failed = Some(failed);
                return Err(());
            }
            Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
        }
        Ok(())
    }

    /// When the last answer came.
    fn last_s(&self) -> f64 {
        self.answered.iter().map(|one| one.times.acknowledged_s).fold(f64::NAN, f64::max)
    }

    fn outcome(&mut self) -> RunOutcome {
        self.answered.sort_unstable_by_key(|one| one.number);
        let mut outcome = RunOutcome::default();
        let accepted: Vec<&JobTimes> =
            self.answered.iter().filter(|one| one.result.is_ok()).map(|one| &one.times).collect();
        let refused = self.answered.len() - accepted.len();
        outcome.metrics.insert("dispatches_per_s", accepted.len() as f64 / self.last_s());
        outcome.metrics.insert("dispatches_refused", refused as f64);
        let all = latencies_ms(accepted.iter().copied());
        for (name, part) in [
            ("dispatch_latency_ms_p50", 0.5),
            ("dispatch_latency_ms_p99", 0.99),
            ("dispatch_latency_ms_max", 1.0),
        ] {
            outcome.metrics.extend(percentile(&all, part).map(|value| (name, value)));
        }
        let tenth = accepted.len().div_ceil(10);
        for (name, part) in [
            ("dispatch_latency_ms_p50_first_tenth", &accepted[..tenth]),
            ("dispatch_latency_ms_p50_last_tenth", &accepted[accepted.len() - tenth..]),
        ] {
            let latencies = latencies_ms(part.iter().copied());
            outcome.metrics.extend(percentile(&latencies, 0.5).map(|value| (name, value)));
        }
        for (reason, times) in self.reasons() {
            outcome.notes.push(format!("{times} dispatches were refused: {reason}"));
        }
        outcome
    }

    /// Why some were refused, and how many for each reason; reasons beyond the first few are one.
    fn reasons(&self) -> BTreeMap<&str, u64> {
        let mut reasons = BTreeMap::new();
        for reason in self.answered.iter().filter_map(|one| one.result.as_ref().err()) {
            let known = reasons.len() < REASONS_MAX || reasons.contains_key(reason.as_str());
            *reasons.entry(if known { reason } else { "for other reasons" }).or_default() += 1;
        }
        reasons
    }

    /// Whether exactly those runs are there that were accepted.
    fn compare(&self, there: &BTreeSet<String>, outcome: &mut RunOutcome) {
        outcome.metrics.insert("children", there.len() as f64);
        let result: Vec<&String> = self.answered.iter().filter_map(|one| one.result.as_ref().ok()).collect();
        let accepted: BTreeSet<&String> = result.iter().copied().collect();
        if accepted.len() < result.len() {
            let twice = result.len() - accepted.len();
            outcome.failures.push(format!("{twice} dispatches were answered with the id of another one"));
        }
        let missing: Vec<&str> =
            accepted.iter().filter(|id| !there.contains(**id)).map(|id| id.as_str()).collect();
        if let Some(named) = missing.get(..missing.len().min(NAMED_MAX)).filter(|named| !named.is_empty()) {
            let text = format!("{} accepted runs are not there, such as {}", missing.len(), named.join(", "));
            outcome.failures.push(text);
        }
        let nobodys = there.iter().filter(|id| !accepted.contains(id)).count();
        if nobodys > 0 {
            outcome.failures.push(format!("{nobodys} runs exist of which no client was told"));
        }
    }
}

async fn dispatch(
    connection: &mut Connection,
    path: &str,
    number: u32,
    clock: RunClock,
) -> Result<DispatchAnswer, RunError> {
    #[derive(Deserialize)]
    struct Accepted {
        #[serde(rename = "DispatchedJobID")]
        id: String,
    }
    let payload = format!("{number:0PAYLOAD_CHARS$}");
    let body = json!({"Payload": payload, "Meta": {"number": number.to_string()}}).to_string();
    let submitted_s = clock.now_s();
    let reply = connection.exchange(Method::PUT, path, body.into()).await?;
    let times = JobTimes { submitted_s, acknowledged_s: clock.now_s() };
    let result = if reply.status.is_success() {
        let accepted: Accepted = serde_json::from_slice(&reply.body).map_err(|error| RunError::Http {
            doing: format!("ask for {path}"),
            reason: error.to_string(),
        })?;
        Ok(accepted.id)
    } else {
        Err(format!("{}: {}", reply.status, reply.text()))
    };
    Ok(DispatchAnswer { number, times, result })
}

/// A service of the background writer, which is placed while the queue waits.
pub(super) fn service(id: &str, namespace: &str) -> Value {
    let task = json!({
        "Name": "task",
        "Driver": "mock_driver",
        "Config": {"run_for": "24h"},
        "Resources": {"CPU": TASK_CPU_MHZ, "MemoryMB": TASK_MEMORY_MB},
    });
    let group = json!({"Name": "group", "EphemeralDisk": {"SizeMB": TASK_DISK_MB}, "Tasks": [task]});
    json!({
        "ID": id,
        "Name": id,
        "Namespace": namespace,
        "Datacenters": ["*"],
        "Update": {"MaxParallel": 0},
        "TaskGroups": [group],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(number: u32, result: Result<&str, &str>) -> DispatchAnswer {
        let submitted_s = f64::from(number);
        let times = JobTimes { submitted_s, acknowledged_s: submitted_s + f64::from(number) / 1e3 };
        DispatchAnswer { number, times, result: result.map(str::to_owned).map_err(str::to_owned) }
    }

    fn dispatches(answered: Vec<DispatchAnswer>) -> Dispatches {
        Dispatches { connections: JoinSet::new(), answered, failed: None }
    }

    #[test]
    fn figures_are_of_what_was_accepted_and_refusals_are_counted_by_reason() {
        let accepted = (1..=100).map(|number| answered(number, Ok("id")));
        let refused =
            (101..=103).map(|number| answered(number, Err(if number > 101 { "busy" } else { "no" })));
        let mut dispatches = dispatches(accepted.chain(refused).rev().collect());
        let outcome = dispatches.outcome();
        let metrics = &outcome.metrics;
        assert_eq!(metrics["dispatches_refused"], 3.0);
        assert!((metrics["dispatches_per_s"] - 100.0 / 103.103).abs() < 1e-6, "{metrics:?}");
        assert!((metrics["dispatch_latency_ms_p99"] - 99.0).abs() < 1e-6, "{metrics:?}");
        let tenths = ["dispatch_latency_ms_p50_first_tenth", "dispatch_latency_ms_p50_last_tenth"];
        let tenths = tenths.map(|name| metrics[name].round());
        assert_eq!(tenths, [5.0, 95.0]);
        assert_eq!(outcome.notes, ["2 dispatches were refused: busy", "1 dispatches were refused: no"]);
    }

    #[test]
    fn what_is_not_there_or_nobodys_or_answered_twice_fails_the_run() {
        let result = [Ok("a"), Ok("b"), Ok("b"), Err("busy")];
        let dispatches =
            dispatches((0..).zip(result).map(|(number, result)| answered(number, result)).collect());
        let compared = |there: &[&str]| {
            let mut outcome = RunOutcome::default();
            dispatches.compare(&there.iter().map(|id| (*id).to_owned()).collect(), &mut outcome);
            (outcome.metrics["children"], outcome.failures)
        };
        let twice = "1 dispatches were answered with the id of another one".to_owned();
        assert_eq!(compared(&["a", "b"]), (2.0, vec![twice.clone()]));
        let missing = "1 accepted runs are not there, such as a".to_owned();
        let nobodys = "1 runs exist of which no client was told".to_owned();
        assert_eq!(compared(&["b", "c"]), (2.0, vec![twice, missing, nobodys]));
    }
}
