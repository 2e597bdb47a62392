//! Computes the metrics from what the restarts showed.

use std::collections::BTreeMap;

use super::{ledger::Ledger, probe::ServerReturn, settle::Unsettled};
use crate::{
    record::{Plot, PlotLine, percentile},
    run::{Metric, RunOutcome},
};

/// Wrong answers that are listed, for people.
const WRONG_SAMPLES_MAX: usize = 10;

const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

/// The metrics in `result.json`, with their units.
pub(super) const METRICS: &[Metric] = &[
    metric("first_right_answer_s_p50", "s"),
    metric("first_right_answer_s_max", "s"),
    metric("all_confirmed_s_p50", "s"),
    metric("all_confirmed_s_max", "s"),
    metric("start_cpu_s", "s"),
    metric("stale_answers", "1"),
    metric("empty_lists", "1"),
    metric("recovering_answers", "1"),
    metric("tasks_ended", "1"),
    metric("allocations_stuck", "1"),
    metric("evaluations_stuck", "1"),
    metric("writes_acknowledged", "1"),
    metric("writes_unanswered", "1"),
    metric("server_rss_max_bytes", "B"),
    metric("log_bytes", "B"),
];

const NOTE: &str = "times are from the start of the server's process; what runs is told by the nodes, and the log's bytes by the \
                    server; nodes that are away come back after up to 6 s and can confirm nothing before";

/// What was measured of one restart.
#[derive(Debug, Clone)]
pub(super) struct Restart {
    /// Jobs that never change, at the time.
    pub jobs: u32,
    pub server_return: ServerReturn,
    /// Processor seconds of the new server until its first right answers.
    pub cpu_s: f64,
    /// Seconds from the start of the process until all nodes had confirmed what they run; none where the server was
    /// killed again before.
    pub confirmed_s: Option<f64>,
    /// Resident memory when that was so, or at the first right answers.
    pub rss_bytes: u64,
    /// Written to the log by then, as the servers reported before they were killed.
    pub log_bytes: f64,
}

/// The outcome of a run, with all metrics.
pub(super) fn outcome(restarts: &[Restart], entries: &Ledger, stuck: &Unsettled) -> RunOutcome {
    let mut outcome = RunOutcome { metrics: starts(restarts), ..RunOutcome::default() };
    let (stale, empty) = (
        sum(restarts, |server_return| server_return.stale),
        sum(restarts, |server_return| server_return.empty),
    );
    let ended = entries.tasks.ended_unexpectedly();
    outcome.metrics.extend([
        ("stale_answers", stale as f64),
        ("empty_lists", empty as f64),
        ("recovering_answers", sum(restarts, |server_return| server_return.recovering) as f64),
        ("tasks_ended", ended as f64),
        ("allocations_stuck", stuck.allocs.len() as f64),
        ("evaluations_stuck", stuck.evals as f64),
        ("writes_acknowledged", entries.acknowledged as f64),
        ("writes_unanswered", entries.unanswered as f64),
        (
            "server_rss_max_bytes",
            restarts.iter().map(|restart| restart.rss_bytes).max().unwrap_or_default() as f64,
        ),
    ]);
    for jobs in restarts.iter().map(|restart| restart.jobs) {
        let stage: Vec<Restart> = restarts.iter().filter(|restart| restart.jobs == jobs).cloned().collect();
        outcome.variants.insert(format!("{jobs} jobs"), starts(&stage));
    }
    if stale + empty > 0 {
        let wrong_samples =
            restarts.iter().flat_map(|restart| &restart.server_return.wrong_samples).map(String::as_str);
        let wrong_samples: Vec<&str> = wrong_samples.take(WRONG_SAMPLES_MAX).collect();
        outcome
            .failures
            .push(format!("{stale} stale and {empty} empty answers: {}", wrong_samples.join("; ")));
    }
    outcome.failures.extend(entries.wrong.iter().cloned());
    if ended > 0 {
        let named = entries.tasks.named().join("; ");
        outcome.failures.push(format!("{ended} tasks ended without a request: {named}"));
    }
    outcome.failures.extend(stuck.failure());
    outcome.notes.push(NOTE.to_owned());
    outcome.series.plots = vec![plot(restarts)];
    outcome
}

fn sum(restarts: &[Restart], count: fn(&ServerReturn) -> u64) -> u64 {
    restarts.iter().map(|restart| count(&restart.server_return)).sum()
}

/// How long starts took, and how much there was to read.
fn starts(restarts: &[Restart]) -> BTreeMap<&'static str, f64> {
    let right_s = sorted(restarts.iter().map(|restart| restart.server_return.right_s));
    let confirmed_s = sorted(restarts.iter().filter_map(|restart| restart.confirmed_s));
    let cpu_s = sorted(restarts.iter().map(|restart| restart.cpu_s));
    let log_bytes = restarts.iter().map(|restart| restart.log_bytes).reduce(f64::max);
    let found = [
        ("first_right_answer_s_p50", percentile(&right_s, 0.5)),
        ("first_right_answer_s_max", percentile(&right_s, 1.0)),
        ("all_confirmed_s_p50", percentile(&confirmed_s, 0.5)),
        ("all_confirmed_s_max", percentile(&confirmed_s, 1.0)),
        ("start_cpu_s", percentile(&cpu_s, 0.5)),
        ("log_bytes", log_bytes),
    ];
    found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn plot(restarts: &[Restart]) -> Plot {
    let line = |name: &str, value: fn(&Restart) -> Option<f64>| {
        let points = restarts.iter().enumerate();
        let points = points.filter_map(|(number, restart)| Some(((number + 1) as f64, value(restart)?)));
        PlotLine::measured(name, points.collect())
    };
    Plot {
        title: "Starts after a crash".to_owned(),
        x: "restart".to_owned(),
        y: "seconds from the start of the process".to_owned(),
        lines: vec![
            line("all nodes confirmed", |restart| restart.confirmed_s),
            line("first right answers", |restart| Some(restart.server_return.right_s)),
            line("processor time until then", |restart| Some(restart.cpu_s)),
        ],
        groups: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restart(jobs: u32, right_s: f64, stale: u64) -> Restart {
        let server_return = ServerReturn { right_s, stale, ..ServerReturn::default() };
        Restart { jobs, server_return, cpu_s: 0.1, confirmed_s: None, rss_bytes: 7, log_bytes: 9.0 }
    }

    #[test]
    fn starts_are_summed_up_for_each_number_of_jobs() {
        let restarts = [restart(10, 0.1, 0), restart(20, 0.4, 0), restart(20, 0.2, 0)];
        let outcome = outcome(&restarts, &Ledger::default(), &Unsettled::default());
        assert_eq!(outcome.metrics["first_right_answer_s_max"], 0.4);
        assert_eq!(outcome.variants["10 jobs"]["first_right_answer_s_max"], 0.1);
        assert_eq!(outcome.variants["20 jobs"]["first_right_answer_s_p50"], 0.2);
        assert!(!outcome.metrics.contains_key("all_confirmed_s_p50") && outcome.failures.is_empty());
    }

    #[test]
    fn a_stale_answer_or_a_stuck_allocation_fails_the_run() {
        let stuck = Unsettled { allocs: vec!["a of job web".to_owned()], evals: 0 };
        let outcome = outcome(&[restart(10, 0.1, 2)], &Ledger::default(), &stuck);
        assert_eq!(
            outcome.failures,
            ["2 stale and 0 empty answers: ", "1 allocations and 0 evaluations are stuck: a of job web"]
        );
    }
}
