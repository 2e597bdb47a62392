//! The server that answers: who it is, whether it is well, and whom it knows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who the answering server is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentSelf {
    /// Its settings.
    pub config: BTreeMap<String, Value>,
    /// Its member record.
    pub member: AgentMember,
    /// By area, by name.
    pub stats: BTreeMap<String, BTreeMap<String, String>>,
}

/// The servers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AgentMembers {
    /// The answering one's name.
    pub server_name: String,
    /// Its region.
    pub server_region: String,
    /// Its datacenter.
    #[serde(rename = "ServerDC")]
    pub server_dc: String,
    /// All of them.
    pub members: Vec<AgentMember>,
}

/// What came of asking a server to join others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentJoined {
    /// How many of the addresses it is in one cluster with now.
    pub num_joined: u64,
    /// Why it is not with the others; empty when it is.
    pub error: String,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AgentMember {
    /// `NAME.REGION`.
    pub name: String,
    /// Its host.
    pub addr: String,
    /// Where agents connect.
    pub port: u16,
    /// By name.
    pub tags: BTreeMap<String, String>,
    /// `alive`.
    pub status: String,
}

/// Whether the answering server is well, and the agent where there is only one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentHealth {
    /// The server itself; none when it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<HealthState>,
    /// The only agent, as that of `berth dev` is; none when there are none or several, or it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<HealthState>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HealthState {
    /// Whether it is well.
    pub ok: bool,
    /// In words, what happened.
    pub message: String,
}

impl From<Result<String, String>> for HealthState {
    fn from(health: Result<String, String>) -> Self {
        let ok = health.is_ok();
        let (Ok(message) | Err(message)) = health;
        Self { ok, message }
    }
}
