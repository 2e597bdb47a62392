//! What a refusal says, to those who ask for JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ErrorBody {
    /// For people: what is wrong and what to do about it.
    pub error: String,
    /// The HTTP status.
    pub status: u16,
}
