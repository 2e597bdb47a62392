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
    let (mut agent, mut node, mut operator, mut quota) = (None, None, None, None);
    for rules in policies {
        for rule in &rules.namespaces {
            let granted = grant::in_namespace(rule);
            let before = within.entry(&rule.pattern).or_insert_with(|| Some(Capabilities::default()));
            *before = before.zip(granted).map(|(before, granted)| before.and(granted));
            for variables in &rule.variables {
                let granted = grant::on_variables(variables);
                let key = (&*rule.pattern, &*variables.pattern);
                let before = on_variables.entry(key).or_insert_with(|| Some(Capabilities::default()));
                *before = before.zip(granted).map(|(before, granted)| before.and(granted));
            }
        }
        for rule in &rules.host_volumes {
            let granted = grant::on_host_volumes(rule);
            let before =
                on_host_volumes.entry(&rule.pattern).or_insert_with(|| Some(Capabilities::default()));
            *before = before.zip(granted).map(|(before, granted)| before.and(granted));
        }
        let raise = |level: &mut Option<Level>, other: Option<Level>| *level = (*level).max(other);
        raise(&mut agent, rules.agent);
        raise(&mut node, rules.node);
        raise(&mut operator, rules.operator);
        raise(&mut quota, rules.quota);
    }
    let cluster = [
        grant::of_part(agent, Capability::AgentRead, Capability::AgentWrite),
        grant::of_part(node, Capability::NodeRead, Capability::NodeWrite),
        grant::of_part(operator, Capability::OperatorRead, Capability::OperatorWrite),
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
    rights.patterns.sort_by(|(one, _), (other, _)| one.cmp(other));
    rights
}
