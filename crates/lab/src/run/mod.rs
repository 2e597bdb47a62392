//! Experiments: each is a file here and a row in [`EXPERIMENTS`].
//!
//! To add one: write its file beside `density.rs` (an [`Experiment`]: its name, parameters, metrics, and the function
//! that does one run), and add its row to the list. Flags, help, repetition, `result.json`, `trace.jsonl` and the report
//! come from that.

mod allocation_cycle;
mod audit;
mod c2m;
mod client;
mod cluster;
mod connect;
mod density;
mod error;
mod failover;
mod host_state;
mod hostile;
mod http;
mod launch;
mod liveness;
mod load;
mod mock_job;
mod packing;
mod params;
mod profile;
mod progress;
mod published_pace;
mod repeat;
mod restart;
mod revoke;
mod scrapes;
mod soak;
mod state;
mod updates;
mod usage_sampler;
mod writes;

use std::{collections::BTreeMap, path::PathBuf};

use crate::record::{Series, TraceLine};

pub use audit::{Audit, audit};
pub use cluster::Target;
pub use error::RunError;
pub use params::{Param, ParamError, ParamKind, Params, Scale};
use progress::Progress;
pub use repeat::run;

/// All experiments, in the order in which help lists them.
pub const EXPERIMENTS: &[Experiment] = &[
    density::EXPERIMENT,
    updates::EXPERIMENT,
    c2m::EXPERIMENT,
    packing::EXPERIMENT,
    allocation_cycle::EXPERIMENT,
    host_state::EXPERIMENT,
    state::EXPERIMENT,
    restart::EXPERIMENT,
    failover::EXPERIMENT,
    liveness::EXPERIMENT,
    hostile::EXPERIMENT,
    writes::EXPERIMENT,
    connect::EXPERIMENT,
    revoke::EXPERIMENT,
    launch::EXPERIMENT,
    soak::EXPERIMENT,
];

/// The experiment of a name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

/// Commands to begin with, by experiment: its help ends with them.
pub const EXAMPLES: &[(&str, &[&str])] = &[(
    "state",
    &[
        "berth lab run state --scale small --out state",
        "berth lab run state --part b --readers 20 --out readers",
        "berth lab run state --part c --nodes 100 --changes 1000 --profile --out beside",
    ],
)];

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
    /// The function that does one run.
    pub run: fn(&Run<'_>) -> Result<RunOutcome, RunError>,
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
    /// Gets the result, the trace, the report and what the processes report.
    pub out: PathBuf,
    /// Gets the servers' data while they run; below `out` unless given.
    pub data: Option<PathBuf>,
    /// Scale of the parameters' defaults.
    pub scale: Scale,
    /// How often; unless given, three times, and once at the small scale.
    pub runs: Option<u32>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// A server that is there already; unless given, one is started.
    pub target: Option<Target>,
    /// Connections on which jobs are submitted, one request at a time on each.
    pub connections: u32,
    /// Find out where the server spends its time.
    pub profile: bool,
    /// Path of the `berth` binary that is started.
    pub berth: PathBuf,
}

/// One run of an experiment.
#[derive(Debug)]
pub struct Run<'a> {
    /// The experiment's own parameters.
    pub params: &'a Params,
    /// What is common to all.
    pub options: &'a Options,
    /// Number of the run, from 1.
    pub number: u32,
    /// The run's own: others in each run, the same when the experiment is repeated.
    pub seed: u64,
    /// Tells people how far it is.
    pub progress: &'a Progress,
}

impl Run<'_> {
    /// Fails where there is a target, for an experiment that ends servers or their tokens.
    fn needs_own_server(&self) -> Result<(), RunError> {
        match &self.options.target {
            None => Ok(()),
            Some(_) => Err(RunError::Start {
                what: "the experiment".to_owned(),
                reason: "it tries no server but its own: leave --target out".to_owned(),
            }),
        }
    }
}

/// What one run has shown.
#[derive(Debug, Default)]
pub struct RunOutcome {
    /// By the metric's name. What cannot be measured is left out, and a note says why.
    pub metrics: BTreeMap<&'static str, f64>,
    /// The metrics of each of several variants that were run one after the other, by the variant's name.
    pub variants: BTreeMap<String, BTreeMap<&'static str, f64>>,
    /// What must be known to read the figures right, for people.
    pub notes: Vec<String>,
    /// What should not have been: with any of these the run has failed, and its figures are written all the same.
    pub failures: Vec<String>,
    /// Values against time, if there are any.
    pub series: Series,
    /// The stages of requests, if there are any.
    pub trace: Vec<TraceLine>,
    /// The stacks of the server's profile, if one was taken.
    pub profile: Option<String>,
}
