//! `c2m`: two million allocations on 6,100 nodes. Published by HashiCorp in 2020 for Nomad, on ten regions of a cloud.

use super::{
    Experiment, Param, ParamKind, Run, RunError, RunOutcome,
    density::small_services,
    load,
    published_pace::{self, PublishedPace},
};

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "c2m",
    about: "Two million allocations (HashiCorp's challenge of 2020)",
    params: &[
        Param {
            name: "nodes",
            kind: ParamKind::Count { min: 1, max: 200_000 },
            about: "Simulated nodes",
            defaults: ["100", "6100", "6100"],
        },
        Param {
            name: "tasks",
            kind: ParamKind::Count { min: JOB_ALLOCS as u64, max: 10_000_000 },
            about: "Allocations, of one task each",
            defaults: ["20000", "200000", "2000000"],
        },
    ],
    metrics: &[load::METRICS],
    run,
};

/// Allocations of a job, as in the challenge before this one, of a million.
const JOB_ALLOCS: u32 = 1_000;

/// What HashiCorp published: this challenge, and the one before it of a million on 5,000 nodes of one region.
pub(super) const PUBLISHED: &[PublishedPace] = &[
    PublishedPace { whose: "Nomad 2020, two million on 6,100 nodes", per_s: 1_500.0 },
    PublishedPace { whose: "Nomad 2016, a million on 5,000 nodes", per_s: 3_750.0 },
];

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    let (nodes, tasks) = (run.params.count_u32("nodes"), run.params.count_u32("tasks"));
    if !tasks.is_multiple_of(JOB_ALLOCS) {
        let reason = format!("expected a multiple of {JOB_ALLOCS}, which is what each job has");
        return Err(run.params.refuse("tasks", reason).into());
    }
    let load = small_services(nodes, tasks.div_ceil(nodes), tasks / JOB_ALLOCS, JOB_ALLOCS);
    let mut outcome = load::measure(run, &load)?;
    outcome.series.plots.insert(0, published_pace::picture(&outcome.metrics, PUBLISHED));
    Ok(outcome)
}
