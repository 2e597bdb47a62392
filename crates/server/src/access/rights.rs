//! Who asks, and what that caller may do: a value that can be compared, so that answers are shared only among callers who
//! may do the same.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use super::capability::{Capabilities, Capability};

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// Nobody that is known: there are no tokens yet.
    #[default]
    Anonymous,
}

/// What a capability is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Realm<'r> {
    /// The cluster as a whole.
    Cluster,
    /// One namespace.
    Namespace(&'r str),
    /// All namespaces, those to come included.
    AllNamespaces,
    /// Any namespace at all: whoever has the capability nowhere is refused before anything is looked up.
    SomeNamespace,
}

/// What a caller may do. Nothing, unless it says so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// About the cluster as a whole.
    pub cluster: Capabilities,
    /// In every namespace, those to come included.
    pub everywhere: Capabilities,
    /// In the namespaces of these names, beyond those.
    pub namespaces: BTreeMap<String, Capabilities>,
}

impl Rights {
    /// Whether a capability is granted.
    pub fn grant(&self, capability: Capability, realm: Realm<'_>) -> bool {
        match realm {
            Realm::Cluster => self.cluster.has(capability),
            Realm::AllNamespaces => self.everywhere.has(capability),
            Realm::Namespace(name) => {
                self.everywhere.has(capability)
                    || self.namespaces.get(name).is_some_and(|granted| granted.has(capability))
            }
            Realm::SomeNamespace => {
                self.everywhere.has(capability)
                    || self.namespaces.values().any(|granted| granted.has(capability))
            }
        }
    }
}

/// Says what callers may do.
pub(crate) trait Policy: Debug + Send + Sync {
    /// The rights of a caller.
    fn rights(&self, identity: &Identity) -> Arc<Rights>;
}

/// The same rights for everybody.
impl Policy for Arc<Rights> {
    fn rights(&self, _: &Identity) -> Arc<Rights> {
        self.clone()
    }
}

/// Everything for everybody, which is the policy until there are ACLs.
pub(crate) fn open() -> Arc<Rights> {
    Arc::new(Rights {
        cluster: Capabilities::ALL,
        everywhere: Capabilities::ALL,
        namespaces: BTreeMap::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_hold_in_the_namespaces_of_exactly_these_names() {
        let granted = Capabilities::from([Capability::ReadJob]);
        let rights = Rights { namespaces: [("web".to_owned(), granted)].into(), ..Rights::default() };
        let grants = |realm| rights.grant(Capability::ReadJob, realm);
        assert!(grants(Realm::Namespace("web")) && grants(Realm::SomeNamespace));
        assert!(!grants(Realm::Namespace("web-admin")) && !grants(Realm::Namespace("")));
        assert!(!grants(Realm::AllNamespaces) && !grants(Realm::Cluster));
        assert!(!rights.grant(Capability::SubmitJob, Realm::SomeNamespace));
    }

    #[test]
    fn no_rights_are_none() {
        for realm in [Realm::Cluster, Realm::Namespace("default"), Realm::AllNamespaces, Realm::SomeNamespace]
        {
            assert!(!Rights::default().grant(Capability::ReadJob, realm));
            assert!(open().grant(Capability::ReadJob, realm));
        }
    }
}
