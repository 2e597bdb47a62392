//! Repeats an experiment, and summarizes the results.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde_json::{Map, Value};

use super::{
    Experiment, Options, Run, RunError, RunOutcome,
    params::{Params, Scale},
    progress::Progress,
};
use crate::{
    record::{Machine, MetricSummary, PROFILE_FILE, RunResult, write_trace},
    report,
};

/// Default number of runs.
const RUNS: u32 = 3;
const RUNS_SMALL: u32 = 1;

/// Runs an experiment as often as requested, and writes its results to `options.out`.
///
/// `given` holds the values of the experiment's own parameters, by flag. What went wrong without ending a run is among the
/// result's failures.
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
    let runs = options.runs.unwrap_or(if options.scale == Scale::Small { RUNS_SMALL } else { RUNS });
    let progress = Progress::default();
    let mut outcomes = Vec::new();
    for number in 1..=runs {
        progress.begin(experiment.name, number, runs);
        let seed = options.seed + u64::from(number) - 1;
        let run = Run { params: &params, options, number, seed, progress: &progress };
        outcomes.push((experiment.run)(&run)?);
    }
    let metrics = sum_up(experiment, &outcomes);
    let notes = each_once(outcomes.iter().flat_map(|outcome| &outcome.notes));
    let failures = each_once(outcomes.iter().flat_map(|outcome| &outcome.failures));
    let last = outcomes.pop().unwrap_or_default();
    let result = RunResult {
        experiment: experiment.name.to_owned(),
        params: all_params(options, &params, &last),
        machine: Machine::this(),
        metrics,
        notes,
        failures,
        series: last.series.clone(),
    };
    write(&options.out, &result, &last).map_err(|source| RunError::io("write to", &options.out, source))?;
    Ok(result)
}

/// Its own parameters, and those of all that may change a figure.
fn all_params(options: &Options, params: &Params, last: &RunOutcome) -> Map<String, Value> {
    let mut all = params.to_json();
    all.insert("scale".to_owned(), options.scale.name().into());
    all.insert("seed".to_owned(), options.seed.into());
    if !last.trace.is_empty() {
        all.insert("connections".to_owned(), options.connections.into());
    }
    if let Some(target) = &options.target {
        all.insert("target".to_owned(), target.address.to_string().into());
    }
    all
}

/// All metrics by name; those of a variant are named `metric[variant]`.
fn sum_up(experiment: &Experiment, outcomes: &[RunOutcome]) -> BTreeMap<String, MetricSummary> {
    let mut values: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for outcome in outcomes {
        let variants = outcome.variants.iter().map(|(variant, metrics)| (variant.as_str(), metrics));
        for (variant, metrics) in variants.chain([("", &outcome.metrics)]) {
            metrics.iter().for_each(|(name, value)| values.entry((name, variant)).or_default().push(*value));
        }
    }
    let summaries = values.into_iter().filter_map(|((name, variant), values)| {
        let mut known = experiment.metrics.iter().copied().flatten();
        let metric = known.find(|metric| metric.name == name).unwrap_or_else(|| {
            panic!("experiment {} measures {name}, which none of its lists names", experiment.name)
        });
        let name = if variant.is_empty() { name.to_owned() } else { format!("{name}[{variant}]") };
        Some((name, MetricSummary::of(metric.unit, &values)?))
    });
    summaries.collect()
}

fn each_once<'t>(texts: impl Iterator<Item = &'t String>) -> Vec<String> {
    let mut once: Vec<String> = Vec::new();
    for text in texts {
        if !once.contains(text) {
            once.push(text.clone());
        }
    }
    once
}

fn write(dir: &Path, result: &RunResult, last: &RunOutcome) -> io::Result<()> {
    result.write(dir)?;
    write_trace(dir, &last.trace)?;
    // One of an earlier run would be taken for this one's.
    fs::write(dir.join(PROFILE_FILE), last.profile.as_deref().unwrap_or_default())?;
    report::draw(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Metric;

    const PLAIN: Experiment = Experiment {
        name: "plain",
        about: "",
        params: &[],
        metrics: &[&[Metric { name: "rate", unit: "1/s" }], &[Metric { name: "never", unit: "s" }]],
        run: |run| {
            let metrics = BTreeMap::from([("rate", run.seed as f64)]);
            let variants = [("fast".to_owned(), BTreeMap::from([("rate", 2.0)]))].into();
            let notes = vec!["always".to_owned(), format!("run {}", run.number)];
            Ok(RunOutcome { metrics, variants, notes, ..RunOutcome::default() })
        },
    };

    #[test]
    fn runs_have_seeds_of_their_own_and_one_result() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            out: dir.path().join("out"),
            data: None,
            scale: Scale::Medium,
            runs: None,
            seed: 40,
            target: None,
            connections: 2,
            profile: false,
            berth: "berth".into(),
        };
        let result = run(&PLAIN, &options, &BTreeMap::new()).unwrap();
        let rate = &result.metrics["rate"];
        assert_eq!((rate.median, rate.min, rate.max, rate.runs), (41.0, 40.0, 42.0, 3));
        assert_eq!(result.metrics["rate[fast]"].median, 2.0);
        assert!(!result.metrics.contains_key("never"));
        assert_eq!(result.notes, ["always", "run 1", "run 2", "run 3"]);
        assert_eq!(RunResult::read(&options.out).unwrap(), result);
        assert!(!result.params.contains_key("connections"), "it has made no requests");
    }
}
