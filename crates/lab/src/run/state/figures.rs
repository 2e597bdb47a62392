//! The metrics of `state`, and whether they keep within their bounds.

use std::collections::BTreeMap;

use super::{
    ExperimentPart,
    cluster_state::ClusterState,
    listing::Listing,
    probe::ProbeTimes,
    published::{MANY_READERS, ONE_READER, PublishedRead},
    readers::{Poll, ReadTimes},
};
use crate::{
    record::{Plot, PlotLine, mean, percentile},
    run::{Metric, RunOutcome, scrapes::ScrapeTimes},
};

const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

/// The metrics in `result.json`, with their units.
pub(super) const METRICS: &[Metric] = &[
    metric("response_ms_p50", "ms"),
    metric("response_ms_p99", "ms"),
    metric("response_ms_mean", "ms"),
    metric("response_ms_aim", "ms"),
    metric("response_bytes", "B"),
    metric("bytes_per_s", "B/s"),
    metric("bytes_per_server_cpu_s", "B/s"),
    metric("changes_per_s", "1/s"),
    metric("write_latency_ms_p50", "ms"),
    metric("write_latency_ms_p99", "ms"),
    metric("writer_blocked_ms_p99", "ms"),
    metric("healthz_ms_p50", "ms"),
    metric("healthz_ms_p99", "ms"),
    metric("placement_latency_ms_p50", "ms"),
    metric("placement_latency_ms_p99", "ms"),
    metric("interference_ratio", "1"),
];

/// The part of the polls that is left out at either end of what a mean is made of, as published.
const DROPPED: f64 = 0.02;
/// What all readers together are to get, at least: bytes a second.
const BYTES_PER_S_AIM: f64 = 1.5e9;
/// The least share of the requested changes that must be reached, where the figures count.
const CHANGES_MIN: f64 = 0.9;
/// The variant of nobody who reads.
const QUIET: &str = "no readers";

/// What was measured with some readers, or none.
#[derive(Debug)]
pub(super) struct Measurement {
    pub readers: u32,
    pub read: Option<ReadTimes>,
    /// Reads of `/metrics` while nobody reads lists.
    pub scrapes: ScrapeTimes,
    /// Duration of each write in milliseconds, the shortest first.
    pub writes_ms: Vec<f64>,
    pub changes_per_s: f64,
    pub probed: Option<ProbeTimes>,
}

/// All that was seen.
#[derive(Debug)]
pub(super) struct StateFigures<'g> {
    pub state: &'g ClusterState,
    pub quiet: Measurement,
    pub reading: Vec<Measurement>,
}

type Metrics = BTreeMap<&'static str, f64>;

/// As a result; `counts` says whether too few changes fail it, and not only none.
pub(super) fn outcome(figures: &StateFigures<'_>, counts: bool) -> RunOutcome {
    let mut outcome = RunOutcome::default();
    outcome.variants.insert(QUIET.to_owned(), others(&figures.quiet));
    for measurement in &figures.reading {
        let mut metrics = others(measurement);
        metrics.extend(compared(&figures.quiet, measurement));
        metrics.extend(figures.quiet.scrapes.metrics());
        metrics.extend(measurement.read.iter().flat_map(|read| answers(read, measurement.readers)));
        // The most readers stand for all.
        outcome.metrics.clone_from(&metrics);
        if figures.reading.len() > 1 {
            outcome.variants.insert(named(measurement.readers), metrics);
        }
    }
    if let ([Measurement { read: Some(read), .. }], ExperimentPart::OneReader) =
        (&*figures.reading, figures.state.part)
    {
        let of_each = Listing::ALL.into_iter().enumerate();
        outcome.variants.extend(of_each.map(|(at, listing)| (listing.name().to_owned(), of_list(read, at))));
    }
    outcome.notes = notes(figures);
    outcome.failures = too_few_changes(figures, counts);
    outcome.failures.extend(figures.quiet.scrapes.failure().filter(|_| counts));
    outcome.series.plots = plots(figures);
    outcome
}

/// The number of readers in words.
pub(super) fn named(readers: u32) -> String {
    match readers {
        0 => QUIET.to_owned(),
        1 => "1 reader".to_owned(),
        _ => format!("{readers} readers"),
    }
}

/// What those have seen who do not read everything.
fn others(measurement: &Measurement) -> Metrics {
    let mut metrics = Metrics::from([("changes_per_s", measurement.changes_per_s)]);
    metrics.extend(measurement.scrapes.metrics());
    let probed = measurement.probed.as_ref();
    let of_all = [
        (Some(&measurement.writes_ms), "write_latency_ms_p50", "write_latency_ms_p99"),
        (probed.map(|probed| &probed.healthy_ms), "healthz_ms_p50", "healthz_ms_p99"),
        (probed.map(|probed| &probed.placed_ms), "placement_latency_ms_p50", "placement_latency_ms_p99"),
    ];
    for (sorted, p50, p99) in of_all {
        let sorted = sorted.map_or(&[][..], |sorted| sorted);
        metrics.extend(percentile(sorted, 0.5).map(|value| (p50, value)));
        metrics.extend(percentile(sorted, 0.99).map(|value| (p99, value)));
    }
    metrics
}

/// How much longer the slowest took beside readers.
fn compared(quiet: &Measurement, measurement: &Measurement) -> Metrics {
    let p99 = |sorted: &[f64]| percentile(sorted, 0.99);
    let placed = |measurement: &Measurement| p99(&measurement.probed.as_ref()?.placed_ms);
    let blocked = p99(&measurement.writes_ms)
        .zip(p99(&quiet.writes_ms))
        .map(|(with, without)| (with - without).max(0.0));
    let ratio = placed(measurement).zip(placed(quiet)).map(|(with, without)| with / without);
    [("writer_blocked_ms_p99", blocked), ("interference_ratio", ratio)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// The answers that readers got.
fn answers(read: &ReadTimes, readers: u32) -> Metrics {
    let bytes = read.bytes() as f64;
    let mut metrics = times(read.polls.iter().map(Poll::all_ms));
    let each = bytes / read.polls.len() as f64;
    metrics.insert("response_bytes", each);
    metrics.insert("response_ms_aim", aim_ms(each, readers));
    metrics.insert("bytes_per_s", bytes / read.seconds);
    metrics.extend(read.server_cpu_s.map(|cpu_s| ("bytes_per_server_cpu_s", bytes / cpu_s)));
    metrics
}

/// How long a poll may take among so many readers: milliseconds.
fn aim_ms(bytes: f64, readers: u32) -> f64 {
    bytes * f64::from(readers) / BYTES_PER_S_AIM * 1e3
}

/// The metrics of one list.
fn of_list(read: &ReadTimes, at: usize) -> Metrics {
    let mut metrics = times(read.polls.iter().map(|poll| poll.took_ms[at]));
    let (bytes, ms) = read
        .polls
        .iter()
        .fold((0.0, 0.0), |(bytes, ms), poll| (bytes + poll.bytes[at] as f64, ms + poll.took_ms[at]));
    metrics.insert("response_bytes", bytes / read.polls.len() as f64);
    metrics.insert("bytes_per_s", bytes * 1e3 / ms);
    metrics
}

fn times(took_ms: impl Iterator<Item = f64>) -> Metrics {
    let mut sorted: Vec<f64> = took_ms.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let dropped = (sorted.len() as f64 * DROPPED) as usize;
    let values = [
        ("response_ms_p50", percentile(&sorted, 0.5)),
        ("response_ms_p99", percentile(&sorted, 0.99)),
        ("response_ms_mean", mean(&sorted[dropped..sorted.len() - dropped])),
    ];
    values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn notes(figures: &StateFigures<'_>) -> Vec<String> {
    let mut notes = vec![
        "a poll is an answer with all nodes and one with all allocations, uncompressed; every answer was complete. Means leave \
         out 2 % of the polls at either end"
            .to_owned(),
        "response_ms_aim is what a poll may take: its bytes, times the readers, at 1.5 GB/s; writer_blocked_ms_p99 is how much \
         longer a client's writes take at p99 than with no readers. Server, nodes, writers and readers share this machine"
            .to_owned(),
    ];
    notes.extend(marks(figures).iter().map(
        |PublishedRead { system, size, mean_s }| match figures.state.part {
            ExperimentPart::ManyReaders => format!("published of {system}: {mean_s} s with {}", named(*size)),
            _ => format!("published of {system}: {mean_s} s at {size} nodes"),
        },
    ));
    notes
}

/// What was published of a run of this size.
fn marks(figures: &StateFigures<'_>) -> Vec<PublishedRead> {
    let state = figures.state;
    match state.part {
        ExperimentPart::OneReader => {
            ONE_READER.iter().copied().filter(|mark| mark.size == state.count).collect()
        }
        ExperimentPart::ManyReaders if state.count == 100 => MANY_READERS.to_vec(),
        ExperimentPart::ManyReaders | ExperimentPart::BesideOthers => Vec::new(),
    }
}

fn too_few_changes(figures: &StateFigures<'_>, counts: bool) -> Vec<String> {
    let requested = f64::from(figures.state.changes);
    let least = if counts { requested * CHANGES_MIN } else { requested.min(f64::MIN_POSITIVE) };
    let few = figures.reading.iter().filter(|measurement| measurement.changes_per_s < least);
    few.map(|Measurement { readers, changes_per_s, .. }| {
        format!("beside {} there were {changes_per_s:.0} changes a second, of {requested}", named(*readers))
    })
    .collect()
}

fn plots(figures: &StateFigures<'_>) -> Vec<Plot> {
    let mut plots = match figures.state.part {
        ExperimentPart::OneReader => vec![answers_by_poll(figures)],
        ExperimentPart::ManyReaders => vec![means_by_readers(figures)],
        ExperimentPart::BesideOthers => {
            vec![distributions(figures, "How long until a job is placed", |probed| &probed.placed_ms)]
        }
    };
    if figures.state.part == ExperimentPart::BesideOthers {
        plots.push(distributions(figures, "How long the server takes to say that it is well", |probed| {
            &probed.healthy_ms
        }));
    }
    plots.push(writes(figures));
    plots
}

fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> PlotLine {
    PlotLine::measured(name, points)
}

/// Each poll, with what is published across it.
fn answers_by_poll(figures: &StateFigures<'_>) -> Plot {
    let mut lines = Vec::new();
    let polls: Vec<&Poll> = figures
        .reading
        .iter()
        .flat_map(|measurement| &measurement.read)
        .flat_map(|read| &read.polls)
        .collect();
    let numbered = |ms: &dyn Fn(&Poll) -> f64| {
        (1..).zip(&polls).map(|(number, poll)| (f64::from(number), ms(poll) / 1e3)).collect::<Vec<_>>()
    };
    lines.push(line("nodes and allocations", numbered(&Poll::all_ms)));
    lines.push(line("nodes alone", numbered(&|poll| poll.took_ms[0])));
    let last = polls.len() as f64;
    lines.extend(marks(figures).into_iter().map(|mark| {
        let across = vec![(0.0, mark.mean_s), (last, mark.mean_s)];
        PlotLine::published(format!("{}, published", mark.system), across)
    }));
    Plot {
        title: "Each poll".to_owned(),
        x: "poll".to_owned(),
        y: "seconds".to_owned(),
        lines,
        groups: Vec::new(),
    }
}

/// The mean of a poll by how many read, with what is published.
fn means_by_readers(figures: &StateFigures<'_>) -> Plot {
    let by_readers = |name: &str| -> Vec<(f64, f64)> {
        let points = figures.reading.iter().filter_map(|measurement| {
            let metrics = answers(measurement.read.as_ref()?, measurement.readers);
            Some((f64::from(measurement.readers), metrics.get(name)? / 1e3))
        });
        points.collect()
    };
    let mut lines = vec![
        line("mean", by_readers("response_ms_mean")),
        line("p99", by_readers("response_ms_p99")),
        line("at 1.5 GB/s", by_readers("response_ms_aim")),
    ];
    for mark in marks(figures) {
        let name = format!("{}, published mean", mark.system);
        let point = (f64::from(mark.size), mark.mean_s);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(PlotLine::published(name, vec![point])),
        }
    }
    Plot {
        title: "A poll of everything".to_owned(),
        x: "readers at a time".to_owned(),
        y: "seconds".to_owned(),
        lines,
        groups: Vec::new(),
    }
}

/// How many of the writes took at most how long, with and without readers.
fn writes(figures: &StateFigures<'_>) -> Plot {
    let all = [&figures.quiet].into_iter().chain(&figures.reading);
    let lines = all.map(|measurement| line(named(measurement.readers), distribution(&measurement.writes_ms)));
    of_distributions("How long a client's write takes", lines.collect())
}

fn distributions(figures: &StateFigures<'_>, title: &str, of: impl Fn(&ProbeTimes) -> &Vec<f64>) -> Plot {
    let all = [&figures.quiet].into_iter().chain(&figures.reading);
    let lines = all.filter_map(|measurement| {
        Some(line(named(measurement.readers), distribution(of(measurement.probed.as_ref()?))))
    });
    of_distributions(title, lines.collect())
}

fn of_distributions(title: &str, lines: Vec<PlotLine>) -> Plot {
    let (x, y) = ("percent".to_owned(), "milliseconds, at most".to_owned());
    Plot { title: title.to_owned(), x, y, lines, groups: Vec::new() }
}

/// What so many percent of the values are at most; few points stand for many values.
fn distribution(sorted: &[f64]) -> Vec<(f64, f64)> {
    let parts = (0..=99).map(f64::from).chain([99.5, 99.9, 100.0]);
    parts.filter_map(|percent| Some((percent, percentile(sorted, percent / 100.0)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ms: impl Iterator<Item = u32>) -> ReadTimes {
        let polls = ms.map(|ms| Poll { took_ms: [1.0, f64::from(ms) - 1.0], bytes: [100, 900] });
        ReadTimes { polls: polls.collect(), seconds: 2.0, server_cpu_s: Some(4.0) }
    }

    #[test]
    fn means_leave_out_two_percent_at_either_end() {
        let metrics = answers(&read((1..=99).chain([100_000])), 20);
        assert_eq!(metrics["response_ms_mean"], 50.5, "neither the 2 least nor the 2 largest");
        assert_eq!((metrics["response_ms_p50"], metrics["response_ms_p99"]), (50.0, 99.0));
        assert_eq!((metrics["response_bytes"], metrics["bytes_per_s"]), (1_000.0, 50_000.0));
        assert_eq!(metrics["bytes_per_server_cpu_s"], 25_000.0);
        assert_eq!(aim_ms(1.5e6, 20), 20.0);
        let few = times([1.0, 3.0].into_iter());
        assert_eq!(few["response_ms_mean"], 2.0);
    }

    #[test]
    fn the_cost_of_readers_is_relative_to_no_readers() {
        let measurement = |readers, write_ms: f64, placed_ms: f64| Measurement {
            readers,
            read: None,
            scrapes: ScrapeTimes::default(),
            writes_ms: vec![1.0, write_ms],
            changes_per_s: 500.0,
            probed: Some(ProbeTimes { placed_ms: vec![placed_ms], healthy_ms: vec![1.0] }),
        };
        let metrics = compared(&measurement(0, 2.0, 4.0), &measurement(5, 2.5, 6.0));
        assert_eq!((metrics["writer_blocked_ms_p99"], metrics["interference_ratio"]), (0.5, 1.5));
        let faster = compared(&measurement(0, 2.0, 4.0), &measurement(5, 1.5, 4.0));
        assert_eq!(faster["writer_blocked_ms_p99"], 0.0);
    }
}
