//! `dlrm`: instances of 156 recommendation models, taken apart into processor and accelerator roles
//! (`cluster-trace-gpu-v2025` of Alibaba): five resources and a real limit on instances a node.

use std::path::Path;

use serde::{Deserialize, Deserializer, de::Error};

use super::{Trace, TraceError, table};

/// Which part of a model it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub enum Role {
    /// An instance without an accelerator.
    #[serde(rename = "CN")]
    Cpu,
    /// An instance with an accelerator.
    #[serde(rename = "HN")]
    Gpu,
}

/// An instance, with what it requests. Its limits are left out: only requests are guaranteed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DlrmInstance {
    /// Unique.
    #[serde(rename = "instance_sn")]
    pub name: String,
    /// Which part of its model it serves.
    pub role: Role,
    /// The model, that is the job.
    #[serde(rename = "app_name")]
    pub app: String,
    /// Processor cores.
    #[serde(rename = "cpu_request")]
    pub cores: u32,
    /// Number of GPUs.
    #[serde(rename = "gpu_request")]
    pub gpus: u32,
    /// Hundredths of a node's RDMA bandwidth.
    #[serde(rename = "rdma_request")]
    pub rdma_pct: u32,
    /// Memory in GiB.
    #[serde(rename = "memory_request")]
    pub memory_gib: f64,
    /// Disk space in GiB.
    #[serde(rename = "disk_request")]
    pub disk_gib: f64,
    /// How many instances of its app one node may have; none for no limit.
    #[serde(rename = "max_instance_per_node", deserialize_with = "limit")]
    pub per_node_max: Option<u32>,
    /// When it came: seconds since the trace began; none when it was there before.
    #[serde(rename = "creation_time")]
    pub created_s: Option<f64>,
    /// When it was placed: seconds since the trace began; none when it was there before.
    #[serde(rename = "scheduled_time")]
    pub scheduled_s: Option<f64>,
    /// When it was gone: seconds since the trace began; none when it outlived the trace.
    #[serde(rename = "deletion_time")]
    pub deleted_s: Option<f64>,
}

/// All instances.
///
/// # Errors
/// When `dir/dlrm/disaggregated_DLRM_trace.csv` cannot be read.
pub fn instances(dir: &Path) -> Result<Trace<DlrmInstance>, TraceError> {
    table::read(dir, "dlrm/disaggregated_DLRM_trace.csv")
}

/// -1 stands for no limit.
fn limit<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u32>, D::Error> {
    match i64::deserialize(input)? {
        -1 => Ok(None),
        limit => u32::try_from(limit).map(Some).map_err(|_| {
            D::Error::custom(format!("column max_instance_per_node: {limit}: neither -1 nor a limit"))
        }),
    }
}
