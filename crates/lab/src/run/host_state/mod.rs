//! `host-state`: how planners learn what nodes hold, and what that costs. Published in 2016 as a study of OpenStack Nova's
//! scheduler.

mod decisions;
mod drive;
mod figures;
mod flavors;
mod matrix_charts;
mod plans;
mod preload;
mod refusals;
mod scenario;
mod warm_up;

use super::{Experiment, Param, ParamKind, Run, RunError, RunOutcome, cluster::on_cluster, params::same};
use scenario::Scenario;

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "host-state",
    about: "Planners that reread, cache or follow what nodes hold (a study of OpenStack Nova, 2016)",
    params: &[
        Param {
            name: "nodes",
            kind: ParamKind::Count { min: 1, max: 100_000 },
            about: "Simulated nodes of 128 vcpus, 96 GiB and 37.5 TiB",
            defaults: ["60", "1000", "1000"],
        },
        Param {
            name: "requests",
            kind: ParamKind::Count { min: 2, max: 1_000_000 },
            about: "Requested instances, each a job of its own",
            defaults: same("50"),
        },
        Param {
            name: "schedulers",
            kind: ParamKind::Count { min: 1, max: 8 },
            about: "Planners of the server",
            defaults: same("2"),
        },
        Param {
            name: "kind",
            kind: ParamKind::Choice(&["reread", "cached", "incremental"]),
            about: "How planners keep up with the resources that nodes have free",
            defaults: same("incremental"),
        },
        Param {
            name: "preload",
            kind: ParamKind::Choice(&["true", "false"]),
            about: "Fill the cluster beforehand, so that all requests but one fit",
            defaults: same("true"),
        },
        Param {
            name: "flavors",
            kind: ParamKind::Choice(&["six", "small"]),
            about: "Requested sizes: all six, or the two of one vcpu",
            defaults: same("six"),
        },
        Param {
            name: "placement",
            kind: ParamKind::Choice(&["pack", "spread"]),
            about: "Which of two nodes with free resources is preferred: the fuller or the emptier one",
            defaults: same("pack"),
        },
        Param {
            name: "churn",
            kind: ParamKind::Switch,
            about: "Once the cluster is three quarters full, delete the oldest instance for each new one",
            defaults: same("false"),
        },
        Param {
            name: "matrix",
            kind: ParamKind::Switch,
            about: "Run the twelve: each kind, with 1 and 2 planners, empty and preloaded",
            defaults: same("false"),
        },
    ],
    metrics: &[figures::METRICS],
    run,
};

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    if run.options.target.is_some() {
        let reason = "it chooses the server's settings: leave out --target";
        return Err(RunError::Start { what: EXPERIMENT.name.to_owned(), reason: reason.to_owned() });
    }
    let scenario = Scenario::of(run.params)?;
    if run.params.switch("matrix") { matrix(run, &scenario) } else { measure(run, &scenario) }
}

fn measure(run: &Run<'_>, scenario: &Scenario) -> Result<RunOutcome, RunError> {
    let work = async |cluster: &mut _| drive::drive(run, scenario, cluster).await;
    on_cluster(run, &scenario.cluster(), work, async |_| Ok(()))
}

/// All kinds, with one planner and with two, on an empty cluster and on a full one.
fn matrix(run: &Run<'_>, base: &Scenario) -> Result<RunOutcome, RunError> {
    let mut all = RunOutcome::default();
    for (planners, preload) in [(1, false), (1, true), (2, false), (2, true)] {
        let mut of_reread = None;
        for kind in ["reread", "cached", "incremental"] {
            let scenario = Scenario { planners, preload, kind: kind.to_owned(), ..base.clone() };
            run.progress.print(&scenario.name());
            let mut outcome = measure(run, &scenario)?;
            let rate = outcome.metrics["requests_per_s"];
            let of_reread = *of_reread.get_or_insert(rate);
            outcome.metrics.insert("times_reread", rate / of_reread);
            all.variants.insert(scenario.name(), outcome.metrics);
            all.notes.extend(outcome.notes);
            (all.series, all.trace) = (outcome.series, outcome.trace);
        }
    }
    all.series.plots.splice(0..0, matrix_charts::of(&all.variants));
    all.notes.push("charts of one run show the last of the twelve".to_owned());
    Ok(all)
}
