//! The rights of a caller: a value that can be compared, so that responses are shared only among callers with equal rights.

use std::collections::BTreeMap;

use berth_model::JobKey;

use super::{
    by_name::RightsByName,
    capability::{Capabilities, Capability},
    pattern::Pattern,
    variables::VariableRights,
};
use crate::workload::TaskName;

/// The scope of a capability check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Realm<'r> {
    /// The cluster as a whole.
    Cluster,
    /// One namespace.
    Namespace(&'r str),
    /// One variable.
    Variable {
        /// Its namespace.
        namespace: &'r str,
        /// Its path.
        path: &'r str,
    },
    /// The host volumes of a name, on whichever nodes.
    HostVolume(&'r str),
    /// One node pool.
    NodePool(&'r str),
    /// Any node pool at all.
    SomeNodePool,
    /// Any variable at all, in whatever namespace.
    SomeVariable,
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
    /// In the namespaces of exactly these names: no pattern adds to that.
    pub namespaces: BTreeMap<String, Capabilities>,
    /// In other namespaces: the first that fits says all.
    pub patterns: Vec<(Pattern, Capabilities)>,
    /// Rights over variables.
    pub variables: VariableRights,
    /// With the volumes of nodes, by their names.
    pub host_volumes: RightsByName,
    /// With node pools, by their names.
    pub node_pools: RightsByName,
}

impl Rights {
    /// All rights, as of a management token.
    pub fn all() -> Self {
        let mut by_any_name = RightsByName::default();
        by_any_name.add("*", Capabilities::ALL);
        Self {
            cluster: Capabilities::ALL,
            namespaces: BTreeMap::new(),
            patterns: vec![(Pattern::from("*"), Capabilities::ALL)],
            variables: VariableRights::all(),
            host_volumes: by_any_name.clone(),
            node_pools: by_any_name,
        }
    }

    /// Adds what a task may do by who it is: list and read the variables of its job, its group and itself, and those that are for
    /// all jobs of its namespace. A rule about exactly one of these paths says all of it.
    pub fn grant_own(&mut self, task: &TaskName) {
        let TaskName { job: JobKey { namespace, id }, group, task } = task;
        let granted = [Capability::VariablesList, Capability::VariablesRead].into();
        let mut path = "nomad/jobs".to_owned();
        self.variables.grant_own(namespace, &path, granted);
        for name in [&**id, group, task] {
            path = format!("{path}/{name}");
            self.variables.grant_own(namespace, &path, granted);
        }
    }

    /// Whether a capability is granted.
    pub fn grant(&self, capability: Capability, realm: Realm<'_>) -> bool {
        match realm {
            Realm::Cluster => self.cluster.has(capability),
            Realm::AllNamespaces => {
                self.patterns.iter().any(|(pattern, _)| pattern.fits_all())
                    && self.stated().all(|granted| granted.has(capability))
            }
            Realm::Namespace(name) => self.within(name).has(capability),
            Realm::Variable { namespace, path } => self.variables.with(namespace, path).has(capability),
            Realm::HostVolume(name) => self.host_volumes.with(name).has(capability),
            Realm::NodePool(name) => self.node_pools.with(name).has(capability),
            Realm::SomeNodePool => self.node_pools.any(capability),
            Realm::SomeVariable => self.variables.any(capability),
            Realm::SomeNamespace => self.stated().any(|granted| granted.has(capability)),
        }
    }

    /// Whether the caller sees something that is in no namespace, or is not seen by reading jobs: that can be searched and followed.
    pub fn sees_more_than_jobs(&self) -> bool {
        use Capability::*;
        let of_cluster = [NodeRead, NodeWrite, QuotaRead, QuotaWrite];
        of_cluster.into_iter().any(|one| self.grant(one, Realm::Cluster))
            || self.grant(NodePoolRead, Realm::SomeNodePool)
            || self.grant(VariablesList, Realm::SomeVariable)
    }

    /// What may be done in a namespace.
    fn within(&self, name: &str) -> Capabilities {
        let fits = || self.patterns.iter().find(|(pattern, _)| pattern.fits(name));
        let granted = self.namespaces.get(name).copied();
        granted.or_else(|| fits().map(|(_, granted)| *granted)).unwrap_or_default()
    }

    fn stated(&self) -> impl Iterator<Item = Capabilities> {
        self.namespaces.values().copied().chain(self.patterns.iter().map(|(_, granted)| *granted))
    }
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
        assert!(!rights.grant(Capability::RegisterJob, Realm::SomeNamespace));
    }

    #[test]
    fn an_exact_name_goes_before_patterns_and_is_not_added_to() {
        let (read, all) = (Capabilities::from([Capability::ReadJob]), Capabilities::ALL);
        let patterns = vec![(Pattern::from("*"), all)];
        let rights = Rights { namespaces: [("web".to_owned(), read)].into(), patterns, ..Rights::default() };
        assert!(rights.grant(Capability::RegisterJob, Realm::Namespace("other")));
        assert!(!rights.grant(Capability::RegisterJob, Realm::Namespace("web")));
        assert!(!rights.grant(Capability::RegisterJob, Realm::AllNamespaces), "not in web");
        assert!(rights.grant(Capability::ReadJob, Realm::AllNamespaces));
    }

    #[test]
    fn no_rights_are_none() {
        for realm in [Realm::Cluster, Realm::Namespace("default"), Realm::AllNamespaces, Realm::SomeNamespace]
        {
            assert!(!Rights::default().grant(Capability::ReadJob, realm));
            assert!(Rights::all().grant(Capability::ReadJob, realm));
        }
    }
}
