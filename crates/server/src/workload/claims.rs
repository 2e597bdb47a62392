//! The claims of a token, under Nomad's names.

use serde::{Deserialize, Serialize};

/// What a token says. All of it must be there, and of the right type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claims {
    /// Who has signed, where operators gave the cluster an address for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// `REGION:NAMESPACE:JOB:GROUP:TASK:IDENTITY`
    pub sub: String,
    /// Who it is meant for.
    pub aud: Vec<String>,
    /// When it was signed: seconds since the Unix epoch, as the other times.
    pub iat: u64,
    /// Not valid before this time.
    pub nbf: u64,
    /// Nothing any more from then on.
    pub exp: u64,
    /// Unique id of the token.
    pub jti: String,
    pub nomad_namespace: String,
    pub nomad_job_id: String,
    pub nomad_task: String,
    pub nomad_allocation_id: String,
}
