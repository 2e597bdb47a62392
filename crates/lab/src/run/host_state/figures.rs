//! Computes the metrics from what the client and the server reported.

use super::{
    decisions::PlacementRequest,
    plans::{PlanningOverview, RequestPlanning},
    scenario::Scenario,
};
use crate::{
    record::{RequestStage, TraceLine, mean, percentile},
    run::{Metric, RunOutcome, client::JobTimes, usage_sampler::ServerUsage},
};

const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

pub(super) const METRICS: &[Metric] = &[
    metric("requests_per_s", "1/s"),
    metric("times_reread", "1"),
    metric("query_ms_mean", "ms"),
    metric("query_ms_p99", "ms"),
    metric("successes", "1"),
    metric("successes_optimum", "1"),
    metric("refusals", "1"),
    metric("wrong_refusals", "1"),
    metric("retries", "1"),
    metric("conflicts_pct", "%"),
    metric("plans_overtaken_pct", "%"),
    metric("plans_overlapping_pct", "%"),
    metric("planners_at_once_max", "1"),
    metric("waiting_pct", "%"),
    metric("planning_pct", "%"),
    metric("committing_pct", "%"),
    metric("server_cpu_ms_per_request", "ms"),
];

/// What is known of a run that went well.
pub(super) struct RunMeasurements<'a> {
    /// By number, as all below.
    pub requests: &'a [PlacementRequest],
    pub submitted: &'a [JobTimes],
    pub planning: &'a PlanningOverview,
    pub wrong_refusals: usize,
    pub used: Option<ServerUsage>,
}

/// The outcome of a run, with all metrics.
pub(super) fn outcome(scenario: &Scenario, measured: &RunMeasurements<'_>) -> RunOutcome {
    let mut outcome = RunOutcome::default();
    decided(&mut outcome, scenario, measured);
    planned(&mut outcome, measured.planning);
    shares(&mut outcome, measured);
    if let Some(ServerUsage { before, after }) = measured.used {
        let cpu_ms = (after.cpu_s - before.cpu_s) * 1e3 / measured.requests.len() as f64;
        outcome.metrics.insert("server_cpu_ms_per_request", cpu_ms);
    }
    outcome.trace = trace(measured);
    outcome.notes.extend([
        "a query is the time from a request to the client's seeing where it goes, or that there is no room".to_owned(),
        "what is said of plans and planners is the server's own word, the shares of time rest on its clock; all else is \
         the client's"
            .to_owned(),
    ]);
    outcome
}

/// What clients see.
fn decided(outcome: &mut RunOutcome, scenario: &Scenario, measured: &RunMeasurements<'_>) {
    let RunMeasurements { requests, submitted, wrong_refusals, .. } = measured;
    let decided_s = || requests.iter().filter_map(|request| request.decided_s);
    let last_s = decided_s().fold(f64::NAN, f64::max);
    let mut queries_ms: Vec<f64> =
        decided_s().zip(submitted.iter()).map(|(at_s, job)| (at_s - job.submitted_s) * 1e3).collect();
    queries_ms.sort_by(f64::total_cmp);
    let refusals = requests.iter().filter(|request| request.refused).count();
    let metrics = &mut outcome.metrics;
    metrics.insert("requests_per_s", requests.len() as f64 / last_s);
    metrics.extend(mean(&queries_ms).map(|ms| ("query_ms_mean", ms)));
    metrics.extend(percentile(&queries_ms, 0.99).map(|ms| ("query_ms_p99", ms)));
    metrics.insert("successes", (requests.len() - refusals) as f64);
    metrics.insert("successes_optimum", f64::from(scenario.optimum()));
    metrics.insert("refusals", refusals as f64);
    metrics.insert("wrong_refusals", *wrong_refusals as f64);
}

/// What the server reports of its planners.
fn planned(outcome: &mut RunOutcome, planning: &PlanningOverview) {
    let [committed, refused] = planning.placements.map(|placements| placements as f64);
    let plans = planning.plans as f64;
    let metrics = &mut outcome.metrics;
    metrics.insert("retries", planning.refused as f64);
    metrics.insert("conflicts_pct", 100.0 * refused / (committed + refused));
    metrics.insert("plans_overtaken_pct", 100.0 * planning.overtaken as f64 / plans);
    metrics.insert("plans_overlapping_pct", 100.0 * planning.overlapping as f64 / plans);
    metrics.insert("planners_at_once_max", planning.at_once_max as f64);
}

/// Each request with the times of its stages: sent, taken up, planned, decided.
fn stages<'a>(measured: &'a RunMeasurements<'_>) -> impl Iterator<Item = (u32, [f64; 4])> + 'a {
    let both = measured.requests.iter().zip(measured.submitted);
    both.zip(0_u32..).filter_map(|((request, job), number)| {
        let RequestPlanning { begun_s, ended_s, .. } = *measured.planning.requests.get(&number)?;
        Some((number, [job.submitted_s, begun_s, ended_s, request.decided_s?]))
    })
}

/// Where the time of requests went.
fn shares(outcome: &mut RunOutcome, measured: &RunMeasurements<'_>) {
    let mut sums = [0.0; 3];
    for (_, times) in stages(measured) {
        for (sum, pair) in sums.iter_mut().zip(times.windows(2)) {
            // Two clocks of one machine may differ by a little.
            *sum += (pair[1] - pair[0]).max(0.0);
        }
    }
    let all: f64 = sums.iter().sum();
    let names = ["waiting_pct", "planning_pct", "committing_pct"];
    outcome.metrics.extend(names.into_iter().zip(sums.map(|sum| 100.0 * sum / all)));
}

fn trace(measured: &RunMeasurements<'_>) -> Vec<TraceLine> {
    let names =
        [RequestStage::Submitted, RequestStage::Planning, RequestStage::Planned, RequestStage::Placed];
    let lines = stages(measured).flat_map(|(number, times)| {
        names.into_iter().zip(times).map(move |(stage, at_s)| TraceLine {
            request: number.into(),
            job: number,
            stage,
            at_s,
            clock: stage.clock(),
        })
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(decided_s: f64, refused: bool) -> PlacementRequest {
        PlacementRequest { decided_s: Some(decided_s), refused, placed: !refused, started: !refused }
    }

    #[test]
    fn times_become_rates_and_shares() {
        let scenario = Scenario {
            nodes: 10,
            requests: 2,
            kinds: 1,
            planners: 2,
            kind: "cached".to_owned(),
            algorithm: "binpack",
            preload: true,
            population: None,
        };
        let requests = [request(0.4, false), request(0.5, true)];
        let submitted = [0.0, 0.1].map(|submitted_s| JobTimes { submitted_s, acknowledged_s: 0.2 });
        let mut planning =
            PlanningOverview { plans: 3, overtaken: 1, refused: 1, ..PlanningOverview::default() };
        planning.placements = [1, 1];
        planning.requests.insert(0, RequestPlanning::new(0.1, 0.3));
        planning.requests.insert(1, RequestPlanning::new(0.4, 0.5));
        let measured = RunMeasurements {
            requests: &requests,
            submitted: &submitted,
            planning: &planning,
            wrong_refusals: 0,
            used: None,
        };
        let outcome = outcome(&scenario, &measured);
        let near = |name: &str, expected: f64| {
            let found = outcome.metrics[name];
            assert!((found - expected).abs() < 1e-9, "{name} is {found}, expected {expected}");
        };
        near("requests_per_s", 4.0);
        near("query_ms_mean", 400.0);
        near("successes", 1.0);
        near("successes_optimum", 1.0);
        near("retries", 1.0);
        near("conflicts_pct", 50.0);
        near("plans_overtaken_pct", 100.0 / 3.0);
        near("waiting_pct", 50.0);
        near("planning_pct", 37.5);
        near("committing_pct", 12.5);
        assert_eq!(outcome.trace.len(), 8);
    }
}
