//! Who may do what: policies, roles and tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;
use crate::secrets::debug_shows;

/// A policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AclPolicy {
    /// Its name: letters, digits, dashes and underscores.
    pub name: String,
    /// In words, what it is.
    pub description: String,
    /// What it allows, in HCL or JSON.
    pub rules: String,
    /// The tasks that have it by who they are; none for no task.
    #[serde(rename = "JobACL", skip_serializing_if = "Option::is_none")]
    pub job_acl: Option<AclPolicyJob>,
    /// Where it was made; ignored in requests.
    pub create_index: u64,
    /// Where it last changed; ignored in requests.
    pub modify_index: u64,
}

/// The tasks to which a policy is attached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AclPolicyJob {
    /// The namespace of their job.
    pub namespace: String,
    /// Their job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// Their group; empty for all of the job.
    pub group: String,
    /// The task; empty for all of the group.
    pub task: String,
}

/// A policy in a list, without its rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AclPolicyStub {
    /// Its name.
    pub name: String,
    /// In words, what it is.
    pub description: String,
    /// Where it was made.
    pub create_index: u64,
    /// Where it last changed.
    pub modify_index: u64,
}

/// The answer to a policy that was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AclPolicyWritten {
    /// What of its rules changes nothing yet, for people; empty if all does.
    pub warnings: String,
}

/// A policy or role that is named by another thing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AclLink {
    /// Of a role; empty for a policy.
    #[serde(rename = "ID", skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Its name.
    #[serde(rename = "Name")]
    pub name: String,
}

impl AclLink {
    /// What is known by its name alone.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// A role: policies under one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AclRole {
    /// Its id; empty in a request for a new one.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its name: letters, digits, dashes and underscores.
    pub name: String,
    /// In words, what it is.
    pub description: String,
    /// Its policies, by their names.
    pub policies: Vec<AclLink>,
    /// Where it was made; ignored in requests.
    pub create_index: u64,
    /// Where it last changed; ignored in requests.
    pub modify_index: u64,
}

/// A token.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AclToken {
    /// What it is called; empty in a request for a new one.
    #[serde(rename = "AccessorID")]
    pub accessor_id: String,
    /// What its owner shows. Told once, when it is made; ignored in requests.
    #[serde(rename = "SecretID", skip_serializing_if = "String::is_empty")]
    pub secret_id: String,
    /// A name to read; it need not be unique.
    pub name: String,
    /// `client` or `management`.
    #[serde(rename = "Type")]
    pub token_type: String,
    /// Its policies, by their names; null for none.
    pub policies: Option<Vec<String>>,
    /// Its roles; null for none.
    pub roles: Option<Vec<AclLink>>,
    /// Whether every region knows it.
    pub global: bool,
    /// When it was made; ignored in requests.
    pub create_time: Option<Time>,
    /// From when on it is nothing any more; null for never.
    pub expiration_time: Option<Time>,
    /// In a request for a new one: how long it is to last, as `8h30m` or in nanoseconds; empty forever.
    #[serde(rename = "ExpirationTTL", skip_serializing_if = "Option::is_none")]
    pub expiration_ttl: Option<AclTtl>,
    /// Where it was made; ignored in requests.
    pub create_index: u64,
    /// Where it last changed; ignored in requests.
    pub modify_index: u64,
}

debug_shows!(AclToken {
    accessor_id,
    name,
    token_type,
    policies,
    roles,
    global,
    create_time,
    expiration_time,
    expiration_ttl,
    create_index,
    modify_index
});

/// How long a token is to last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a duration like \"8h30m\", or nanoseconds")]
pub enum AclTtl {
    /// As `8h30m`.
    Text(String),
    /// In nanoseconds.
    Nanoseconds(u64),
}

/// Asks for the first token.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AclBootstrap {
    /// The secret that it is to have; empty to have one made.
    pub bootstrap_secret: String,
}

debug_shows!(AclBootstrap {});

/// A one-time token: exchanged once for the secret of the token that it stands for.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AclOneTimeToken {
    /// What is exchanged; in a request for the exchange, all that is needed.
    #[serde(rename = "OneTimeSecretID")]
    pub one_time_secret_id: String,
    /// The token that it stands for.
    #[serde(rename = "AccessorID")]
    pub accessor_id: String,
    /// From when on it is nothing any more.
    pub expires_at: Option<Time>,
    /// Where it was made.
    pub create_index: u64,
    /// The index of its last change.
    pub modify_index: u64,
}

debug_shows!(AclOneTimeToken { accessor_id, expires_at, create_index, modify_index });

/// The answer to a request for a one-time token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AclOneTimeMade {
    /// The one-time token, with its secret.
    pub one_time_token: AclOneTimeToken,
    /// Where it was made.
    pub index: u64,
}

/// The answer to the exchange of a one-time token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AclOneTimeExchanged {
    /// The token that it stood for, with its secret.
    pub token: AclToken,
    /// Where it was exchanged.
    pub index: u64,
}
