//! `density`: many small services onto a cluster that they fill completely. Published by CoreOS in 2016 for
//! Kubernetes, 30,000 pods onto 1,000 nodes, and kept since as Kubemark's density test.

use std::time::Duration;

use serde_json::Value;

use super::{
    Experiment, Metric, Param, ParamKind, Run, RunError, RunOutcome,
    client::JobTemplate,
    cluster::NodesParams,
    load::{self, AwaitedState, LoadParams},
    mock_job::MockJob,
    params::{SECURE, SERVERS, same},
    profile::Profiling,
    published_pace::{self, PublishedPace},
};
use crate::engine;

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "density",
    about: "Small services until every node is full (CoreOS 2016, Kubemark's density test)",
    params: &[
        Param {
            name: "nodes",
            kind: ParamKind::Count { min: 1, max: 200_000 },
            about: "Simulated nodes",
            defaults: ["100", "1000", "1000"],
        },
        Param {
            name: "tasks-per-node",
            kind: ParamKind::Count { min: 1, max: 1_000 },
            about: "Allocations per node, of one task each",
            defaults: same("30"),
        },
        Param {
            name: "jobs",
            kind: ParamKind::Count { min: 1, max: 10_000_000 },
            about: "Number of jobs",
            defaults: same("30"),
        },
        Param {
            name: "engine-only",
            kind: ParamKind::Switch,
            about: "Decide in this process, on one processor, without a server",
            defaults: same("false"),
        },
        Param {
            name: "asks",
            kind: ParamKind::Count { min: 1, max: ASKS_MAX as u64 },
            about: "Different resource requests among the jobs, with --engine-only",
            defaults: same("1"),
        },
        SERVERS,
        SECURE,
    ],
    metrics: &[load::METRICS, ENGINE_METRICS],
    run,
};

/// What CoreOS and Kubemark published: 30,000 pods onto 1,000 nodes before and after the work on the scheduler.
pub(super) const PUBLISHED: &[PublishedPace] = &[
    PublishedPace { whose: "Kubernetes, CoreOS 2016, before", per_s: 3.4 },
    PublishedPace { whose: "Kubernetes, Kubemark", per_s: 16.3 },
    PublishedPace { whose: "Kubernetes, CoreOS 2016, after", per_s: 51.0 },
];

/// What one task requests. A node fits exactly as many as there are for each.
const TASK_CPU_MHZ: u32 = 100;
const TASK_MEMORY_MB: u32 = 64;
const TASK_DISK_MB: u32 = 10;

/// Asks may be this much smaller than the largest, in steps of one.
const CPU_STEPS: u32 = TASK_CPU_MHZ / 2;
const MEMORY_STEPS: u32 = TASK_MEMORY_MB / 2;
const ASKS_MAX: u32 = CPU_STEPS * MEMORY_STEPS;

const ENGINE_METRICS: &[Metric] = &[
    Metric { name: "engine_ns_per_placement", unit: "ns" },
    Metric { name: "engine_apply_ns_per_placement", unit: "ns" },
];

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    let nodes = run.params.count_u32("nodes");
    let each = run.params.count_u32("tasks-per-node");
    let jobs = run.params.count_u32("jobs");
    let total = nodes * each;
    if !total.is_multiple_of(jobs) {
        let reason =
            format!("{nodes} nodes with {each} allocations each cannot be shared equally by so many jobs");
        return Err(run.params.refuse("jobs", reason).into());
    }
    if run.params.switch("engine-only") {
        if run.params.switch("secure") {
            return Err(run.params.refuse("secure", "with --engine-only there is no server to guard").into());
        }
        return engine_only(run, nodes, each, jobs, total / jobs);
    }
    if run.params.count("asks") != 1 {
        return Err(run.params.refuse("asks", "jobs with different asks are for --engine-only").into());
    }
    let servers = run.params.count_u32("servers");
    let secure = run.params.switch("secure");
    let load = LoadParams { servers, secure, ..small_services(nodes, each, jobs, total / jobs) };
    let mut outcome = load::measure(run, &load)?;
    if servers > 1 {
        outcome.notes.push(
            "what the server used is what the first of the servers used, which led at the start".into(),
        );
    }
    outcome.series.plots.insert(0, published_pace::picture(&outcome.metrics, PUBLISHED));
    outcome.notes.push(format!("every node has room for exactly {each} allocations: the cluster ends full"));
    Ok(outcome)
}

fn engine_only(run: &Run<'_>, nodes: u32, each: u32, jobs: u32, count: u32) -> Result<RunOutcome, RunError> {
    let asks = run.params.count_u32("asks");
    let shape = [TASK_CPU_MHZ, TASK_MEMORY_MB, TASK_DISK_MB].map(|of_one| of_one * each);
    let jobs = (0..jobs).map(|number| {
        let ask = number % asks;
        let mut job = small_service(count, TASK_CPU_MHZ - ask % CPU_STEPS, TASK_MEMORY_MB - ask / CPU_STEPS);
        job["ID"] = format!("density-{number}").into();
        job
    });
    let profiling = Profiling::begin(run, Some(std::process::id()));
    let decisions = engine::density(run.seed, nodes, shape, jobs).map_err(RunError::Incomplete)?;
    let expected = (nodes * each) as usize;
    if decisions.placements != expected {
        let message = format!("{} of {expected} allocations found a place", decisions.placements);
        return Err(RunError::Incomplete(message));
    }
    let mut outcome = RunOutcome::default();
    let each_ns = |duration: Duration| duration.as_nanos() as f64 / expected as f64;
    outcome.metrics.insert("engine_ns_per_placement", each_ns(decisions.planning));
    outcome.metrics.insert("engine_apply_ns_per_placement", each_ns(decisions.applying));
    let note = "engine_ns_per_placement is the whole decision: catching up with the state, reconciling, placing, and a \
                finished plan with ids and names; changing the state by it comes on top";
    outcome.notes.push(note.to_owned());
    profiling.end(&mut outcome);
    Ok(outcome)
}

/// Jobs of `count` allocations each, for nodes that fit `each` of them.
pub(super) fn small_services(nodes: u32, each: u32, jobs: u32, count: u32) -> LoadParams {
    LoadParams {
        servers: 1,
        secure: false,
        nodes: NodesParams {
            count: nodes,
            cpu_mhz: TASK_CPU_MHZ * each,
            memory_mb: TASK_MEMORY_MB * each,
            disk_mb: TASK_DISK_MB * each,
            behaviour: Vec::new(),
        },
        template: JobTemplate::new(count, small_service(count, TASK_CPU_MHZ, TASK_MEMORY_MB)),
        jobs,
        awaited: AwaitedState::Running,
        min_healthy: None,
    }
}

fn small_service(count: u32, cpu_mhz: u32, memory_mb: u32) -> Value {
    MockJob::service(count, [cpu_mhz, memory_mb, TASK_DISK_MB]).json()
}
