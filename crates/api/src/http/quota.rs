//! Quotas, and what counts for them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the allocations of some namespaces may hold together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Quota {
    /// Its name: letters, digits, dashes and underscores.
    pub name: String,
    /// In words, what it is.
    pub description: String,
    /// What they may not exceed; at most one, as there is one region.
    pub limits: Option<Vec<QuotaLimit>>,
    /// As long as they hold less than this, their work goes before that of others.
    pub guarantee: Option<QuotaResources>,
    /// Where it was made; ignored in requests.
    pub create_index: u64,
    /// Where it last changed; ignored in requests.
    pub modify_index: u64,
}

/// The limit in one region.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct QuotaLimit {
    /// The region's name.
    pub region: String,
    /// What may be held there.
    pub region_limit: Option<QuotaResources>,
}

/// Amounts. As limits, 0 stands for no limit, and less than 0 for nothing at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QuotaResources {
    /// MHz.
    #[serde(rename = "CPU")]
    pub cpu: Option<i64>,
    /// MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: Option<i64>,
    /// MiB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: Option<i64>,
    /// By name.
    #[serde(rename = "Devices")]
    pub devices: Option<Vec<QuotaDevice>>,
}

/// Devices of one name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct QuotaDevice {
    /// `type`, `vendor/type` or `vendor/type/model`.
    pub name: String,
    /// How many; of shared ones in use, rounded up.
    pub count: u64,
}

/// What counts for a quota.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct QuotaUsage {
    /// The quota's name.
    pub name: String,
    /// By region.
    pub used: BTreeMap<String, QuotaLimit>,
    /// Where the quota was made.
    pub create_index: u64,
    /// Where the quota last changed.
    pub modify_index: u64,
}
