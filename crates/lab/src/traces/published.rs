//! What others published of policies on the lists of `openb`: means of ten runs of the protocol.

use std::path::Path;

use serde::Deserialize;

use super::{TraceError, table};

/// One policy on one list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PublishedPacking {
    /// The list's file without its ending.
    pub workload: String,
    /// The policy's published name.
    pub policy: String,
    /// Percentage of all GPUs that is allocated when as many had been requested as there are.
    pub alloc_pct_at_100: f64,
    /// The same at 1.3 times as many.
    pub alloc_pct_at_130: f64,
    /// GPUs left then.
    pub unallocated_gpus_at_130: f64,
}

/// What was published of a list; nothing when `dir` has no such table.
///
/// # Errors
/// When the table cannot be read.
pub fn of_list(dir: &Path, list: &str) -> Result<Vec<PublishedPacking>, TraceError> {
    let file = "published/fgd_atc23_expected_results_summary.csv";
    if !dir.join(file).exists() {
        return Ok(Vec::new());
    }
    let rows: Vec<PublishedPacking> = table::read(dir, file)?.rows;
    let workload = format!("openb_pod_list_{list}");
    Ok(rows.into_iter().filter(|row| row.workload == workload).collect())
}
