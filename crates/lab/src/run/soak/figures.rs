//! The metrics of `soak`, and whether anything has grown from the first round to the last.

use std::fmt;

use super::{churn::RoundLatencies, footprint::ServerFootprint};
use crate::{
    record::{Plot, PlotLine, percentile},
    run::{Metric, RunOutcome},
};

const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

/// The metrics in `result.json`, with their units.
pub(super) const METRICS: &[Metric] = &[
    metric("rss_idle_bytes", "B"),
    metric("rss_first_bytes", "B"),
    metric("rss_last_bytes", "B"),
    metric("rss_growth_pct", "%"),
    metric("rss_left_bytes", "B"),
    metric("files_first", "1"),
    metric("files_last", "1"),
    metric("data_first_bytes", "B"),
    metric("data_last_bytes", "B"),
    metric("write_ms_p50_first", "ms"),
    metric("write_ms_p50_last", "ms"),
    metric("write_ms_p99_last", "ms"),
    metric("read_ms_p50_first", "ms"),
    metric("read_ms_p50_last", "ms"),
    metric("requests", "1"),
    metric("requests_refused", "1"),
];

/// How much more memory the last round may leave than the first.
const RSS_GROWTH_PCT_MAX: f64 = 20.0;
/// What may be more in any case: what allocators keep. A run of seconds ends before the server holds what it always holds,
/// such as
/// the events of half a minute.
const RSS_SLACK_BYTES: u64 = 8 << 20;
const RSS_SLACK_OF_SECONDS_BYTES: u64 = 64 << 20;
/// Open files that differ by chance: connections that are just being closed.
const FILES_SLACK: u64 = 16;
/// The log is cut by whole segments, after a snapshot: its length goes up and down by so much.
const DATA_SLACK_BYTES: u64 = 192 << 20;
/// How many times longer a request may take in the last third of the rounds than in the first, by its median.
const LATENCY_GROWTH_MAX: f64 = 1.5;
const LATENCY_SLACK_MS: f64 = 1.0;

/// What was measured in a round.
#[derive(Debug)]
pub(super) struct SoakRound {
    /// Seconds since the first began.
    pub ended_s: f64,
    /// What the server held after the round's garbage collection.
    pub footprint: ServerFootprint,
    pub latencies: RoundLatencies,
}

impl fmt::Display for SoakRound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServerFootprint { rss_bytes, files, data_bytes } = self.footprint;
        write!(
            f,
            "{} MiB of memory, {files} open files, {} MiB on disk; writes {:.1} ms (median)",
            rss_bytes >> 20,
            data_bytes >> 20,
            middle_ms(&self.latencies.writes_ms).unwrap_or_default(),
        )
    }
}

/// What a soak has shown.
#[derive(Debug)]
pub(super) struct SoakFigures {
    /// What the server held before the first round.
    pub idle: ServerFootprint,
    /// The rounds, at least one.
    pub rounds: Vec<SoakRound>,
    /// What the server held after everything was deleted.
    pub left: ServerFootprint,
}

/// Whether what a soak took is given back, once nothing is wanted any more: at least half of the memory that it took until
/// the end of the first round. A run of seconds may keep that much: events are kept for half a minute for who follows them.
pub(super) fn is_given_back(left: ServerFootprint, [idle, first]: [ServerFootprint; 2], timed: bool) -> bool {
    let most = if timed { u64::midpoint(idle.rss_bytes, first.rss_bytes) } else { most_memory(first, timed) };
    left.rss_bytes <= most && left.files <= first.files + FILES_SLACK
}

fn most_memory(first: ServerFootprint, timed: bool) -> u64 {
    let share = first.rss_bytes as f64 * RSS_GROWTH_PCT_MAX / 100.0;
    let slack = if timed { RSS_SLACK_BYTES } else { RSS_SLACK_OF_SECONDS_BYTES };
    first.rss_bytes + (share as u64).max(slack)
}

/// All figures. Times are judged where `timed` says so, and memory strictly: not in a run of seconds.
pub(super) fn outcome(soaked: &SoakFigures, timed: bool) -> RunOutcome {
    let mut outcome = RunOutcome { failures: failures(soaked, timed), ..RunOutcome::default() };
    let SoakFigures { idle, rounds, left } = soaked;
    let (first, last) = (&rounds[0], &rounds[rounds.len() - 1]);
    let (early, late) = thirds(rounds);
    let growth = last.footprint.rss_bytes as f64 / first.footprint.rss_bytes as f64 - 1.0;
    let requests: usize =
        rounds.iter().map(|round| round.latencies.writes_ms.len() + round.latencies.reads_ms.len()).sum();
    let refused: u64 = rounds.iter().map(|round| round.latencies.refused).sum();
    let found = [
        ("rss_idle_bytes", Some(idle.rss_bytes as f64)),
        ("rss_first_bytes", Some(first.footprint.rss_bytes as f64)),
        ("rss_last_bytes", Some(last.footprint.rss_bytes as f64)),
        ("rss_growth_pct", Some(growth * 100.0)),
        ("rss_left_bytes", Some(left.rss_bytes as f64)),
        ("files_first", Some(first.footprint.files as f64)),
        ("files_last", Some(last.footprint.files as f64)),
        ("data_first_bytes", Some(first.footprint.data_bytes as f64)),
        ("data_last_bytes", Some(last.footprint.data_bytes as f64)),
        ("write_ms_p50_first", middle_of(early, |latencies| &latencies.writes_ms)),
        ("write_ms_p50_last", middle_of(late, |latencies| &latencies.writes_ms)),
        ("write_ms_p99_last", part_of(late, 0.99, |latencies| &latencies.writes_ms)),
        ("read_ms_p50_first", middle_of(early, |latencies| &latencies.reads_ms)),
        ("read_ms_p50_last", middle_of(late, |latencies| &latencies.reads_ms)),
        ("requests", Some(requests as f64)),
        ("requests_refused", Some(refused as f64)),
    ];
    outcome.metrics = found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    outcome.notes.push(
        "memory, files and disk are the least within seven seconds after a round's garbage collection; latencies are of the \
         first and of the last third of the rounds, from when a request was due"
            .to_owned(),
    );
    outcome.series.plots = plots(rounds);
    outcome
}

fn failures(soaked: &SoakFigures, timed: bool) -> Vec<String> {
    let SoakFigures { idle, rounds, left } = soaked;
    let (first, last) = (rounds[0].footprint, rounds[rounds.len() - 1].footprint);
    let mut failures = Vec::new();
    if last.rss_bytes > most_memory(first, timed) {
        failures.push(format!(
            "memory has grown from {} to {} MiB",
            first.rss_bytes >> 20,
            last.rss_bytes >> 20
        ));
    }
    if last.files > first.files + FILES_SLACK {
        failures.push(format!("open files have grown from {} to {}", first.files, last.files));
    }
    let (early, late) = thirds(rounds);
    let most = |rounds: &[SoakRound]| {
        rounds.iter().map(|round| round.footprint.data_bytes).max().unwrap_or_default()
    };
    if most(late) > most(early) + DATA_SLACK_BYTES {
        failures.push(format!(
            "the data on disk has grown from {} to {} MiB",
            most(early) >> 20,
            most(late) >> 20
        ));
    }
    if !is_given_back(*left, [*idle, first], timed) {
        failures.push(format!(
            "{} MiB and {} open files are left once all jobs are purged, of {} and {} before there were any",
            left.rss_bytes >> 20,
            left.files,
            idle.rss_bytes >> 20,
            idle.files
        ));
    }
    for (what, of) in [("write", writes as fn(&RoundLatencies) -> &Vec<f64>), ("list", reads)] {
        if let (true, Some(before), Some(after)) = (timed, middle_of(early, of), middle_of(late, of))
            && after > before * LATENCY_GROWTH_MAX + LATENCY_SLACK_MS
        {
            failures.push(format!("a {what} takes {after:.1} ms (median) at the end, {before:.1} ms before"));
        }
    }
    if let Some(refusal) = rounds.iter().find_map(|round| round.latencies.first_refusal.as_ref()) {
        let refused: u64 = rounds.iter().map(|round| round.latencies.refused).sum();
        failures.push(format!("{refused} requests were refused, the first: {refusal}"));
    }
    failures
}

fn writes(latencies: &RoundLatencies) -> &Vec<f64> {
    &latencies.writes_ms
}

fn reads(latencies: &RoundLatencies) -> &Vec<f64> {
    &latencies.reads_ms
}

/// The first third of the rounds and the last; at least one each.
fn thirds(rounds: &[SoakRound]) -> (&[SoakRound], &[SoakRound]) {
    let third = (rounds.len() / 3).max(1);
    (&rounds[..third], &rounds[rounds.len() - third..])
}

fn middle_ms(times_ms: &[f64]) -> Option<f64> {
    let mut sorted = times_ms.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    percentile(&sorted, 0.5)
}

fn middle_of(rounds: &[SoakRound], of: impl Fn(&RoundLatencies) -> &Vec<f64>) -> Option<f64> {
    part_of(rounds, 0.5, of)
}

fn part_of(rounds: &[SoakRound], part: f64, of: impl Fn(&RoundLatencies) -> &Vec<f64>) -> Option<f64> {
    let mut all: Vec<f64> = rounds.iter().flat_map(|round| of(&round.latencies)).copied().collect();
    all.sort_unstable_by(f64::total_cmp);
    percentile(&all, part)
}

fn plots(rounds: &[SoakRound]) -> Vec<Plot> {
    let line = |name: &str, of: &dyn Fn(&SoakRound) -> f64| {
        PlotLine::measured(name, rounds.iter().map(|round| (round.ended_s, of(round))).collect())
    };
    let plot = |title: &str, y: &str, lines: Vec<PlotLine>| Plot {
        title: title.to_owned(),
        x: "seconds since the begin".to_owned(),
        y: y.to_owned(),
        lines,
        groups: Vec::new(),
    };
    let mebi = f64::from(1 << 20);
    vec![
        plot(
            "What the server holds after each round's garbage collection",
            "MiB",
            vec![
                line("memory", &|round| round.footprint.rss_bytes as f64 / mebi),
                line("data on disk", &|round| round.footprint.data_bytes as f64 / mebi),
            ],
        ),
        plot(
            "What clients wait",
            "ms (median of the round)",
            vec![
                line("writes", &|round| middle_ms(&round.latencies.writes_ms).unwrap_or_default()),
                line("lists", &|round| middle_ms(&round.latencies.reads_ms).unwrap_or_default()),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBI: u64 = 1 << 20;

    fn footprint(rss_mib: u64, files: u64, data_mib: u64) -> ServerFootprint {
        ServerFootprint { rss_bytes: rss_mib * MEBI, files, data_bytes: data_mib * MEBI }
    }

    fn round(footprint: ServerFootprint, write_ms: f64) -> SoakRound {
        let latencies =
            RoundLatencies { writes_ms: vec![write_ms; 3], reads_ms: vec![1.0], ..RoundLatencies::default() };
        SoakRound { ended_s: 0.0, footprint, latencies }
    }

    fn soaked(rounds: Vec<SoakRound>, left: ServerFootprint) -> SoakFigures {
        SoakFigures { idle: footprint(20, 30, 1), rounds, left }
    }

    #[test]
    fn what_stays_as_it_was_is_well() {
        let rounds = vec![round(footprint(100, 40, 50), 2.0), round(footprint(115, 45, 120), 2.5)];
        let outcome = outcome(&soaked(rounds, footprint(60, 30, 10)), true);
        assert_eq!(outcome.failures, [""; 0]);
        assert_eq!(outcome.metrics["rss_growth_pct"].round(), 15.0);
        assert_eq!(outcome.metrics["requests"], 8.0);
    }

    #[test]
    fn each_growth_is_named() {
        let mut last = round(footprint(130, 90, 500), 9.0);
        (last.latencies.refused, last.latencies.first_refusal) = (2, Some("/v1/jobs: 500".to_owned()));
        let rounds = vec![round(footprint(100, 40, 50), 2.0), last];
        let soaked = soaked(rounds, footprint(130, 30, 10));
        let all = [
            "memory has grown from 100 to 130 MiB",
            "open files have grown from 40 to 90",
            "the data on disk has grown from 50 to 500 MiB",
            "130 MiB and 30 open files are left once all jobs are purged, of 20 and 30 before there were any",
            "a write takes 9.0 ms (median) at the end, 2.0 ms before",
            "2 requests were refused, the first: /v1/jobs: 500",
        ];
        assert_eq!(failures(&soaked, true), all);
        assert_eq!(failures(&soaked, false).len(), all.len() - 3, "neither times nor so little memory count");
    }
}
