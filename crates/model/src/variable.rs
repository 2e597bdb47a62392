//! Variables: small secrets, of which servers keep only what is encrypted.

use std::{fmt, str::FromStr, sync::Arc};

use minicbor::{Decode, Encode};

use crate::{
    ids::{Index, RootKeyId},
    time::Timestamp,
};

/// Longest path of a variable.
pub const VARIABLE_PATH_MAX: usize = 128;
/// Names and values of a variable's items together, in bytes.
pub const VARIABLE_BYTES_MAX: usize = 64 << 10;
/// Longest encrypted items of a variable, in bytes. Items of two bytes, of which there can be most, take four when they are
/// encoded.
pub const SEALED_VARIABLE_MAX: usize = 2 * VARIABLE_BYTES_MAX + 64;
/// Most variables of a namespace.
pub const NAMESPACE_VARIABLES_MAX: usize = 10_000;
/// Encrypted bytes of all variables of a namespace.
pub const NAMESPACE_VARIABLE_BYTES_MAX: u64 = 64 << 20;
/// Most variables of a cluster.
pub const VARIABLES_MAX: usize = 100_000;
/// Encrypted bytes of all variables of a cluster.
pub const VARIABLES_BYTES_MAX: u64 = 256 << 20;
/// Most variables that are encrypted again by one command.
pub const REKEYED_MAX: usize = 64;

/// What names a variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct VariableKey {
    /// The tenant that owns it.
    #[n(0)]
    #[cbor(with = "crate::codec::shared_str")]
    pub namespace: Arc<str>,
    /// Unique within the namespace.
    #[n(1)]
    #[cbor(with = "crate::codec::shared_str")]
    pub path: Arc<str>,
}

impl VariableKey {
    /// A key from its two parts.
    pub fn new(namespace: &str, path: &str) -> Self {
        Self { namespace: namespace.into(), path: path.into() }
    }
}

impl fmt::Display for VariableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.path)
    }
}

/// A text that names no variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected NAMESPACE/PATH")]
pub struct ParseVariableKeyError;

impl FromStr for VariableKey {
    type Err = ParseVariableKeyError;

    fn from_str(text: &str) -> Result<Self, ParseVariableKeyError> {
        let (namespace, path) = text.split_once('/').ok_or(ParseVariableKeyError)?;
        Ok(Self::new(namespace, path))
    }
}

/// A variable, of which only whoever has its root key can read the items.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Variable {
    /// Namespace and path.
    #[n(0)]
    pub key: VariableKey,
    /// With which root key its items are encrypted.
    #[n(1)]
    pub root_key: RootKeyId,
    /// Its items, encrypted; they decrypt for this key alone.
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    pub sealed: Vec<u8>,
    /// When it was made.
    #[n(3)]
    pub created_at: Timestamp,
    /// When it was last written.
    #[n(4)]
    pub modified_at: Timestamp,
    /// Where it was made.
    #[n(5)]
    pub create_index: Index,
    /// Where it was last written.
    #[n(6)]
    pub modify_index: Index,
}

/// A change of variables.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ChangeVariable {
    /// Writes a variable, new or again; its times and indexes are set when it is applied. Only if it was last written at the
    /// index: 0 for never.
    #[n(0)]
    Put(#[n(0)] Box<Variable>, #[n(1)] Option<Index>),
    /// Takes a variable away; one that is not there is no mistake. Only if it was last written at the index.
    #[n(1)]
    Delete(#[n(0)] VariableKey, #[n(1)] Option<Index>),
    /// Variables were encrypted again, which changes nothing that users read. One that was written meanwhile stays as it is.
    #[n(2)]
    Rekey(#[n(0)] Vec<RekeyedVariable>),
}

/// A variable that was encrypted again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RekeyedVariable {
    /// The variable.
    #[n(0)]
    pub key: VariableKey,
    /// Where it was last written when that was done.
    #[n(1)]
    pub modify_index: Index,
    /// The new root key.
    #[n(2)]
    pub root_key: RootKeyId,
    /// Its items, encrypted with that.
    #[n(3)]
    #[cbor(with = "minicbor::bytes")]
    pub sealed: Vec<u8>,
}

/// Whether variables can have a path.
///
/// # Errors
/// Why not, and what would do.
pub fn check_variable_path(path: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_~/".contains(c);
    if path.is_empty() {
        return Err("a variable needs a path, as in `nomad/jobs/web`".to_owned());
    }
    if path.len() > VARIABLE_PATH_MAX {
        return Err(format!("a path has at most {VARIABLE_PATH_MAX} characters"));
    }
    if let Some(other) = path.chars().find(|c| !is_allowed(*c)) {
        return Err(format!("a path has letters, digits, `-`, `_`, `~` and `/`, and not {other:?}"));
    }
    if path.split('/').any(str::is_empty) {
        return Err(
            "each part of a path between its slashes needs a name, the first and the last too".to_owned()
        );
    }
    let mut parts = path.split('/');
    if parts.next() != Some("nomad") {
        return Ok(());
    }
    match (parts.next(), parts.next(), parts.next()) {
        (Some("jobs"), ..) | (Some("job-templates"), Some(_), None) => Ok(()),
        _ => Err("below `nomad` there are only `nomad/jobs`, `nomad/jobs/...` and `nomad/job-templates/NAME`: choose another \
                  first part"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_keep_to_their_rules() {
        let longest = "a".repeat(VARIABLE_PATH_MAX);
        for path in [
            "a",
            "a/b-c_d~e",
            "nomad/jobs",
            "nomad/jobs/web/g/t",
            "nomad/job-templates/x",
            "nomads",
            &longest,
        ] {
            assert_eq!(check_variable_path(path), Ok(()), "{path}");
        }
        let too_long = "a".repeat(VARIABLE_PATH_MAX + 1);
        let wrong = [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            "a b",
            "a*",
            "a.b",
            "\u{e4}",
            "a\0",
            "nomad",
            "nomad/job",
            "nomad/job-templates",
        ];
        for path in wrong.into_iter().chain(["nomad/job-templates/a/b", &too_long]) {
            assert!(check_variable_path(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_key_reads_back_as_it_was_written() {
        let key = VariableKey::new("team", "a/b");
        assert_eq!(key.to_string().parse(), Ok(key));
        assert!("nothing".parse::<VariableKey>().is_err());
    }
}
