//! Secrets: variables whose items a task is given when it starts.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use super::SECRETS_DIR;
use crate::value::Value;

/// Secrets that one task may have.
pub const SECRETS_MAX: usize = 16;
/// Longest name of a secret, in bytes.
pub const SECRET_NAME_MAX: usize = 128;
/// Longest path of a directory for its items, below the directory of secrets, in bytes.
pub const SECRET_FILES_BYTES_MAX: usize = 256;
/// The provider that reads the cluster's own variables, by Nomad's name for it.
pub const SECRET_PROVIDER: &str = "nomad";
/// The settings of that provider.
pub const SECRET_NAMESPACE: &str = "namespace";
/// Where its items are to be files. Berth's own.
pub const SECRET_FILES: &str = "files";

/// A variable whose items a task is given.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode)]
pub struct Secret {
    /// Under which its items are named: `${secret.NAME.ITEM}`.
    #[n(0)]
    pub name: String,
    /// Name of the provider that holds it.
    #[n(1)]
    pub provider: String,
    /// The variable's path.
    #[n(2)]
    pub path: String,
    /// The provider's own settings.
    #[n(3)]
    pub config: BTreeMap<String, Value>,
    /// For providers that are programs.
    #[n(4)]
    pub env: BTreeMap<String, String>,
}

impl Secret {
    /// The variable's namespace, unless it is the job's.
    pub fn namespace(&self) -> Option<&str> {
        self.text(SECRET_NAMESPACE)
    }

    /// The directory in which each item is a file, below the task's directory of secrets; none for no files.
    pub fn files(&self) -> Option<&str> {
        self.text(SECRET_FILES)?.strip_prefix(SECRETS_DIR)
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.config.get(name) {
            Some(Value::String(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }
}
