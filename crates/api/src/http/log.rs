//! Frames of a task's log: one JSON object a line.

use base64::{Engine, engine::general_purpose::STANDARD};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A piece of a log. The empty object says that the server still lives.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct StreamFrame {
    /// Bytes since the task's first output.
    #[serde(skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// The piece; base64 on the wire.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "to_base64",
        deserialize_with = "from_base64"
    )]
    #[schemars(with = "String")]
    pub data: Vec<u8>,
    /// The file's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// What happened to the file, or why the stream ends here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file_event: String,
}

pub(super) fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

pub(super) fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
