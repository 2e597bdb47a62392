//! The error of a request that its caller is not allowed to make: it names the missing capability and where it is needed.

use std::fmt;

use super::{Capability, Realm};

/// Longest part of a namespace's name that is repeated.
const NAME_CHARS_MAX: usize = 128;

/// The caller lacks a capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Denied {
    capability: Capability,
    scope: DeniedScope,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum DeniedScope {
    Cluster,
    Namespace(String),
    /// Of a variable's namespace and path.
    Variable(String, String),
    /// Of the volume's name.
    HostVolume(String),
    /// Of the pool's name.
    NodePool(String),
    /// Of no pool is it granted.
    SomeNodePool,
    /// Of no variable is it granted.
    SomeVariable,
    /// In none is it granted: which one the request is about was not looked up.
    SomeNamespace,
}

impl Denied {
    pub fn new(capability: Capability, realm: Realm<'_>) -> Self {
        let cut = |name: &str| name.chars().take(NAME_CHARS_MAX).collect();
        let scope = match realm {
            Realm::Cluster => DeniedScope::Cluster,
            Realm::Namespace(name) => DeniedScope::Namespace(cut(name)),
            Realm::Variable { namespace, path } => DeniedScope::Variable(cut(namespace), cut(path)),
            Realm::HostVolume(name) => DeniedScope::HostVolume(cut(name)),
            Realm::NodePool(name) => DeniedScope::NodePool(cut(name)),
            Realm::SomeNodePool => DeniedScope::SomeNodePool,
            Realm::SomeVariable => DeniedScope::SomeVariable,
            Realm::AllNamespaces | Realm::SomeNamespace => DeniedScope::SomeNamespace,
        };
        Self { capability, scope }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Clients of Nomad know a refusal by its first two words.
        write!(f, "Permission denied: this needs {}", self.capability.word())?;
        match &self.scope {
            DeniedScope::Cluster => Ok(()),
            DeniedScope::Namespace(name) => write!(f, " in namespace {name:?}"),
            DeniedScope::Variable(namespace, path) => write!(f, " on {path:?} in namespace {namespace:?}"),
            DeniedScope::HostVolume(name) => write!(f, " on host volume {name:?}"),
            DeniedScope::NodePool(name) => write!(f, " on node pool {name:?}"),
            DeniedScope::SomeNodePool => f.write_str(" on a node pool"),
            DeniedScope::SomeVariable => f.write_str(" on a path"),
            DeniedScope::SomeNamespace => f.write_str(" in a namespace"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_is_missing_and_where() {
        let message = |capability, realm| Denied::new(capability, realm).to_string();
        let in_web = message(Capability::RegisterJob, Realm::Namespace("web\n"));
        assert_eq!(in_web, r#"Permission denied: this needs register-job in namespace "web\n""#);
        let nowhere = message(Capability::ReadJob, Realm::SomeNamespace);
        assert_eq!(nowhere, "Permission denied: this needs read-job in a namespace");
        let variable = Realm::Variable { namespace: "web", path: "a/b" };
        let variable = message(Capability::VariablesRead, variable);
        assert_eq!(variable, r#"Permission denied: this needs variables:read on "a/b" in namespace "web""#);
        let volume = message(Capability::MountReadWrite, Realm::HostVolume("data"));
        assert_eq!(volume, r#"Permission denied: this needs mount-readwrite on host volume "data""#);
        let pool = message(Capability::NodePoolDelete, Realm::NodePool("gpus"));
        assert_eq!(pool, r#"Permission denied: this needs node_pool:delete on node pool "gpus""#);
        let cluster = message(Capability::NodeRead, Realm::Cluster);
        assert_eq!(cluster, "Permission denied: this needs node:read");
    }
}
