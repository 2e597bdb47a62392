//! `state`: readers of everything, while the cluster changes. Published by Mesos in 2018 as the benchmarks of its `/state`; here
//! each poll reads the whole lists of nodes and of allocations.

mod changes;
mod cluster_state;
mod drive;
mod figures;
mod listing;
mod probe;
mod published;
mod readers;

use super::{
    Experiment, Param, ParamKind, Run, RunError, RunOutcome,
    cluster::{ClusterParams, on_cluster},
    params::{SECURE, same},
    scrapes,
};
use cluster_state::ClusterState;

/// The experiment's row in the list.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "state",
    about: "Read whole lists of nodes and allocations while they change (Mesos's benchmarks of /state, 2018)",
    params: &[
        Param {
            name: "part",
            kind: ParamKind::Choice(&["a", "b", "c"]),
            about: "a: one reader of a large cluster; b: more and more readers; c: health and placements beside readers",
            defaults: same("a"),
        },
        Param {
            name: "nodes",
            kind: ParamKind::Count { min: 1, max: 200_000 },
            about: "Simulated nodes [default: 20000 in part a and 100 in b and c; medium 2000 and 50, small 50 and 10]",
            defaults: same(""),
        },
        Param {
            name: "readers",
            kind: ParamKind::Count { min: 1, max: 1_000 },
            about: "Readers at a time [default: 1 in part a; 1, 2, 5, 10, 15 and 20 one after the other in b; 5 in c]",
            defaults: same(""),
        },
        Param {
            name: "polls",
            kind: ParamKind::Count { min: 1, max: 1_000_000 },
            about: "Number of times that each reader reads everything; in part c once a second",
            defaults: ["200", "50", "50"],
        },
        Param {
            name: "changes",
            kind: ParamKind::Count { min: 0, max: 100_000 },
            about: "Changes a second: jobs registered again, and as many tasks that restart",
            defaults: ["100", "1000", "1000"],
        },
        SECURE,
    ],
    metrics: &[figures::METRICS, scrapes::METRICS],
    run,
};

/// What is read, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExperimentPart {
    OneReader,
    ManyReaders,
    BesideOthers,
}

impl ExperimentPart {
    fn of(name: Option<&str>) -> Self {
        match name {
            Some("b") => Self::ManyReaders,
            Some("c") => Self::BesideOthers,
            _ => Self::OneReader,
        }
    }

    /// Readers at a time, one number after the other.
    fn readers(self) -> &'static [u32] {
        match self {
            Self::OneReader => &[1],
            Self::ManyReaders => &[1, 2, 5, 10, 15, 20],
            Self::BesideOthers => &[5],
        }
    }
}

fn run(run: &Run<'_>) -> Result<RunOutcome, RunError> {
    let state = ClusterState::of(run);
    let cluster_params = ClusterParams {
        nodes: state.nodes(),
        servers: 1,
        server: Vec::new(),
        secure: run.params.switch("secure"),
    };
    let work = async |cluster: &mut _| drive::drive(run, &state, cluster).await;
    on_cluster(run, &cluster_params, work, async |target| state.clean_up(target).await)
}
