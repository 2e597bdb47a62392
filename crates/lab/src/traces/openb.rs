//! `openb`: a GPU cluster of 2023 and the pods it ran (Weng et al., "Beware of Fragmentation", ATC'23).

use std::path::Path;

use serde::Deserialize;

use super::{Trace, TraceError, table};

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OpenbNode {
    /// Unique in its list.
    #[serde(rename = "sn")]
    pub name: String,
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// How many GPUs.
    #[serde(rename = "gpu")]
    pub gpus: u32,
    /// Their model; empty without any.
    #[serde(rename = "model")]
    pub gpu_model: String,
}

/// A pod, with what it requests.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OpenbPod {
    /// Unique in its list.
    pub name: String,
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// How many GPUs it requests.
    #[serde(rename = "num_gpu")]
    pub gpus: u32,
    /// Thousandths of each of these; less than 1000 only of a single one, which others may share.
    pub gpu_milli: u32,
    /// The models that will do; empty when any will.
    #[serde(default, rename = "gpu_spec", deserialize_with = "table::alternatives")]
    pub gpu_models: Vec<String>,
    /// When it came: seconds since the trace began. Lists derived from others leave out the times.
    #[serde(default, rename = "creation_time")]
    pub created_s: Option<u64>,
    /// When the cluster placed it, if it did: seconds since the trace began.
    #[serde(default, rename = "scheduled_time")]
    pub scheduled_s: Option<u64>,
    /// When it was gone: seconds since the trace began.
    #[serde(default, rename = "deletion_time")]
    pub deleted_s: Option<u64>,
}

impl OpenbPod {
    /// Thousandths of GPUs in all.
    pub fn gpu_milli_total(&self) -> u64 {
        u64::from(self.gpus) * u64::from(self.gpu_milli)
    }
}

/// Which nodes of the list are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeList {
    /// Those with GPUs.
    Gpu,
    /// All.
    All,
}

/// The cluster's nodes.
///
/// # Errors
/// When the list is not in `dir/openb`, or cannot be read.
pub fn nodes(dir: &Path, list: NodeList) -> Result<Trace<OpenbNode>, TraceError> {
    let list = match list {
        NodeList::Gpu => "gpu_node",
        NodeList::All => "all_node",
    };
    table::read(dir, &format!("openb/openb_node_list_{list}.csv"))
}

/// The pods of a list: `default`, or the name of a variant such as `multigpu20`. In the order of the file, which is not
/// that of their coming.
///
/// # Errors
/// When the list is not in `dir/openb`, or cannot be read.
pub fn pods(dir: &Path, list: &str) -> Result<Trace<OpenbPod>, TraceError> {
    table::read(dir, &format!("openb/openb_pod_list_{list}.csv"))
}
