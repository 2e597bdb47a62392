//! Text in responses: borrowed from the state, with ids formatted only when they are written.

use std::cmp::Ordering;

use berth_model::{AclRoleId, AclTokenId, AllocId, DeploymentId, EvalId, NodeId};
use serde::{Serialize, Serializer};

/// Text that is copied only where it is written, if that can be. Two are the same that read the same, however they are kept.
#[derive(Debug, Clone)]
pub enum Text<'v> {
    /// As it stands in the state.
    Plain(&'v str),
    /// An id's bytes.
    Id([u8; 16]),
    /// Formatted for this response.
    Made(Box<str>),
}

impl<'v> Text<'v> {
    /// What there may be; empty for none.
    pub fn maybe(text: Option<impl Into<Self>>) -> Self {
        text.map(Into::into).unwrap_or_default()
    }

    /// Passes the text to a function.
    pub fn read<T>(&self, read: impl FnOnce(&str) -> T) -> T {
        match self {
            Self::Plain(text) => read(text),
            Self::Id(bytes) => AllocId(u128::from_be_bytes(*bytes)).read(read),
            Self::Made(text) => read(text),
        }
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.read(|text| other.read(|other| text.cmp(other)))
    }
}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Text<'_> {}

impl Default for Text<'_> {
    fn default() -> Self {
        Self::Plain("")
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.read(|text| serializer.serialize_str(text))
    }
}

impl<'v> From<&'v str> for Text<'v> {
    fn from(text: &'v str) -> Self {
        Self::Plain(text)
    }
}

impl<'v> From<&'v String> for Text<'v> {
    fn from(text: &'v String) -> Self {
        Self::Plain(text)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Made(text.into())
    }
}

impl From<AclRoleId> for Text<'_> {
    fn from(id: AclRoleId) -> Self {
        Self::Id(id.to_bytes())
    }
}

impl From<AclTokenId> for Text<'_> {
    fn from(id: AclTokenId) -> Self {
        Self::Id(id.to_bytes())
    }
}

impl From<AllocId> for Text<'_> {
    fn from(id: AllocId) -> Self {
        Self::Id(id.to_bytes())
    }
}

impl From<DeploymentId> for Text<'_> {
    fn from(id: DeploymentId) -> Self {
        Self::Id(id.to_bytes())
    }
}

impl From<EvalId> for Text<'_> {
    fn from(id: EvalId) -> Self {
        Self::Id(id.to_bytes())
    }
}

impl From<NodeId> for Text<'_> {
    fn from(id: NodeId) -> Self {
        Self::Id(id.to_bytes())
    }
}
