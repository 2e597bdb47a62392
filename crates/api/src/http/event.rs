//! The event stream: one JSON object a line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Text;

/// One line. The empty object says that the server still lives. A client reads what changed as plain JSON; a server has
/// its own `P` for it, so that nothing is built only to be written.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct EventFrame<P: Default = Value, S: Text = String> {
    /// Where the changes stand; a stream that is resumed goes on with the index after this one.
    #[serde(skip_serializing_if = "is_zero")]
    pub index: u64,
    /// In order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event<P, S>>,
    /// Whether more changes of the same index follow: until they are there, resume at this index again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// Why the stream ends here; empty while it goes on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// With an error: the index to resume at, once the state has been read again.
    #[serde(skip_serializing_if = "is_zero")]
    pub resume_index: u64,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Event<P: Default = Value, S: Text = String> {
    /// `Job`, `Allocation`, `Evaluation`, `Deployment` or `Node`.
    pub topic: S,
    /// What happened.
    #[serde(rename = "Type")]
    pub kind: S,
    /// The id of what changed.
    pub key: S,
    /// Its namespace; empty for a node.
    pub namespace: S,
    /// Further ids under which a filter finds it.
    pub filter_keys: Vec<S>,
    /// Where the change stands.
    pub index: u64,
    /// True for what an agent observed: the latest value, at least once, and values between may be left out. Other
    /// changes are in the log: each is sent, and exactly once on a stream that is resumed where it ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// What changed, as it was after the change, under the topic's name; null when it is gone.
    pub payload: P,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
