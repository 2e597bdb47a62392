//! Compiles the rules of policies to rights.

use std::collections::BTreeMap;

use berth_jobfile::{HostVolumeRule, Level, NamespaceRule, NodePoolRule, PolicyRules, VariableRule};

use super::grant;
use crate::access::{Capability, Rights, capability::Capabilities, pattern::Pattern};

type Granted = Option<Capabilities>;

/// What the rules of one policy grant, none where they deny all: read word by word once, for whatever policies it comes together with.
#[derive(Debug)]
pub(crate) struct PolicyGrants {
    /// By namespace.
    within: Vec<(String, Granted)>,
    /// By namespace and path.
    variables: Vec<(String, String, Granted)>,
    host_volumes: Vec<(String, Granted)>,
    node_pools: Vec<(String, Granted)>,
    operator: Granted,
    agent: Option<Level>,
    node: Option<Level>,
    quota: Option<Level>,
    plugin: Option<Level>,
}

impl From<&PolicyRules> for PolicyGrants {
    fn from(rules: &PolicyRules) -> Self {
        let in_namespace = |rule: &NamespaceRule| (rule.pattern.clone(), grant::in_namespace(rule));
        let variables = rules.namespaces.iter().flat_map(|rule| {
            let on = |of: &VariableRule| (rule.pattern.clone(), of.pattern.clone(), grant::on_variables(of));
            rule.variables.iter().map(on)
        });
        let on_host_volumes = |rule: &HostVolumeRule| (rule.pattern.clone(), grant::on_host_volumes(rule));
        let on_node_pools = |rule: &NodePoolRule| (rule.pattern.clone(), grant::on_node_pools(rule));
        Self {
            within: rules.namespaces.iter().map(in_namespace).collect(),
            variables: variables.collect(),
            host_volumes: rules.host_volumes.iter().map(on_host_volumes).collect(),
            node_pools: rules.node_pools.iter().map(on_node_pools).collect(),
            operator: grant::of_operator(&rules.operator),
            agent: rules.agent,
            node: rules.node,
            quota: rules.quota,
            plugin: rules.plugin,
        }
    }
}

/// What someone may do who has these policies. They add to each other; what one denies, none grants.
pub(crate) fn compile<'p>(policies: impl IntoIterator<Item = &'p PolicyGrants>) -> Rights {
    let mut within: BTreeMap<&str, Granted> = BTreeMap::new();
    let mut on_variables: BTreeMap<(&str, &str), Granted> = BTreeMap::new();
    let mut on_host_volumes: BTreeMap<&str, Granted> = BTreeMap::new();
    let mut on_node_pools: BTreeMap<&str, Granted> = BTreeMap::new();
    let mut operator = Some(Capabilities::default());
    let (mut agent, mut node, mut quota, mut plugin) = (None, None, None, None);
    for policy in policies {
        policy.within.iter().for_each(|(name, granted)| add(&mut within, name.as_str(), *granted));
        for (namespace, path, granted) in &policy.variables {
            add(&mut on_variables, (namespace.as_str(), path.as_str()), *granted);
        }
        policy
            .host_volumes
            .iter()
            .for_each(|(name, granted)| add(&mut on_host_volumes, name.as_str(), *granted));
        policy.node_pools.iter().for_each(|(name, granted)| add(&mut on_node_pools, name.as_str(), *granted));
        operator = both(operator, policy.operator);
        agent = agent.max(policy.agent);
        node = node.max(policy.node);
        quota = quota.max(policy.quota);
        plugin = plugin.max(policy.plugin);
    }
    let cluster = [
        grant::of_part(agent, Capability::AgentRead, Capability::AgentWrite),
        grant::of_part(node, Capability::NodeRead, Capability::NodeWrite),
        operator.unwrap_or_default(),
        grant::of_plugins(plugin),
        grant::of_part(quota, Capability::QuotaRead, Capability::QuotaWrite),
    ];
    let mut rights = Rights {
        cluster: cluster.into_iter().fold(Capabilities::default(), Capabilities::and),
        ..Rights::default()
    };
    for (name, granted) in within {
        let granted = granted.unwrap_or_default();
        if Pattern::is_one(name) {
            rights.patterns.push((Pattern::from(name), granted));
        } else {
            rights.namespaces.insert(name.to_owned(), granted);
        }
    }
    for ((namespace, path), granted) in on_variables {
        rights.variables.add(namespace, path, granted.unwrap_or_default());
    }
    for (name, granted) in on_host_volumes {
        rights.host_volumes.add(name, granted.unwrap_or_default());
    }
    for (name, granted) in on_node_pools {
        rights.node_pools.add(name, granted.unwrap_or_default());
    }
    rights.patterns.sort_by(|(one, _), (other, _)| one.cmp(other));
    rights
}

/// Adds what a rule grants to what others grant for the same; none denies all.
fn add<K: Ord>(rules: &mut BTreeMap<K, Granted>, key: K, granted: Granted) {
    let before = rules.entry(key).or_insert_with(|| Some(Capabilities::default()));
    *before = both(*before, granted);
}

fn both(one: Granted, other: Granted) -> Granted {
    one.zip(other).map(|(one, other)| one.and(other))
}
