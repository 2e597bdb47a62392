//! `writes`: jobs without allocations are registered over HTTP as fast as the servers acknowledge them, which measures the API and the
//! log without placement. With `--dispatch` it is one parameterized job that is dispatched, and simulated nodes may work off its queue
//! meanwhile.

mod background_writer;
mod dispatch;
mod queue;

use serde_json::json;

use super::{
    Experiment, Metric, Param, ParamKind, Run, RunError, RunOutcome,
    client::{JobIds, JobTemplate, JobTimes, RunClock, Submission, SubmittedJobs, clean_up},
    cluster::{Cluster, ClusterParams, NodesParams, on_cluster},
    params::{SECURE, SERVERS, same},
};
use crate::record::percentile;

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "writes",
    about: "Register jobs without allocations over HTTP, as fast as they are acknowledged",
    params: &[
        Param {
            name: "jobs",
            kind: ParamKind::Count { min: 1, max: 10_000_000 },
            about: "Jobs to register, each by a request of its own",
            defaults: ["2000", "50000", "200000"],
        },
        Param {
            name: "dispatch",
            kind: ParamKind::Switch,
            about: "Dispatch one parameterized batch job that many times, with a payload and meta, instead of registering jobs",
            defaults: same("false"),
        },
        Param {
            name: "nodes",
            kind: ParamKind::Count { min: 0, max: 200_000 },
            about: "With --dispatch, simulated nodes that run the dispatched jobs, ten at a time; without any they wait",
            defaults: same("0"),
        },
        SERVERS,
        SECURE,
    ],
    metrics: &[METRICS, dispatch::METRICS],
    run,
};

const METRICS: &[Metric] = &[
    Metric { name: "writes_per_s", unit: "1/s" },
    Metric { name: "write_latency_ms_p50", unit: "ms" },
    Metric { name: "write_latency_ms_p99", unit: "ms" },
    Metric { name: "write_latency_ms_max", unit: "ms" },
];

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    let count = run.params.count_u32("jobs");
    let (dispatched, nodes) = (run.params.switch("dispatch"), run.params.count_u32("nodes"));
    if nodes > 0 && !dispatched {
        return Err(run.params.refuse("nodes", "jobs that want nothing need none: add --dispatch").into());
    }
    let cluster_params = ClusterParams {
        nodes: if nodes > 0 { dispatch::nodes(nodes) } else { NodesParams::none() },
        servers: run.params.count_u32("servers"),
        server: Vec::new(),
        secure: run.params.switch("secure"),
    };
    let ids = JobIds::new();
    if dispatched {
        let work = async |cluster: &mut Cluster| dispatch::drive(run, ids, count, nodes, cluster).await;
        return on_cluster(run, &cluster_params, work, async |target| dispatch::clean_up(target, ids).await);
    }
    let work = async |cluster: &mut Cluster| drive(run, ids, count, cluster).await;
    on_cluster(run, &cluster_params, work, async |target| clean_up(target, ids, count).await)
}

async fn drive(
    run: &Run<'_>,
    ids: JobIds,
    count: u32,
    cluster: &mut Cluster,
) -> Result<RunOutcome, RunError> {
    let jobs = SubmittedJobs::alike(ids, template(), count);
    let mut submission =
        Submission::start(&cluster.target, &jobs, run.options.connections, RunClock::start());
    while !submission.is_done() {
        submission.next().await?;
    }
    cluster.check()?;
    Ok(outcome(submission.jobs()))
}

/// A job of no allocations: nothing is planned but that there is nothing to do.
fn template() -> JobTemplate {
    let task = json!({"Name": "task", "Driver": "mock_driver"});
    let group = json!({"Name": "group", "Count": 0, "Tasks": [task]});
    let job = json!({
        "Type": "service",
        "Datacenters": ["*"],
        "Update": {"MaxParallel": 0},
        "TaskGroups": [group],
    });
    JobTemplate::new(0, job)
}

fn outcome(jobs: &[JobTimes]) -> RunOutcome {
    let mut outcome = RunOutcome::default();
    let last_s = jobs.iter().map(|job| job.acknowledged_s).fold(f64::NAN, f64::max);
    let latencies_ms = latencies_ms(jobs.iter());
    outcome.metrics.insert("writes_per_s", jobs.len() as f64 / last_s);
    for (name, part) in
        [("write_latency_ms_p50", 0.5), ("write_latency_ms_p99", 0.99), ("write_latency_ms_max", 1.0)]
    {
        outcome.metrics.extend(percentile(&latencies_ms, part).map(|value| (name, value)));
    }
    outcome
}

/// How long each answer took, the shortest first.
fn latencies_ms<'j>(jobs: impl Iterator<Item = &'j JobTimes>) -> Vec<f64> {
    let mut latencies: Vec<f64> = jobs.map(|job| (job.acknowledged_s - job.submitted_s) * 1e3).collect();
    latencies.sort_unstable_by(f64::total_cmp);
    latencies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_client() {
        let job = |number: u32| {
            let submitted_s = f64::from(number);
            JobTimes { submitted_s, acknowledged_s: submitted_s + f64::from(number) / 1e3 }
        };
        let jobs: Vec<JobTimes> = (1..=100).map(job).collect();
        let metrics = outcome(&jobs).metrics;
        let near =
            |name: &str, value: f64| assert!((metrics[name] - value).abs() < 1e-6, "{name}: {metrics:?}");
        near("writes_per_s", 100.0 / 100.1);
        near("write_latency_ms_p50", 50.0);
        near("write_latency_ms_p99", 99.0);
        near("write_latency_ms_max", 100.0);
    }
}
