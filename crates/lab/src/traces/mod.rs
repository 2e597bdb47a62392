//! Workloads that others recorded on production clusters, and generated ones of the same shapes.
//!
//! Recorded traces are public but not ours to carry. `--traces DIR` names a folder with `openb/` (the node and pod lists
//! of `cluster-trace-gpu-v2023` in github.com/alibaba/clusterdata), `dlrm/` (the disaggregated DLRM trace, v2025, of the
//! same repository) and `philly/` (jobs of github.com/msr-fiddle/philly-traces as one table). Without it, [`generate`]
//! makes up a cluster and arrivals, and [`TraceSource`] says so in every result.

pub mod dlrm;
pub mod generate;
pub mod openb;
pub mod philly;
pub mod published;
mod table;

use std::{fmt, path::Path};

pub use table::TraceError;

/// Where rows come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceSource {
    /// A file of a recorded trace, as `openb/openb_pod_list_default.csv`.
    Recorded(String),
    /// Made up.
    Generated {
        /// The seed of the generated trace.
        seed: u64,
    },
}

impl fmt::Display for TraceSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recorded(file) => write!(out, "recorded {file}"),
            Self::Generated { seed } => write!(out, "generated, seed {seed}"),
        }
    }
}

/// Rows, and where they come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace<T> {
    /// The source, as the result names it.
    pub source: TraceSource,
    /// In the order of the file.
    pub rows: Vec<T>,
}

/// The GPU cluster of `dir`, or without one a made-up cluster of as many nodes.
///
/// # Errors
/// When the recorded list cannot be read.
pub fn gpu_nodes(dir: Option<&Path>, seed: u64) -> Result<Trace<openb::OpenbNode>, TraceError> {
    match dir {
        Some(dir) => openb::nodes(dir, openb::NodeList::Gpu),
        None => Ok(generate::nodes(seed, generate::NODES)),
    }
}

/// The pods of one of `dir`'s lists, or without a directory as many made-up ones, shaped like the list `default`.
///
/// # Errors
/// When the recorded list cannot be read.
pub fn gpu_pods(dir: Option<&Path>, list: &str, seed: u64) -> Result<Trace<openb::OpenbPod>, TraceError> {
    match dir {
        Some(dir) => openb::pods(dir, list),
        None => Ok(generate::pods(seed, generate::PODS)),
    }
}
