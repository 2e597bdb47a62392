//! The refusal of a request that its caller may not make: it names what is missing, and where.

use std::fmt;

use super::{Capability, Realm};

/// Longest part of a namespace's name that is repeated.
const NAME_CHARS_MAX: usize = 128;

/// The caller has no right to what it asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Denied {
    capability: Capability,
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Cluster,
    Namespace(String),
    /// In none is it granted: which one the request is about was not looked up.
    SomeNamespace,
}

impl Denied {
    pub fn new(capability: Capability, realm: Realm<'_>) -> Self {
        let place = match realm {
            Realm::Cluster => Place::Cluster,
            Realm::Namespace(name) => Place::Namespace(name.chars().take(NAME_CHARS_MAX).collect()),
            Realm::AllNamespaces | Realm::SomeNamespace => Place::SomeNamespace,
        };
        Self { capability, place }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Clients of Nomad know a refusal by its first two words.
        write!(f, "Permission denied: this needs {}", self.capability.word())?;
        match &self.place {
            Place::Cluster => Ok(()),
            Place::Namespace(name) => write!(f, " in namespace {name:?}"),
            Place::SomeNamespace => f.write_str(" in a namespace"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_is_missing_and_where() {
        let said = |capability, realm| Denied::new(capability, realm).to_string();
        let in_web = said(Capability::SubmitJob, Realm::Namespace("web\n"));
        assert_eq!(in_web, r#"Permission denied: this needs submit-job in namespace "web\n""#);
        let nowhere = said(Capability::ReadJob, Realm::SomeNamespace);
        assert_eq!(nowhere, "Permission denied: this needs read-job in a namespace");
        let cluster = said(Capability::NodeRead, Realm::Cluster);
        assert_eq!(cluster, "Permission denied: this needs node:read");
    }
}
