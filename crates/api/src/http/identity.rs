//! By what others find out whether a workload's token is genuine (RFC 7517, OpenID Connect Discovery 1.0).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys that sign, or have signed what has not expired.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Jwks {
    /// The newest first.
    pub keys: Vec<Jwk>,
}

/// The public half of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Jwk {
    /// Its name in tokens.
    pub kid: String,
    /// `EC`
    pub kty: String,
    /// `P-256`
    pub crv: String,
    /// The algorithm of its signatures: `ES256`.
    pub alg: String,
    /// What it is for: `sig`.
    #[serde(rename = "use")]
    pub purpose: String,
    /// Of the point, in base64.
    pub x: String,
    /// Of the point, in base64.
    pub y: String,
}

/// What a cluster says of itself to those who check its tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OpenIdConfiguration {
    /// Who signs.
    pub issuer: String,
    /// Where its keys are.
    pub jwks_uri: String,
    /// How they sign.
    pub id_token_signing_alg_values_supported: Vec<String>,
    /// Nobody logs in here: what must be there.
    pub response_types_supported: Vec<String>,
    /// Everybody gets the same subject.
    pub subject_types_supported: Vec<String>,
}
