//! From what was read and written to the metrics, and whether that may be.

use std::collections::BTreeMap;

use super::{
    Part,
    ground::Ground,
    listing::Listing,
    probe::Probed,
    published::{MANY_READERS, ONE_READER, Published},
    readers::{Poll, Read},
};
use crate::{
    record::{Plot, PlotLine, mean, percentile},
    run::{Metric, Outcome, scrapes::Scrapes},
};

const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

/// What is measured.
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
/// The least part of the changes that were asked for, where the figures count.
const CHANGES_MIN: f64 = 0.9;
/// The variant of nobody who reads.
const QUIET: &str = "no readers";

/// What went on beside some readers, or none.
#[derive(Debug)]
pub(super) struct Beside {
    pub readers: u32,
    pub read: Option<Read>,
    /// Of `/metrics`, while nobody reads.
    pub scrapes: Scrapes,
    /// The shortest first.
    pub writes_ms: Vec<f64>,
    pub changes_per_s: f64,
    pub probed: Option<Probed>,
}

/// All that was seen.
#[derive(Debug)]
pub(super) struct Shown<'g> {
    pub ground: &'g Ground,
    pub quiet: Beside,
    pub reading: Vec<Beside>,
}

type Metrics = BTreeMap<&'static str, f64>;

/// As a result; `counts` says whether too few changes fail it, and not only none.
pub(super) fn outcome(shown: &Shown<'_>, counts: bool) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.variants.insert(QUIET.to_owned(), others(&shown.quiet));
    for beside in &shown.reading {
        let mut metrics = others(beside);
        metrics.extend(compared(&shown.quiet, beside));
        metrics.extend(shown.quiet.scrapes.metrics());
        metrics.extend(beside.read.iter().flat_map(|read| answers(read, beside.readers)));
        // The most readers stand for all.
        outcome.metrics.clone_from(&metrics);
        if shown.reading.len() > 1 {
            outcome.variants.insert(named(beside.readers), metrics);
        }
    }
    if let ([Beside { read: Some(read), .. }], Part::OneReader) = (&*shown.reading, shown.ground.part) {
        let of_each = Listing::ALL.into_iter().enumerate();
        outcome.variants.extend(of_each.map(|(at, listing)| (listing.name().to_owned(), of_list(read, at))));
    }
    outcome.notes = notes(shown);
    outcome.failures = too_few_changes(shown, counts);
    outcome.failures.extend(shown.quiet.scrapes.failure().filter(|_| counts));
    outcome.series.plots = plots(shown);
    outcome
}

/// So many readers, for people.
pub(super) fn named(readers: u32) -> String {
    match readers {
        0 => QUIET.to_owned(),
        1 => "1 reader".to_owned(),
        _ => format!("{readers} readers"),
    }
}

/// What those have seen who do not read everything.
fn others(beside: &Beside) -> Metrics {
    let mut metrics = Metrics::from([("changes_per_s", beside.changes_per_s)]);
    metrics.extend(beside.scrapes.metrics());
    let probed = beside.probed.as_ref();
    let of_all = [
        (Some(&beside.writes_ms), "write_latency_ms_p50", "write_latency_ms_p99"),
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
fn compared(quiet: &Beside, beside: &Beside) -> Metrics {
    let p99 = |sorted: &[f64]| percentile(sorted, 0.99);
    let placed = |beside: &Beside| p99(&beside.probed.as_ref()?.placed_ms);
    let blocked =
        p99(&beside.writes_ms).zip(p99(&quiet.writes_ms)).map(|(with, without)| (with - without).max(0.0));
    let ratio = placed(beside).zip(placed(quiet)).map(|(with, without)| with / without);
    [("writer_blocked_ms_p99", blocked), ("interference_ratio", ratio)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// The answers that readers got.
fn answers(read: &Read, readers: u32) -> Metrics {
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

/// Those of one of the lists alone.
fn of_list(read: &Read, at: usize) -> Metrics {
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

fn notes(shown: &Shown<'_>) -> Vec<String> {
    let mut notes = vec![
        "a poll is an answer with all nodes and one with all allocations, uncompressed; every answer was complete. Means leave \
         out 2 % of the polls at either end"
            .to_owned(),
        "response_ms_aim is what a poll may take: its bytes, times the readers, at 1.5 GB/s; writer_blocked_ms_p99 is how much \
         longer a client's writes take at p99 than with no readers. Server, nodes, writers and readers share this machine"
            .to_owned(),
    ];
    notes.extend(marks(shown).iter().map(|Published { system, size, mean_s }| match shown.ground.part {
        Part::ManyReaders => format!("published of {system}: {mean_s} s with {}", named(*size)),
        _ => format!("published of {system}: {mean_s} s at {size} nodes"),
    }));
    notes
}

/// What was published of a run of this size.
fn marks(shown: &Shown<'_>) -> Vec<Published> {
    let ground = shown.ground;
    match ground.part {
        Part::OneReader => ONE_READER.iter().copied().filter(|mark| mark.size == ground.count).collect(),
        Part::ManyReaders if ground.count == 100 => MANY_READERS.to_vec(),
        Part::ManyReaders | Part::BesideOthers => Vec::new(),
    }
}

fn too_few_changes(shown: &Shown<'_>, counts: bool) -> Vec<String> {
    let asked = f64::from(shown.ground.changes);
    let least = if counts { asked * CHANGES_MIN } else { asked.min(f64::MIN_POSITIVE) };
    let few = shown.reading.iter().filter(|beside| beside.changes_per_s < least);
    few.map(|Beside { readers, changes_per_s, .. }| {
        format!("beside {} there were {changes_per_s:.0} changes a second, of {asked}", named(*readers))
    })
    .collect()
}

fn plots(shown: &Shown<'_>) -> Vec<Plot> {
    let mut plots = match shown.ground.part {
        Part::OneReader => vec![answers_by_poll(shown)],
        Part::ManyReaders => vec![means_by_readers(shown)],
        Part::BesideOthers => {
            vec![distributions(shown, "How long until a job is placed", |probed| &probed.placed_ms)]
        }
    };
    if shown.ground.part == Part::BesideOthers {
        plots.push(distributions(shown, "How long the server takes to say that it is well", |probed| {
            &probed.healthy_ms
        }));
    }
    plots.push(writes(shown));
    plots
}

fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> PlotLine {
    PlotLine::measured(name, points)
}

/// Each poll, with what is published across it.
fn answers_by_poll(shown: &Shown<'_>) -> Plot {
    let mut lines = Vec::new();
    let polls: Vec<&Poll> =
        shown.reading.iter().flat_map(|beside| &beside.read).flat_map(|read| &read.polls).collect();
    let numbered = |ms: &dyn Fn(&Poll) -> f64| {
        (1..).zip(&polls).map(|(number, poll)| (f64::from(number), ms(poll) / 1e3)).collect::<Vec<_>>()
    };
    lines.push(line("nodes and allocations", numbered(&Poll::all_ms)));
    lines.push(line("nodes alone", numbered(&|poll| poll.took_ms[0])));
    let last = polls.len() as f64;
    lines.extend(marks(shown).into_iter().map(|mark| {
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
fn means_by_readers(shown: &Shown<'_>) -> Plot {
    let by_readers = |name: &str| -> Vec<(f64, f64)> {
        let points = shown.reading.iter().filter_map(|beside| {
            let metrics = answers(beside.read.as_ref()?, beside.readers);
            Some((f64::from(beside.readers), metrics.get(name)? / 1e3))
        });
        points.collect()
    };
    let mut lines = vec![
        line("mean", by_readers("response_ms_mean")),
        line("p99", by_readers("response_ms_p99")),
        line("at 1.5 GB/s", by_readers("response_ms_aim")),
    ];
    for mark in marks(shown) {
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
fn writes(shown: &Shown<'_>) -> Plot {
    let all = [&shown.quiet].into_iter().chain(&shown.reading);
    let lines = all.map(|beside| line(named(beside.readers), distribution(&beside.writes_ms)));
    of_distributions("How long a client's write takes", lines.collect())
}

fn distributions(shown: &Shown<'_>, title: &str, of: impl Fn(&Probed) -> &Vec<f64>) -> Plot {
    let all = [&shown.quiet].into_iter().chain(&shown.reading);
    let lines =
        all.filter_map(|beside| Some(line(named(beside.readers), distribution(of(beside.probed.as_ref()?)))));
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

    fn read(ms: impl Iterator<Item = u32>) -> Read {
        let polls = ms.map(|ms| Poll { took_ms: [1.0, f64::from(ms) - 1.0], bytes: [100, 900] });
        Read { polls: polls.collect(), seconds: 2.0, server_cpu_s: Some(4.0) }
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
    fn what_readers_cost_others_is_told_against_nobody_reading() {
        let beside = |readers, write_ms: f64, placed_ms: f64| Beside {
            readers,
            read: None,
            scrapes: Scrapes::default(),
            writes_ms: vec![1.0, write_ms],
            changes_per_s: 500.0,
            probed: Some(Probed { placed_ms: vec![placed_ms], healthy_ms: vec![1.0] }),
        };
        let metrics = compared(&beside(0, 2.0, 4.0), &beside(5, 2.5, 6.0));
        assert_eq!((metrics["writer_blocked_ms_p99"], metrics["interference_ratio"]), (0.5, 1.5));
        let faster = compared(&beside(0, 2.0, 4.0), &beside(5, 1.5, 4.0));
        assert_eq!(faster["writer_blocked_ms_p99"], 0.0);
    }
}
