//! `result.json`: the metrics of an experiment, its parameters, and the machine and code that were measured.

use std::{collections::BTreeMap, fmt, fs, io, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Machine, RESULT_FILE, median};

/// Characters for the names of metrics in the table for people.
const NAME_WIDTH_MIN: usize = 32;

/// The result of an experiment, as `result.json` holds it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunResult {
    /// Name of the experiment.
    pub experiment: String,
    /// With which parameters, by their names in snake case.
    pub params: Map<String, Value>,
    /// The machine that it ran on.
    pub machine: Machine,
    /// Metrics by name, over all runs.
    pub metrics: BTreeMap<String, MetricSummary>,
    /// What must be known to read the figures right, for people.
    pub notes: Vec<String>,
    /// What should not have been; empty for runs that count.
    #[serde(default)]
    pub failures: Vec<String>,
    /// How the last run went.
    pub series: Series,
}

/// One metric over all runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MetricSummary {
    /// Its unit: `1` for a plain number or a ratio.
    pub unit: String,
    /// Median of all runs.
    pub median: f64,
    /// Smallest value of all runs.
    pub min: f64,
    /// Largest value of all runs.
    pub max: f64,
    /// Number of runs that have the metric.
    pub runs: u32,
}

/// Values against time, at most some hundreds of each.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Series {
    /// How far all tasks had come.
    pub progress: ProgressSeries,
    /// What each process had used.
    pub processes: Vec<ProcessSeries>,
    /// What an experiment draws of its own.
    #[serde(default)]
    pub plots: Vec<Plot>,
}

/// A chart of an experiment's own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Plot {
    /// Title of the chart.
    pub title: String,
    /// What the horizontal axis means, with its unit.
    pub x: String,
    /// What the vertical axis means, with its unit.
    pub y: String,
    /// Lines, in the order of the legend.
    pub lines: Vec<PlotLine>,
    /// Names of groups of bars: the points of a line are bars then, each at the number of its group, from 0.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PlotLine {
    /// Its name in the legend.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
    /// What others published, as a mark beside what was measured.
    #[serde(default)]
    pub published: bool,
}

impl PlotLine {
    /// A line that was measured.
    pub fn measured(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, published: false }
    }

    /// A line that others published: drawn dashed.
    pub fn published(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { published: true, ..Self::measured(name, points) }
    }
}

/// How far all tasks had come; lists of equal length.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProgressSeries {
    /// Seconds since the first request.
    pub at_s: Vec<f64>,
    /// Tasks of jobs that the server has acknowledged.
    pub created: Vec<u64>,
    /// Tasks that were seen to have a node.
    pub placed: Vec<u64>,
    /// Tasks that were seen in the awaited state.
    pub running: Vec<u64>,
}

/// What one process had used; lists of equal length.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProcessSeries {
    /// For people: `server`, `nodes 1`, `lab`.
    pub name: String,
    /// Seconds since the first request.
    pub at_s: Vec<f64>,
    /// Processor seconds since the process began.
    pub cpu_s: Vec<f64>,
    /// Resident memory, in bytes.
    pub rss_bytes: Vec<u64>,
    /// Bytes sent to disks since the process began.
    pub written_bytes: Vec<u64>,
}

impl MetricSummary {
    /// Sums up the values of all runs; none of no values.
    pub fn of(unit: &str, values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            unit: unit.to_owned(),
            median: median(&sorted)?,
            min: *sorted.first()?,
            max: *sorted.last()?,
            runs: u32::try_from(sorted.len()).unwrap_or(u32::MAX),
        })
    }
}

impl RunResult {
    /// Writes it to its file in `dir`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        fs::write(dir.join(RESULT_FILE), text)
    }

    /// Reads it from its file in `dir`.
    ///
    /// # Errors
    /// When the file is not there or is not such a result.
    pub fn read(dir: &Path) -> io::Result<Self> {
        Ok(serde_json::from_str(&fs::read_to_string(dir.join(RESULT_FILE))?)?)
    }
}

/// One metric a line, for people.
impl fmt::Display for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.metrics.keys().map(String::len).max().unwrap_or(0).max(NAME_WIDTH_MIN);
        writeln!(f, "{:<width$} {:>14} {:>14} {:>14}  {:>4}", "METRIC", "MEDIAN", "MIN", "MAX", "UNIT")?;
        for (name, metric) in &self.metrics {
            let MetricSummary { unit, median, min, max, .. } = metric;
            let [median, min, max] = [median, min, max].map(|value| number(*value));
            writeln!(f, "{name:<width$} {median:>14} {min:>14} {max:>14}  {unit:>4}")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "failed: {failure}"))
    }
}

/// With four digits, or all before the point.
pub(crate) fn number(value: f64) -> String {
    let digits_before = value.abs().max(1.0).log10() as usize + 1;
    format!("{value:.*}", 4_usize.saturating_sub(digits_before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_long_as_they_need_be() {
        let text = [0.123_45, 1.5, 45.678, 999.96, 5_000.4, 123_456.7].map(number);
        assert_eq!(text, ["0.123", "1.500", "45.68", "1000.0", "5000", "123457"]);
    }

    #[test]
    fn runs_are_summed_up_in_any_order() {
        let summary = MetricSummary::of("s", &[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((summary.median, summary.min, summary.max, summary.runs), (2.0, 1.0, 3.0, 3));
        assert_eq!(MetricSummary::of("s", &[]), None);
    }

    #[test]
    fn a_result_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let summary = MetricSummary::of("1/s", &[0.1, 1e9]).unwrap();
        let result = RunResult {
            experiment: "density".to_owned(),
            metrics: [("placements_per_s".to_owned(), summary)].into(),
            machine: Machine::this(),
            ..RunResult::default()
        };
        result.write(dir.path()).unwrap();
        assert_eq!(RunResult::read(dir.path()).unwrap(), result);
    }
}
