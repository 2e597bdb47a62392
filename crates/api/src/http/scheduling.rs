//! How the cluster places, as operators set it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What operators have set. What is left out of a change is at its default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SchedulerConfiguration {
    /// `binpack` or `spread`; empty for `binpack`.
    pub scheduler_algorithm: String,
    /// Whether tasks may use up to their `memory_max`.
    pub memory_oversubscription_enabled: bool,
    /// Not built: refused when it is on.
    pub reject_job_registration: bool,
    /// Not built: refused when it is on.
    pub pause_eval_broker: bool,
    /// Whose work may preempt work of lower priority.
    pub preemption_config: PreemptionConfig,
    /// Berth's own: of a hundred nodes, how many may be declared lost at a time. Where more are silent, none is, until they
    /// are back or this is raised. 0 for the default of 40, 100 for all.
    pub lost_nodes_max_percent: u8,
    /// Pools that differ, by name.
    pub node_pools: BTreeMap<String, PoolScheduling>,
    /// Where it was first set; ignored in a change.
    pub create_index: u64,
    /// Where it was last set; with `?cas=` a change is made only if this is true.
    pub modify_index: u64,
}

/// Which types of job may preempt allocations of lower priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PreemptionConfig {
    /// On unless set otherwise.
    pub system_scheduler_enabled: bool,
    /// Off unless set otherwise.
    pub sys_batch_scheduler_enabled: bool,
    /// Off unless set otherwise.
    pub batch_scheduler_enabled: bool,
    /// Off unless set otherwise.
    pub service_scheduler_enabled: bool,
    /// Berth's own: whether batch jobs may preempt batch work.
    pub batch_on_batch_enabled: bool,
}

impl Default for PreemptionConfig {
    fn default() -> Self {
        Self {
            system_scheduler_enabled: true,
            sys_batch_scheduler_enabled: false,
            batch_scheduler_enabled: false,
            service_scheduler_enabled: false,
            batch_on_batch_enabled: false,
        }
    }
}

/// What one pool sets differently; null where it does not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PoolScheduling {
    /// `binpack` or `spread`.
    pub scheduler_algorithm: Option<String>,
    /// Whether tasks may use up to their `memory_max`.
    pub memory_oversubscription_enabled: Option<bool>,
}

/// The configuration as it is read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SchedulerConfigurationRead {
    /// What operators have set.
    pub scheduler_config: SchedulerConfiguration,
    /// Where it was last set.
    pub index: u64,
    /// Milliseconds since the leader was heard.
    pub last_contact: u64,
    /// Whether a leader is known.
    pub known_leader: bool,
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SchedulerConfigurationSet {
    /// Whether it was made: not when `?cas=` was not true.
    pub updated: bool,
    /// The index.
    pub index: u64,
}
