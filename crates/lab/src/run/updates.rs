//! `updates`: allocations whose agents have much to report. Published in 2023 in issue 9451 of Nomad, where updates from
//! clients were about 70 % of all entries of the log.
//!
//! Three of the ideas of that issue can be switched off in the nodes, one by one. The fourth, that any update is a sign of life,
//! cannot: agents send heartbeats besides, which carry the digests by which a difference that was lost is found, so that there
//! would be none fewer to count.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Experiment, Param, ParamKind, Run, RunError, RunOutcome,
    client::JobTemplate,
    cluster::NodesParams,
    load::{self, AwaitedState, LoadParams},
    params::{SECURE, same},
};

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "updates",
    about: "Jobs of 100 allocations whose agents report much (Nomad issue 9451)",
    params: &[
        Param {
            name: "nodes",
            kind: ParamKind::Count { min: 1, max: 200_000 },
            about: "Simulated nodes; at least 100, as each allocation of a job is on another one",
            defaults: ["200", "1000", "1000"],
        },
        Param {
            name: "jobs",
            kind: ParamKind::Count { min: 1, max: 100_000 },
            about: "Jobs, of 100 allocations of two tasks each",
            defaults: ["10", "50", "300"],
        },
        Param {
            name: "spread",
            kind: ParamKind::Switch,
            about: "Spread each job over the nodes' ids instead of asking for distinct hosts",
            defaults: same("false"),
        },
        Param {
            name: "workload",
            kind: ParamKind::Choice(&["deploy", "batch", "flapping"]),
            about: "Workload: services that start slowly, short batch jobs, or services that fail and are rescheduled",
            defaults: same("deploy"),
        },
        Param {
            name: "min-healthy-ms",
            kind: ParamKind::Count { min: 0, max: 600_000 },
            about: "Time that an allocation must run to be healthy, in jobs with deployments, in milliseconds",
            defaults: ["1000", "10000", "10000"],
        },
        without(
            "no-priority",
            "Switch off priorities: the status of an allocation is batched like its events",
        ),
        without(
            "no-shared-buffer",
            "Switch off batching: each change is sent at once, in an update of its own",
        ),
        without(
            "no-adaptive",
            "Switch off adaptive batching: events wait for a second, whatever the server's load",
        ),
        SECURE,
    ],
    metrics: &[load::METRICS, load::DEPLOYMENT_METRICS],
    run,
};

/// Nodes do without something that makes updates few.
const fn without(name: &'static str, about: &'static str) -> Param {
    Param { name, kind: ParamKind::Switch, about, defaults: same("false") }
}

/// Allocations of a job, and tasks of an allocation.
const JOB_ALLOCS: u32 = 100;
const TASKS: [&str; 2] = ["task_one", "task_two"];
/// What one task requests.
const TASK_CPU_MHZ: u32 = 1;
const TASK_MEMORY_MB: u32 = 10;
const ALLOC_DISK_MB: u32 = 10;
/// Events that agents report of a start, besides those of the job's own settings.
const BEHAVIOUR: [&str; 4] = ["--events", "5", "--event-gap", "100ms..500ms"];
/// Switches of the nodes that are this experiment's too.
const WITHOUT: [&str; 3] = ["no-priority", "no-shared-buffer", "no-adaptive"];
/// Nodes have this many times the resources that the jobs need: they are never full.
const HEADROOM: u32 = 4;

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    let params = run.params;
    let (nodes, jobs) = (params.count_u32("nodes"), params.count_u32("jobs"));
    if nodes < JOB_ALLOCS && !params.switch("spread") {
        let reason = format!("a job of {JOB_ALLOCS} allocations on distinct hosts needs as many nodes");
        return Err(params.refuse("nodes", reason).into());
    }
    let (awaited, config, note) = workload(params.text("workload").unwrap_or_default());
    let min_healthy = Duration::from_millis(params.count("min-healthy-ms"));
    let min_healthy = Some(min_healthy).filter(|_| awaited == AwaitedState::Running);
    let without = WITHOUT.into_iter().filter(|name| params.switch(name)).map(|name| format!("--{name}"));
    let each = (jobs * JOB_ALLOCS).div_ceil(nodes) * HEADROOM;
    let load = LoadParams {
        servers: 1,
        secure: params.switch("secure"),
        nodes: NodesParams {
            count: nodes,
            cpu_mhz: each * TASK_CPU_MHZ * 2,
            memory_mb: each * TASK_MEMORY_MB * 2,
            disk_mb: each * ALLOC_DISK_MB,
            behaviour: BEHAVIOUR.map(str::to_owned).into_iter().chain(without).collect(),
        },
        template: JobTemplate::new(JOB_ALLOCS, job(awaited, &config, params.switch("spread"), min_healthy)),
        jobs,
        awaited,
        min_healthy,
    };
    let mut outcome = load::measure(run, &load)?;
    outcome.notes.push(note.to_owned());
    Ok(outcome)
}

/// The awaited state, how tasks behave, and the note for the result.
fn workload(name: &str) -> (AwaitedState, Value, &'static str) {
    match name {
        "batch" => (
            AwaitedState::Complete,
            json!({"run_for": "100ms"}),
            "every task runs for 0.1 s; the run ends when a client has seen every allocation complete",
        ),
        "flapping" => (
            AwaitedState::Failed,
            json!({"run_for": "200ms", "exit_code": 1, "exit_err_msg": "error on exit"}),
            "every task fails after 0.2 s, four times in all; the run ends when a client has seen every allocation \
             fail for good",
        ),
        _ => (
            AwaitedState::Running,
            json!({
                "run_for": "24h",
                "kill_after": "3s",
                "signal_error": "got signal",
                "stdout_string": "hello, world!\n",
                "stdout_repeat": 1,
                "stdout_repeat_duration": "10s",
            }),
            "the run ends when a client has seen every allocation run and every deployment successful; every start takes \
             5 events, 0.1 to 0.5 s apart",
        ),
    }
}

fn job(awaited: AwaitedState, config: &Value, spread: bool, min_healthy: Option<Duration>) -> Value {
    const SECOND_NS: u64 = 1_000_000_000;
    let tasks = TASKS.map(|name| {
        json!({
            "Name": name,
            "Driver": "mock_driver",
            "Config": config,
            "KillTimeout": 5 * SECOND_NS,
            "LogConfig": {"Disabled": true, "MaxFiles": 1, "MaxFileSizeMB": 1},
            "Resources": {"CPU": TASK_CPU_MHZ, "MemoryMB": TASK_MEMORY_MB},
        })
    });
    let mut group = json!({
        "Name": "group",
        "Count": JOB_ALLOCS,
        "EphemeralDisk": {"SizeMB": ALLOC_DISK_MB},
        "RestartPolicy": {"Attempts": 3, "Interval": 60 * SECOND_NS, "Delay": SECOND_NS / 4, "Mode": "fail"},
        "ReschedulePolicy": {"Attempts": 0, "Unlimited": false},
        "Tasks": tasks,
    });
    if let Some(min_healthy) = min_healthy {
        group["Update"] = json!({
            "MaxParallel": JOB_ALLOCS,
            "HealthCheck": "task_states",
            "MinHealthyTime": u64::try_from(min_healthy.as_nanos()).unwrap_or(u64::MAX),
            "HealthyDeadline": 1_200 * SECOND_NS,
            "ProgressDeadline": 1_800 * SECOND_NS,
        });
    }
    if spread {
        group["Spreads"] = json!([{"Attribute": "${node.unique.id}", "Weight": 50}]);
    } else {
        group["Constraints"] = json!([{"Operand": "distinct_hosts", "RTarget": "true"}]);
    }
    let job_type = if awaited == AwaitedState::Complete { "batch" } else { "service" };
    json!({"Type": job_type, "Datacenters": ["*"], "TaskGroups": [group]})
}
