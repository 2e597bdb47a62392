//! `philly`: training jobs of 15 virtual clusters of 2017 (Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU
//! Clusters", ATC'19), most on one GPU, the largest on 128.
//!
//! What Microsoft published is nested JSON; `philly.sia.csv` has jobs of it as a table, with the columns
//! `timestamp,duration,num_gpus,gpu_time,cluster`.

use std::{path::Path, time::SystemTime};

use serde::{Deserialize, Deserializer, de::Error};

use super::{Trace, TraceError, table};

/// A job: so many GPUs at once, or none.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PhillyJob {
    /// When it came: seconds since the Unix epoch, the trace's local time read as UTC.
    #[serde(rename = "timestamp", deserialize_with = "seconds")]
    pub submitted_s: u64,
    /// How long it ran: seconds.
    #[serde(rename = "duration")]
    pub duration_s: f64,
    /// How many GPUs it ran on.
    #[serde(rename = "num_gpus")]
    pub gpus: u32,
    /// The virtual cluster, that is the tenant.
    pub cluster: String,
}

/// All jobs, in order of their coming.
///
/// # Errors
/// When `dir/philly/philly.sia.csv` cannot be read.
pub fn jobs(dir: &Path) -> Result<Trace<PhillyJob>, TraceError> {
    let mut trace: Trace<PhillyJob> = table::read(dir, "philly/philly.sia.csv")?;
    trace.rows.sort_by_key(|job| job.submitted_s);
    Ok(trace)
}

fn seconds<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    let text = String::deserialize(input)?;
    let time = humantime::parse_rfc3339_weak(&text).ok();
    let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    let wrong = || format!("column timestamp: {text:?}: not a time such as \"2017-10-09 07:01:55\"");
    since.map(|since| since.as_secs()).ok_or_else(|| D::Error::custom(wrong()))
}
