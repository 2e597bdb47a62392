//! From the rules of policies to rights.

use std::collections::BTreeMap;

use berth_jobfile::{Level, PolicyRules};

use super::grant;
use crate::access::{Capability, Rights, capability::Capabilities, pattern::Pattern};

/// What someone may do who has these policies. They add to each other; what one denies, none grants.
pub(crate) fn compile<'p>(policies: impl IntoIterator<Item = &'p PolicyRules>) -> Rights {
    let mut within: BTreeMap<&str, Option<Capabilities>> = BTreeMap::new();
    let mut on_variables: BTreeMap<(&str, &str), Option<Capabilities>> = BTreeMap::new();
    let mut on_host_volumes: BTreeMap<&str, Option<Capabilities>> = BTreeMap::new();
    let mut on_node_pools: BTreeMap<&str, Option<Capabilities>> = BTreeMap::new();
    let mut operator = Some(Capabilities::default());
    let (mut agent, mut node, mut quota, mut plugin) = (None, None, None, None);
    for rules in policies {
        for rule in &rules.namespaces {
            let granted = grant::in_namespace(rule);
            add(&mut within, &rule.pattern, granted);
            for variables in &rule.variables {
                let granted = grant::on_variables(variables);
                add(&mut on_variables, (&*rule.pattern, &*variables.pattern), granted);
            }
        }
        for rule in &rules.host_volumes {
            add(&mut on_host_volumes, &rule.pattern, grant::on_host_volumes(rule));
        }
        for rule in &rules.node_pools {
            add(&mut on_node_pools, &rule.pattern, grant::on_node_pools(rule));
        }
        operator = both(operator, grant::of_operator(&rules.operator));
        let raise = |level: &mut Option<Level>, other: Option<Level>| *level = (*level).max(other);
        raise(&mut agent, rules.agent);
        raise(&mut node, rules.node);
        raise(&mut quota, rules.quota);
        raise(&mut plugin, rules.plugin);
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
fn add<K: Ord>(rules: &mut BTreeMap<K, Option<Capabilities>>, key: K, granted: Option<Capabilities>) {
    let before = rules.entry(key).or_insert_with(|| Some(Capabilities::default()));
    *before = both(*before, granted);
}

fn both(one: Option<Capabilities>, other: Option<Capabilities>) -> Option<Capabilities> {
    one.zip(other).map(|(one, other)| one.and(other))
}
