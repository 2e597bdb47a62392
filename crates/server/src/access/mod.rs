//! Authorization, and the view of the state that a caller gets. A request is checked once, before its handler runs. The [`Access`]
//! that the check returns is the only way to the state: handlers read through a [`CallerView`], follow changes through
//! [`CallerEvents`], and propose commands that are checked against it. Objects that a caller may not see are treated as if they did
//! not exist.

mod acl;
mod by_name;
mod capability;
mod changes;
mod denied;
mod events;
mod pattern;
mod policy;
mod rights;
mod variables;
mod view;

use std::sync::Arc;

use berth_model::{
    job::{Job, VOLUME_HOST},
    variable::VariableKey,
};

pub(crate) use acl::{Acls, SECRET_BYTES, SECRET_PREFIX, hash};
#[cfg(test)]
pub(crate) use capability::Capabilities;
pub use capability::Capability;
pub(crate) use denied::Denied;
pub(crate) use events::{CallerBatch, CallerChange, CallerEvents};
pub(crate) use policy::{BadToken, Identity, Policy, open};
pub(crate) use rights::{Realm, Rights};
pub(crate) use view::{AllocParts, CallerView, ListedVariable};

/// What callers may do: what operators say, or everybody everything.
pub(crate) fn policy(acl: bool) -> Arc<dyn Policy> {
    if acl { Arc::<Acls>::default() } else { Arc::new(open()) }
}

/// Where the namespace stands that a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NamespaceFrom {
    /// Nowhere: it is about the cluster.
    Cluster,
    /// In the query, `default` if it is left out; `*` for all in which the caller has the capability.
    Query,
    /// In the body: it is known once that is read.
    Body,
    /// In the object that the path names: it is known once that is found.
    Object,
    /// In each item of the list.
    Items,
}

/// Stands for all namespaces in a query.
pub(crate) const ALL_NAMESPACES: &str = "*";

/// What a checked request may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Access {
    rights: Arc<Rights>,
    /// What it takes to reach the things of a namespace.
    capability: Capability,
    scope: AccessScope,
}

/// Where a request looks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AccessScope {
    /// At the cluster; things of namespaces are come across.
    Cluster,
    /// In one namespace, in which the capability is granted.
    Namespace(Arc<str>),
    /// In one namespace, in which the capability is not granted: only what is not seen by it is there.
    Beside(Arc<str>),
    /// Wherever the capability is granted.
    Granted,
}

impl Access {
    /// Checks a request of a route; `namespace` is that of its query.
    ///
    /// # Errors
    /// When the capability is not granted where the request is about.
    pub fn check(
        rights: Arc<Rights>,
        capability: Capability,
        from: NamespaceFrom,
        namespace: &str,
    ) -> Result<Self, Denied> {
        let (scope, realm) = match from {
            NamespaceFrom::Cluster => (AccessScope::Cluster, Realm::Cluster),
            NamespaceFrom::Query if namespace != ALL_NAMESPACES => {
                (AccessScope::Namespace(namespace.into()), Realm::Namespace(namespace))
            }
            _ => (AccessScope::Granted, Realm::SomeNamespace),
        };
        let requested = realm;
        let realm = match capability {
            _ if capability.is_about_variables() => Realm::SomeVariable,
            _ if capability.is_about_node_pools() => Realm::SomeNodePool,
            _ => realm,
        };
        if matches!(capability, Capability::SearchAny | Capability::ReadEvents) {
            return Self::check_many(rights, capability, (scope, realm));
        }
        if capability != Capability::Anonymous && !rights.grant(capability, realm) {
            // The namespace says more than that a path is missing.
            let denied_realm = if capability.is_about_variables() { requested } else { realm };
            return Err(Denied::new(capability, denied_realm));
        }
        // Whoever looks at the cluster comes across things of namespaces, which are shown to those who may read them.
        let capability = if scope == AccessScope::Cluster { Capability::ReadJob } else { capability };
        Ok(Self { rights, capability, scope })
    }

    /// Checks a request that is about things of many kinds: some are seen by reading jobs, others by other rights.
    fn check_many(
        rights: Arc<Rights>,
        capability: Capability,
        (scope, realm): (AccessScope, Realm<'_>),
    ) -> Result<Self, Denied> {
        let (of_jobs, is_search) = match capability {
            Capability::SearchAny => (Capability::ReadJob, true),
            other => (other, false),
        };
        let sees_jobs = rights.grant(of_jobs, realm);
        let sees_namespaces = is_search && rights.grant(Capability::ListNamespaces, Realm::SomeNamespace);
        if !sees_jobs && !sees_namespaces && !rights.sees_more_than_jobs() {
            return Err(Denied::new(capability, realm));
        }
        let scope = match scope {
            AccessScope::Namespace(name) if !sees_jobs => AccessScope::Beside(name),
            scope => scope,
        };
        Ok(Self { rights, capability: of_jobs, scope })
    }

    /// What the caller may do at all. Callers of equal rights are shown the same.
    pub fn rights(&self) -> &Arc<Rights> {
        &self.rights
    }

    /// Whether the request reaches what is in this namespace.
    pub fn reaches(&self, namespace: &str) -> bool {
        match &self.scope {
            AccessScope::Namespace(own) => **own == *namespace,
            AccessScope::Beside(_) => false,
            AccessScope::Cluster | AccessScope::Granted => {
                self.rights.grant(self.capability, Realm::Namespace(namespace))
            }
        }
    }

    /// Refuses a request that does not reach a namespace, whether that is there or not.
    ///
    /// # Errors
    /// When it does not.
    pub fn require(&self, namespace: &str) -> Result<(), Denied> {
        if self.reaches(namespace) {
            Ok(())
        } else {
            Err(Denied::new(self.capability, Realm::Namespace(namespace)))
        }
    }

    /// Refuses a caller who may not do that, too, in a namespace that the request reaches.
    ///
    /// # Errors
    /// When it may not.
    pub fn require_besides(&self, capability: Capability, namespace: &str) -> Result<(), Denied> {
        let realm = Realm::Namespace(namespace);
        if self.rights.grant(capability, realm) { Ok(()) } else { Err(Denied::new(capability, realm)) }
    }

    /// Whether the request reaches the variable of this key, to do that with it.
    pub fn reaches_variable(&self, key: &VariableKey, capability: Capability) -> bool {
        let (namespace, path) = (&*key.namespace, &*key.path);
        let looks_there = match &self.scope {
            AccessScope::Namespace(own) | AccessScope::Beside(own) => **own == *namespace,
            AccessScope::Cluster | AccessScope::Granted => true,
        };
        looks_there && self.rights.grant(capability, Realm::Variable { namespace, path })
    }

    /// Refuses a request that may not do that with a variable, whether that is there or not.
    ///
    /// # Errors
    /// When it may not.
    pub fn require_variable(&self, key: &VariableKey, capability: Capability) -> Result<(), Denied> {
        let (namespace, path) = (&*key.namespace, &*key.path);
        let denied = || Denied::new(capability, Realm::Variable { namespace, path });
        self.reaches_variable(key, capability).then_some(()).ok_or_else(denied)
    }

    /// Refuses a caller who may not have tasks mount what a job mounts of its nodes.
    ///
    /// # Errors
    /// Names the first volume, and what it takes.
    pub fn require_host_volumes(&self, job: &Job) -> Result<(), Denied> {
        let volumes = job.groups.iter().flat_map(|group| &group.volumes);
        volumes.filter(|volume| volume.kind == VOLUME_HOST).try_for_each(|volume| {
            let takes = if volume.read_only { Capability::MountReadOnly } else { Capability::MountReadWrite };
            let realm = Realm::HostVolume(&volume.source);
            if self.rights.grant(takes, realm) { Ok(()) } else { Err(Denied::new(takes, realm)) }
        })
    }

    /// Whether the caller may read the jobs of a namespace in full, secrets included.
    pub fn reads_jobs_of(&self, namespace: &str) -> bool {
        self.rights.grant(Capability::ReadJob, Realm::Namespace(namespace))
    }

    /// Refuses a caller who may not do that with a node pool, whether that is there or not.
    ///
    /// # Errors
    /// When it may not.
    pub fn require_node_pool(&self, name: &str, capability: Capability) -> Result<(), Denied> {
        let realm = Realm::NodePool(name);
        if self.rights.grant(capability, realm) { Ok(()) } else { Err(Denied::new(capability, realm)) }
    }

    /// Refuses a request that sees no jobs, or what belongs to them, wherever it looks.
    ///
    /// # Errors
    /// When it does not.
    pub fn require_jobs(&self) -> Result<(), Denied> {
        match &self.scope {
            AccessScope::Beside(name) => Err(Denied::new(self.capability, Realm::Namespace(name))),
            AccessScope::Granted if !self.rights.grant(self.capability, Realm::SomeNamespace) => {
                Err(Denied::new(self.capability, Realm::SomeNamespace))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a caller who has no such right about anything.
    ///
    /// # Errors
    /// When it has none.
    pub fn require_any(&self, capability: Capability, realm: Realm<'_>) -> Result<(), Denied> {
        if self.rights.grant(capability, realm) { Ok(()) } else { Err(Denied::new(capability, realm)) }
    }

    fn reads_node_pool(&self, name: &str) -> bool {
        self.rights.grant(Capability::NodePoolRead, Realm::NodePool(name))
    }

    fn has(&self, capability: Capability) -> bool {
        self.rights.grant(capability, Realm::Cluster)
    }

    /// Refuses a caller who has no such right about the cluster.
    fn require_of_cluster(&self, capability: Capability) -> Result<(), Denied> {
        if self.has(capability) { Ok(()) } else { Err(Denied::new(capability, Realm::Cluster)) }
    }

    pub fn sees_nodes(&self) -> bool {
        self.has(Capability::NodeRead) || self.has(Capability::NodeWrite)
    }

    pub fn sees_quotas(&self) -> bool {
        self.has(Capability::QuotaRead) || self.has(Capability::QuotaWrite)
    }

    /// Namespaces are administered by operators.
    fn sees_namespace(&self, name: &str) -> bool {
        self.has(Capability::Management)
            || self.rights.grant(Capability::ListNamespaces, Realm::Namespace(name))
    }

    /// Whether the caller is informed of what is gone, and with it the namespace in which it was.
    fn sees_everywhere(&self) -> bool {
        self.rights.grant(self.capability, Realm::AllNamespaces)
    }
}
