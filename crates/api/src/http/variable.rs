//! Variables, and the root keys that encrypt them.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A variable with what is in it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Variable {
    /// The tenant that owns it.
    pub namespace: String,
    /// Unique within the namespace.
    pub path: String,
    /// Where it was made; ignored in requests, as what follows.
    pub create_index: u64,
    /// Where it was last written.
    pub modify_index: u64,
    /// When it was made.
    pub create_time: u64,
    /// When it was last written.
    pub modify_time: u64,
    /// Names and values; none in an answer to somebody who may not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<BTreeMap<String, String>>,
}

/// Values are not included.
impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variable({:?} in {:?} at {})", self.path, self.namespace, self.modify_index)
    }
}

/// A variable in a list, without what is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct VariableMetadata {
    /// The tenant that owns it.
    pub namespace: String,
    /// Unique within the namespace.
    pub path: String,
    /// Where it was made.
    pub create_index: u64,
    /// Where it was last written.
    pub modify_index: u64,
    /// When it was made.
    pub create_time: u64,
    /// When it was last written.
    pub modify_time: u64,
}

/// A root key, without its secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct KeyringKey {
    /// Its id.
    #[serde(rename = "KeyID")]
    pub key_id: String,
    /// How it encrypts.
    pub algorithm: String,
    /// `active`, `rekeying` or `inactive`.
    pub state: String,
    /// When it was made.
    pub create_time: u64,
    /// Where it was made.
    pub create_index: u64,
    /// Where its state last changed.
    pub modify_index: u64,
    /// How many variables are encrypted with it.
    pub variables: u64,
    /// The key-encryption key that opens it.
    pub key_encryption_key: String,
    /// Whether the server that answers can open it.
    pub readable: bool,
}

/// The answer to a replacement of the key-encryption key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct KeyringRewrapped {
    /// The root key that is active now, which the new key-encryption key opens as all others.
    pub key: KeyringKey,
    /// The ids of the key-encryption keys that open nothing any more.
    pub replaced: Vec<String>,
}

/// The answer to a rotation: the key that is active now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct KeyringRotated {
    /// The key.
    pub key: KeyringKey,
}
