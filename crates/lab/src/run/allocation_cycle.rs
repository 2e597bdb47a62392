//! `allocation-cycle`: how long it takes to offer a whole cluster to all frameworks. Published by Mesos in 2018.
//!
//! It drives the scheduler's code alone: what is measured are decisions, not a server.

use super::{Experiment, Metric, Param, ParamKind, Run, RunError, RunOutcome, params::same};
use crate::engine::{CycleShape, allocation_cycle};

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "allocation-cycle",
    about: "Offer everything that is free to frameworks, in the order of their shares (Mesos 2018)",
    params: &[
        Param {
            name: "nodes",
            kind: ParamKind::Count { min: 1, max: 100_000 },
            about: "Nodes; 3000 as published with --quota",
            defaults: ["1000", "10000", "20000"],
        },
        Param {
            name: "frameworks",
            kind: ParamKind::Count { min: 1, max: 10_000 },
            about: "Number of frameworks; 3000 as published with --quota, each in a role of its own",
            defaults: ["100", "1000", "2000"],
        },
        Param {
            name: "refusing",
            kind: ParamKind::Count { min: 0, max: 10_000 },
            about: "Number of the frameworks with the smallest share that refuse every node",
            defaults: same("0"),
        },
        Param {
            name: "quota",
            kind: ParamKind::Switch,
            about: "Give roles guarantees, nine small ones for each large one",
            defaults: same("false"),
        },
    ],
    metrics: &[&[
        Metric { name: "cycle_s", unit: "s" },
        Metric { name: "empty_cycle_s", unit: "s" },
        Metric { name: "ns_per_offer", unit: "ns" },
    ]],
    run,
};

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    let params = run.params;
    let shape = CycleShape {
        nodes: params.count("nodes"),
        frameworks: params.count("frameworks"),
        refusing: params.count("refusing"),
        quota: params.switch("quota"),
    };
    if shape.refusing >= shape.frameworks {
        let reason = format!("of {} frameworks somebody must be left to take offers", shape.frameworks);
        return Err(params.refuse("refusing", reason).into());
    }
    if shape.quota && shape.refusing > 0 {
        return Err(params.refuse("refusing", "not together with --quota").into());
    }
    let cycles = allocation_cycle(shape);
    let mut outcome = RunOutcome::default();
    outcome.metrics.extend([
        ("cycle_s", cycles.full.as_secs_f64()),
        ("empty_cycle_s", cycles.empty.as_secs_f64()),
        ("ns_per_offer", cycles.full.as_secs_f64() * 1e9 / cycles.offers as f64),
    ]);
    outcome
        .notes
        .push(format!("{} offers in the full cycle; the empty one looks at every node", cycles.offers));
    Ok(outcome)
}
