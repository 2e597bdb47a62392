//! Computes the metrics of a load from what the client saw.

use std::time::Duration;

use super::{
    counters::Counters,
    ledger::{AllocLedger, AllocTimes},
};
use crate::{
    record::{RequestStage, TraceLine, mean, percentile},
    run::{Metric, RunOutcome, client::JobTimes, usage_sampler::ServerUsage},
};

/// Requests in a trace; of more, a part that is spread evenly is written.
const TRACED_MAX: usize = 50_000;

const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

/// What every load measures.
pub(in crate::run) const METRICS: &[Metric] = &[
    metric("placements_per_s", "1/s"),
    metric("running_per_s", "1/s"),
    metric("submit_to_all_acknowledged_s", "s"),
    metric("submit_to_all_running_s", "s"),
    metric("placement_latency_ms_p50", "ms"),
    metric("placement_latency_ms_p90", "ms"),
    metric("placement_latency_ms_p99", "ms"),
    metric("latency_growth", "1"),
    metric("alloc_create_to_running_s_p50", "s"),
    metric("alloc_create_to_running_s_p95", "s"),
    metric("alloc_create_to_running_s_max", "s"),
    metric("server_cpu_s", "s"),
    metric("server_cpu_ms_per_alloc", "ms"),
    metric("server_rss_max_bytes", "B"),
    metric("bytes_per_alloc", "B"),
    metric("log_bytes", "B"),
    metric("log_entries", "1"),
    metric("log_fsyncs", "1"),
    metric("log_bytes_per_alloc", "B"),
    metric("log_entries_per_alloc", "1"),
    metric("log_records_by_kind", "1"),
    metric("update_rpcs_per_alloc", "1"),
];

/// What is measured besides where jobs have deployments.
pub(in crate::run) const DEPLOYMENT_METRICS: &[Metric] = &[
    metric("deployments_done_s", "s"),
    metric("deployments_beyond_s", "s"),
    metric("healths_per_record", "1"),
];

/// The kind of the records that hold the evidence of deployments.
const HEALTH_RECORDS: &str = "set_alloc_health";

/// All figures of a load that went well. `jobs` are the times of jobs by number.
pub(super) fn outcome(
    ledger: &AllocLedger,
    jobs: &[JobTimes],
    used: Option<ServerUsage>,
    counted: Option<&Counters>,
) -> RunOutcome {
    let allocs = ledger.allocs();
    let mut outcome = RunOutcome::default();
    client_side(&mut outcome, allocs, jobs);
    server_side(&mut outcome, allocs.len() as f64, used, counted);
    let step = allocs.len().div_ceil(TRACED_MAX).max(1);
    if step > 1 {
        outcome.notes.push(format!("the trace holds one request of {step}"));
    }
    let traced = allocs.iter().enumerate().step_by(step);
    outcome.trace = traced.flat_map(|(number, alloc)| lines(number, alloc, jobs)).collect();
    outcome
}

/// When all deployments were successful, and how much later than the slowest allocation would have been healthy by itself.
pub(super) fn deployments(
    outcome: &mut RunOutcome,
    allocs: &[AllocTimes],
    done_s: f64,
    min_healthy: Duration,
) {
    let starts_s = allocs.iter().map(|alloc| alloc.all_started_s - alloc.received_s);
    let by_itself_s = starts_s.fold(f64::NAN, f64::max) + min_healthy.as_secs_f64();
    outcome.metrics.insert("deployments_done_s", done_s);
    outcome.metrics.insert("deployments_beyond_s", done_s - by_itself_s);
    if let Some(records) = outcome.variants.get(HEALTH_RECORDS).and_then(|of| of.get("log_records_by_kind")) {
        outcome.metrics.insert("healths_per_record", allocs.len() as f64 / records);
    }
    outcome.notes.push(format!(
        "deployments_done_s begins with the first request; deployments_beyond_s leaves out the {by_itself_s:.2} s that the \
         slowest allocation takes to be healthy by itself: from its node's having it to the start of its last task, and \
         min_healthy_time"
    ));
}

fn client_side(outcome: &mut RunOutcome, allocs: &[AllocTimes], jobs: &[JobTimes]) {
    let count = allocs.len() as f64;
    let last = |time: fn(&AllocTimes) -> f64| allocs.iter().map(time).fold(f64::NAN, f64::max);
    let (placed_s, reached_s) = (last(|alloc| alloc.placed_s), last(|alloc| alloc.reached_s));
    let metrics = &mut outcome.metrics;
    metrics.insert("placements_per_s", count / placed_s);
    metrics.insert("running_per_s", count / reached_s);
    metrics.insert("submit_to_all_running_s", reached_s);
    let acknowledged_s = jobs.iter().map(|job| job.acknowledged_s).fold(f64::NAN, f64::max);
    metrics.insert("submit_to_all_acknowledged_s", acknowledged_s);
    let latencies_ms: Vec<f64> =
        allocs.iter().map(|alloc| (alloc.placed_s - jobs[alloc.job as usize].submitted_s) * 1e3).collect();
    metrics.extend(growth(&latencies_ms).map(|growth| ("latency_growth", growth)));
    percentiles(
        outcome,
        latencies_ms,
        &[
            ("placement_latency_ms_p50", 0.5),
            ("placement_latency_ms_p90", 0.9),
            ("placement_latency_ms_p99", 0.99),
        ],
    );
    let create_to_running_s = allocs.iter().map(|alloc| alloc.reached_s - alloc.placed_s).collect();
    percentiles(
        outcome,
        create_to_running_s,
        &[
            ("alloc_create_to_running_s_p50", 0.5),
            ("alloc_create_to_running_s_p95", 0.95),
            ("alloc_create_to_running_s_max", 1.0),
        ],
    );
}

fn percentiles(outcome: &mut RunOutcome, mut values: Vec<f64>, metrics_of: &[(&'static str, f64)]) {
    values.sort_by(f64::total_cmp);
    let found = metrics_of.iter().filter_map(|(name, part)| Some((*name, percentile(&values, *part)?)));
    outcome.metrics.extend(found);
}

/// The mean of the last tenth by that of the first; none of less than ten values.
fn growth(in_order: &[f64]) -> Option<f64> {
    let tenth = in_order.len() / 10;
    Some(mean(&in_order[in_order.len() - tenth..])? / mean(&in_order[..tenth])?)
}

fn server_side(outcome: &mut RunOutcome, allocs: f64, used: Option<ServerUsage>, counted: Option<&Counters>) {
    let metrics = &mut outcome.metrics;
    if let Some(ServerUsage { before, after }) = used {
        let cpu_s = after.cpu_s - before.cpu_s;
        metrics.insert("server_cpu_s", cpu_s);
        metrics.insert("server_cpu_ms_per_alloc", cpu_s * 1e3 / allocs);
        metrics.insert("server_rss_max_bytes", after.rss_max_bytes as f64);
        metrics.insert("bytes_per_alloc", (after.rss_max_bytes as f64 - before.rss_bytes as f64) / allocs);
    } else {
        outcome
            .notes
            .push("the target's processes cannot be watched: nothing is said of what they use".to_owned());
    }
    if let Some(counted) = counted {
        let (bytes, entries) =
            (counted.value("berth_log_bytes_total"), counted.value("berth_log_entries_total"));
        metrics.insert("log_bytes", bytes);
        metrics.insert("log_entries", entries);
        metrics.insert("log_fsyncs", counted.value("berth_log_fsyncs_total"));
        metrics.insert("log_bytes_per_alloc", bytes / allocs);
        metrics.insert("log_entries_per_alloc", entries / allocs);
        metrics.insert("update_rpcs_per_alloc", counted.value("berth_agent_updates_total") / allocs);
        for (kind, count) in counted.records_by_kind().filter(|(_, count)| *count > 0.0) {
            outcome.variants.entry(kind.to_owned()).or_default().insert("log_records_by_kind", count);
        }
        let note = "what is said of the log and of update_rpcs is the server's own count; all else is the client's and the kernel's";
        outcome.notes.push(note.to_owned());
    } else {
        outcome.notes.push("the target does not report what it writes to its log".to_owned());
    }
}

fn lines(number: usize, alloc: &AllocTimes, jobs: &[JobTimes]) -> impl Iterator<Item = TraceLine> {
    let (job, times) = (alloc.job, jobs[alloc.job as usize]);
    let stages = [
        (RequestStage::Submitted, times.submitted_s),
        (RequestStage::Acknowledged, times.acknowledged_s),
        (RequestStage::Planned, alloc.planned_s),
        (RequestStage::Placed, alloc.placed_s),
        (RequestStage::Received, alloc.received_s),
        (RequestStage::Started, alloc.started_s),
        (RequestStage::Running, alloc.reached_s),
    ];
    let observed = stages.into_iter().filter(|(_, at_s)| !at_s.is_nan());
    observed.map(move |(stage, at_s)| TraceLine {
        request: number as u64,
        job,
        stage,
        at_s,
        clock: stage.clock(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{
        client::{AllocEvent, AllocStatus, JobIds, RunClock, TaskTimes},
        cluster::Usage,
        load::AwaitedState,
    };

    /// Twenty allocations of two jobs: number `n` is placed at `n`/10 s after its job, and runs 0.5 s later.
    fn twenty() -> (AllocLedger, Vec<JobTimes>) {
        let (ids, clock) = (JobIds::new(), RunClock::start());
        let mut ledger = AllocLedger::new(ids, AwaitedState::Running);
        let observed = |n: u32, status| AllocEvent {
            id: n.into(),
            job: ids.id(n / 10),
            status,
            created_ns: 0,
            tasks: TaskTimes::default(),
        };
        for n in 0..20 {
            let placed_s = f64::from(n / 10) + f64::from(n % 10 + 1) / 10.0;
            ledger.record(placed_s, clock, &observed(n, AllocStatus::Pending));
            ledger.record(placed_s + 0.5, clock, &observed(n, AllocStatus::Running));
        }
        let job = |submitted_s| JobTimes { submitted_s, acknowledged_s: submitted_s + 0.01 };
        (ledger, vec![job(0.0), job(1.0)])
    }

    fn assert_near(outcome: &RunOutcome, name: &str, expected: f64) {
        let found = outcome.metrics[name];
        assert!((found - expected).abs() < 1e-9, "{name} is {found}, expected {expected}");
    }

    #[test]
    fn times_become_rates_and_percentiles() {
        let (ledger, jobs) = twenty();
        let outcome = outcome(&ledger, &jobs, None, None);
        assert_near(&outcome, "placements_per_s", 20.0 / 2.0);
        assert_near(&outcome, "running_per_s", 20.0 / 2.5);
        assert_near(&outcome, "submit_to_all_acknowledged_s", 1.01);
        assert_near(&outcome, "placement_latency_ms_p50", 500.0);
        assert_near(&outcome, "placement_latency_ms_p99", 1_000.0);
        assert_near(&outcome, "alloc_create_to_running_s_max", 0.5);
        // The first two took 0.1 and 0.2 s, the last two 0.9 and 1 s.
        assert_near(&outcome, "latency_growth", 0.95 / 0.15);
        assert!(!outcome.metrics.contains_key("server_cpu_s"));
        assert_eq!(outcome.notes.len(), 2);
    }

    #[test]
    fn deployments_are_held_against_what_an_allocation_takes_by_itself() {
        let (ids, clock) = (JobIds::new(), RunClock::start());
        let mut ledger = AllocLedger::new(ids, AwaitedState::Running);
        for (id, start_ns) in [(1, 500_000_000), (2, 1_500_000_000)] {
            let received_ns = 1_000_000_000 * id as u64;
            let tasks =
                TaskTimes { received_ns, started_ns: received_ns, all_started_ns: received_ns + start_ns };
            let observed =
                AllocEvent { id, job: ids.id(0), status: AllocStatus::Running, created_ns: 0, tasks };
            ledger.record(0.1, clock, &observed);
        }
        let mut outcome = RunOutcome::default();
        outcome.variants.entry(HEALTH_RECORDS.to_owned()).or_default().insert("log_records_by_kind", 0.5);
        deployments(&mut outcome, ledger.allocs(), 14.0, Duration::from_secs(10));
        assert_near(&outcome, "deployments_done_s", 14.0);
        assert_near(&outcome, "deployments_beyond_s", 14.0 - 11.5);
        assert_near(&outcome, "healths_per_record", 4.0);
    }

    #[test]
    fn usage_of_a_server_is_given_per_allocation() {
        let (ledger, jobs) = twenty();
        let before = Usage { cpu_s: 1.0, rss_bytes: 1_000, rss_max_bytes: 1_500, written_bytes: 0 };
        let used = ServerUsage { before, after: Usage { cpu_s: 3.0, rss_max_bytes: 5_000, ..before } };
        let counted = "berth_log_bytes_total 600\nberth_log_entries_total 4\nberth_agent_updates_total 60\n\
                       berth_log_commands_total{kind=\"commit_plan\"} 2\n";
        let outcome = outcome(&ledger, &jobs, Some(used), Counters::of(counted).as_ref());
        assert_near(&outcome, "server_cpu_s", 2.0);
        assert_near(&outcome, "server_cpu_ms_per_alloc", 100.0);
        assert_near(&outcome, "bytes_per_alloc", 200.0);
        assert_near(&outcome, "log_bytes_per_alloc", 30.0);
        assert_near(&outcome, "log_entries_per_alloc", 0.2);
        assert_near(&outcome, "update_rpcs_per_alloc", 3.0);
        assert_eq!(outcome.variants["commit_plan"]["log_records_by_kind"], 2.0);
    }

    #[test]
    fn a_trace_holds_the_stages_that_were_seen() {
        let (ledger, jobs) = twenty();
        let trace = outcome(&ledger, &jobs, None, None).trace;
        assert_eq!(trace.len(), 20 * 4);
        let stages: Vec<(RequestStage, f64)> =
            trace.iter().filter(|line| line.request == 19).map(|line| (line.stage, line.at_s)).collect();
        let expected = [
            RequestStage::Submitted,
            RequestStage::Acknowledged,
            RequestStage::Placed,
            RequestStage::Running,
        ];
        assert_eq!(stages.iter().map(|(stage, _)| *stage).collect::<Vec<_>>(), expected);
        assert_eq!((stages[0].1, stages[3].1), (1.0, 2.5));
    }

    #[test]
    fn a_note_says_that_few_were_measured_of_nothing() {
        assert_eq!(growth(&[1.0, 2.0]), None);
        assert_eq!(growth(&[1.0; 10]), Some(1.0));
    }
}
