//! Who asks, and what they may do. Asked in one place, before any handler runs. Everything is granted until there are
//! ACLs; a policy that denies shows in tests that no route is left out.

use std::{fmt::Debug, hash::Hash};

use hyper::StatusCode;

use super::{
    failure::Failure,
    query::Query,
    routes::{Capability, Route},
};

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// Nobody that is known: there are no tokens yet.
    #[default]
    Anonymous,
}

/// Where the namespace stands that a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NamespaceFrom {
    /// Nowhere: it is about the cluster.
    Cluster,
    /// In the query, `default` if it is left out; `*` for all.
    Query,
    /// In the body: it is known once that is read.
    Body,
    /// In the object that the path names: it is known once that is found.
    Object,
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
    /// A namespace that is not known yet, and asked for once it is: whoever has the capability nowhere is refused before anything is looked up.
    SomeNamespace,
}

/// Says who may do what.
pub(crate) trait Policy: Debug + Send + Sync {
    /// Whether the capability is granted.
    fn grants(&self, identity: &Identity, capability: Capability, realm: Realm<'_>) -> bool;
}

/// Grants everything to everybody.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open;

impl Policy for Open {
    fn grants(&self, _: &Identity, _: Capability, _: Realm<'_>) -> bool {
        true
    }
}

/// Refuses a request that its caller may not make.
pub(crate) fn check(
    policy: &dyn Policy,
    identity: &Identity,
    route: &Route,
    query: &Query,
    namespace_default: &str,
) -> Result<(), Failure> {
    if route.capability == Capability::Anonymous {
        return Ok(());
    }
    let realm = match route.namespace_from {
        NamespaceFrom::Cluster => Realm::Cluster,
        NamespaceFrom::Query => match query.text("namespace").unwrap_or(namespace_default) {
            "*" => Realm::AllNamespaces,
            name => Realm::Namespace(name),
        },
        NamespaceFrom::Body | NamespaceFrom::Object => Realm::SomeNamespace,
    };
    require(policy, identity, route.capability, realm)
}

/// Refuses a caller to whom a capability is not granted.
pub(crate) fn require(
    policy: &dyn Policy,
    identity: &Identity,
    capability: Capability,
    realm: Realm<'_>,
) -> Result<(), Failure> {
    if policy.grants(identity, capability, realm) {
        return Ok(());
    }
    let text = format!("permission denied: this needs the capability {capability:?}");
    Err(Failure::new(StatusCode::FORBIDDEN, text))
}
