//! `packing`: how many GPUs of a recorded cluster a policy leaves idle. Published with FGD at ATC'23.
//!
//! It drives the scheduler's code alone: what is measured are decisions, not a server.

use std::path::Path;

use super::{Experiment, Metric, Param, ParamKind, Run, RunError, RunOutcome, params::same};
use crate::{
    engine::packing::{POLICIES, PackingResult, Workload, arrivals, play},
    traces::{self, published::PublishedPacking},
};

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "packing",
    about: "Pods of a recorded GPU cluster until far more is asked for than there is (FGD, ATC'23)",
    params: &[
        Param {
            name: "list",
            kind: ParamKind::Text("LIST"),
            about: "List of pods: default, or the name of a variant",
            defaults: same("default"),
        },
        Param {
            name: "ties",
            kind: ParamKind::Choice(&["name", "random"]),
            about: "Choice among equally good nodes: the first by name, or any",
            defaults: same("name"),
        },
        Param {
            name: "policy",
            kind: ParamKind::Choice(&["best-fit", "fgd", "berth"]),
            about: "Placement policy: berth is that of the server",
            defaults: same("berth"),
        },
        Param {
            name: "traces",
            kind: ParamKind::Text("DIR"),
            about: "Directory with openb/ of github.com/alibaba/clusterdata; without it, cluster and pods are synthetic",
            defaults: same(""),
        },
        Param {
            name: "arrivals",
            kind: ParamKind::Count { min: 1, max: 1_000 },
            about: "Orders of arrival simulated in each run and averaged",
            defaults: ["2", "10", "10"],
        },
    ],
    metrics: &[&[
        Metric { name: "allocated_pct_at_100", unit: "%" },
        Metric { name: "allocated_pct_at_130", unit: "%" },
        Metric { name: "unallocated_gpus_at_130", unit: "1" },
        Metric { name: "decisions_per_s", unit: "1/s" },
    ]],
    run,
};

/// The seed of the first order of arrival, as published; the others follow.
const FIRST_SEED: u64 = 42;

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    let params = run.params;
    let list = params.text("list").unwrap_or_default();
    let dir = params.text("traces").map(Path::new);
    if dir.is_none() && list != "default" {
        let reason = "without --traces there is only a made-up list, shaped like default";
        return Err(params.refuse("list", reason).into());
    }
    let nodes = traces::gpu_nodes(dir, run.options.seed)?;
    let pods = traces::gpu_pods(dir, list, run.options.seed)?;
    let published = dir.map_or(Ok(Vec::new()), |dir| traces::published::of_list(dir, list))?;
    let workload = Workload::new(&nodes.rows, &pods.rows);
    let tallies = play_all(run, &workload);
    let mean = |of: fn(&PackingResult) -> f64| tallies.iter().map(of).sum::<f64>() / tallies.len() as f64;
    let decisions: f64 = tallies.iter().map(|tally| tally.decisions as f64).sum();
    let mut outcome = RunOutcome::default();
    outcome.metrics.extend([
        ("allocated_pct_at_100", mean(|tally| tally.allocated_pct_at_100)),
        ("allocated_pct_at_130", mean(|tally| tally.allocated_pct_at_130)),
        ("unallocated_gpus_at_130", mean(|tally| tally.unallocated_gpus)),
        ("decisions_per_s", decisions / tallies.iter().map(|tally| tally.seconds).sum::<f64>()),
    ]);
    outcome.notes.push(format!("nodes: {}; pods: {}", nodes.source, pods.source));
    outcome.notes.push(format!(
        "means of {} orders of arrival, seeds from {FIRST_SEED}; runs differ in speed alone",
        tallies.len()
    ));
    outcome.notes.extend(published.iter().map(compared));
    Ok(outcome)
}

fn play_all(run: &Run<'_>, workload: &Workload) -> Vec<PackingResult> {
    let chosen = run.params.text("policy");
    let policy = POLICIES.iter().find(|policy| Some(policy.name) == chosen).expect("each choice is a policy");
    let random = run.params.text("ties") == Some("random");
    (FIRST_SEED..FIRST_SEED + run.params.count("arrivals"))
        .map(|seed| play(workload, &arrivals(workload, seed), policy, random.then_some(seed)))
        .collect()
}

fn compared(published: &PublishedPacking) -> String {
    let PublishedPacking { policy, alloc_pct_at_100, alloc_pct_at_130, unallocated_gpus_at_130, .. } =
        published;
    format!(
        "published for {policy}, ties by name: {alloc_pct_at_100} % at 100, {alloc_pct_at_130} % at 130, \
         {unallocated_gpus_at_130} GPUs left"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_can_be_chosen() {
        let param = EXPERIMENT.params.iter().find(|param| param.name == "policy").unwrap();
        let ParamKind::Choice(choices) = param.kind else { panic!("{param:?}") };
        assert_eq!(choices, POLICIES.iter().map(|policy| policy.name).collect::<Vec<_>>());
    }
}
