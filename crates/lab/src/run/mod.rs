//! Experiments: each is a file here and a row in [`EXPERIMENTS`].
//!
//! To add one: write its file beside `density.rs` (an [`Experiment`]: its name, parameters, metrics, and the function
//! that does one run), and add its row to the list. Flags, help, repetition, `result.json`, `trace.jsonl` and the report
//! come from that.

mod c2m;
mod cluster;
mod density;
mod error;
mod http;
mod load;
mod packing;
mod params;
mod progress;
mod updates;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    record::{Machine, RunResult, Series, Summary, TraceLine, write_trace},
    report,
};

pub use cluster::Target;
pub use error::RunError;
pub use params::{Kind, Param, ParamError, Params, Scale};
use progress::Progress;

/// All experiments, in the order in which help lists them.
pub const EXPERIMENTS: &[Experiment] =
    &[density::EXPERIMENT, updates::EXPERIMENT, c2m::EXPERIMENT, packing::EXPERIMENT];

/// One experiment.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// What may be set, besides what is common to all.
    pub params: &'static [Param],
    /// What it measures, in one or more lists.
    pub metrics: &'static [&'static [Metric]],
    /// Does one run.
    pub run: fn(&Run<'_>) -> Result<Outcome, RunError>,
}

/// Something that is measured.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name in `result.json`.
    pub name: &'static str,
    /// Its unit: `1` for a plain number or a ratio.
    pub unit: &'static str,
}

/// What is common to all experiments.
#[derive(Debug, Clone)]
pub struct Options {
    /// Gets the result, the trace, the report and what the processes tell.
    pub out: PathBuf,
    /// Gets the servers' data while they run; below `out` unless given.
    pub data: Option<PathBuf>,
    /// How large.
    pub scale: Scale,
    /// How often; unless given, three times, and once at the small scale.
    pub runs: Option<u32>,
    /// Makes everything that looks random.
    pub seed: u64,
    /// A server that is there already; unless given, one is started.
    pub target: Option<Target>,
    /// Connections on which jobs are submitted, one request at a time on each.
    pub connections: u32,
    /// Find out where the server spends its time.
    pub profile: bool,
    /// The `berth` binary.
    pub berth: PathBuf,
}

/// One run of an experiment.
#[derive(Debug)]
pub struct Run<'a> {
    /// The experiment's own parameters.
    pub params: &'a Params,
    /// What is common to all.
    pub options: &'a Options,
    /// From 1.
    pub number: u32,
    /// The run's own: others in each run, the same when the experiment is repeated.
    pub seed: u64,
    /// Tells people how far it is.
    pub progress: &'a Progress,
}

/// What one run has shown.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By the metric's name. What cannot be measured is left out, and a note says why.
    pub metrics: BTreeMap<&'static str, f64>,
    /// What must be known to read the figures right, for people.
    pub notes: Vec<String>,
    /// Values against time, if there are any.
    pub series: Series,
    /// The stages of requests, if there are any.
    pub trace: Vec<TraceLine>,
}

/// Runs an experiment as often as is asked for, and writes what it has shown to `options.out`.
///
/// `given` holds the values of the experiment's own parameters, by flag.
///
/// # Errors
/// When a parameter cannot be, when the run fails or is interrupted, or when not every task got where it should.
pub fn run(
    experiment: &Experiment,
    options: &Options,
    given: &BTreeMap<String, String>,
) -> Result<RunResult, RunError> {
    let params = Params::new(experiment.params, options.scale, given)?;
    fs::create_dir_all(&options.out).map_err(|source| RunError::io("create", &options.out, source))?;
    let runs = options.runs.unwrap_or(if options.scale == Scale::Small { 1 } else { 3 });
    let progress = Progress::default();
    let mut outcomes = Vec::new();
    for number in 1..=runs {
        progress.begin(experiment.name, number, runs);
        let seed = options.seed + u64::from(number) - 1;
        outcomes.push((experiment.run)(&Run {
            params: &params,
            options,
            number,
            seed,
            progress: &progress,
        })?);
    }
    let (result, trace) = sum_up(experiment, options, &params, outcomes);
    write(&options.out, &result, &trace).map_err(|source| RunError::io("write to", &options.out, source))?;
    Ok(result)
}

fn write(dir: &Path, result: &RunResult, trace: &[TraceLine]) -> std::io::Result<()> {
    result.write(dir)?;
    write_trace(dir, trace)?;
    report::draw(dir)
}

fn sum_up(
    experiment: &Experiment,
    options: &Options,
    params: &Params,
    outcomes: Vec<Outcome>,
) -> (RunResult, Vec<TraceLine>) {
    let known = || experiment.metrics.iter().copied().flatten();
    let stray = outcomes
        .iter()
        .flat_map(|outcome| outcome.metrics.keys())
        .find(|name| known().all(|m| m.name != **name));
    assert!(
        stray.is_none(),
        "experiment {} measures {stray:?}, which none of its lists names",
        experiment.name
    );
    let metrics = known().filter_map(|metric| {
        let values: Vec<f64> =
            outcomes.iter().filter_map(|outcome| outcome.metrics.get(metric.name).copied()).collect();
        Some((metric.name.to_owned(), Summary::of(metric.unit, &values)?))
    });
    let metrics = metrics.collect();
    let mut notes: Vec<String> = Vec::new();
    for note in outcomes.iter().flat_map(|outcome| &outcome.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    let last = outcomes.into_iter().last().unwrap_or_default();
    let mut all_params = params.to_json();
    all_params.insert("scale".to_owned(), options.scale.name().into());
    all_params.insert("seed".to_owned(), options.seed.into());
    let result = RunResult {
        experiment: experiment.name.to_owned(),
        params: all_params,
        machine: Machine::this(),
        metrics,
        notes,
        series: last.series,
    };
    (result, last.trace)
}
