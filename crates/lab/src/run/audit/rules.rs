//! Checks that each allocation is on a node that its job allows.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::{
    api::{AuditedAlloc, AuditedGroup, AuditedJob, AuditedNode, Constraint},
    findings::Findings,
};

/// A pool of all nodes.
const POOL_ALL: &str = "all";

/// Checks what of a job is where it wants it; `nodes` are those that any of it is on. Operands that are not judged here are noted
/// by name.
pub(super) fn check(
    job: &AuditedJob,
    allocs: &[&AuditedAlloc],
    nodes: &BTreeMap<&str, &AuditedNode>,
    findings: &mut Findings,
    not_judged: &mut BTreeSet<String>,
) {
    let groups = job.task_groups.iter().flatten();
    let placed: Vec<Placement<'_>> = groups
        .flat_map(|group| {
            allocs.iter().filter(|alloc| alloc.task_group == group.name).map(move |alloc| (group, alloc))
        })
        .filter_map(|(group, alloc)| Some(Placement { alloc, group, node: nodes.get(&*alloc.node_id)? }))
        .collect();
    for one in &placed {
        whereabouts(job, one, findings);
        for constraint in one.constraints(job) {
            match holds(constraint, one.node) {
                Some(true) => {}
                Some(false) => findings.add(format!(
                    "{} is on node {}, and its job asks for `{} {} {}`",
                    one.alloc.id, one.node.name, constraint.left, constraint.operand, constraint.right
                )),
                None => {
                    not_judged.insert(constraint.operand.clone());
                }
            }
        }
    }
    let of_job = job.constraints.iter().flatten();
    of_job.for_each(|constraint| distinct(constraint, &placed, findings));
    for group in job.task_groups.iter().flatten() {
        let of_group: Vec<_> = placed.iter().filter(|one| one.group.name == group.name).copied().collect();
        group.constraints.iter().flatten().for_each(|constraint| distinct(constraint, &of_group, findings));
    }
}

#[derive(Debug, Clone, Copy)]
struct Placement<'a> {
    alloc: &'a AuditedAlloc,
    group: &'a AuditedGroup,
    node: &'a AuditedNode,
}

impl<'a> Placement<'a> {
    fn constraints(&self, job: &'a AuditedJob) -> impl Iterator<Item = &'a Constraint> {
        let of_tasks = self.group.tasks.iter().flatten().flat_map(|task| task.constraints.iter().flatten());
        job.constraints.iter().flatten().chain(self.group.constraints.iter().flatten()).chain(of_tasks)
    }
}

fn whereabouts(job: &AuditedJob, one: &Placement<'_>, findings: &mut Findings) {
    let Placement { alloc, group, node } = one;
    let datacenters = job.datacenters.as_deref().unwrap_or_default();
    if !datacenters.is_empty() && !datacenters.iter().any(|pattern| is_like(pattern, &node.datacenter)) {
        findings.add(format!(
            "{} is in datacenter {}, and its job asks for {datacenters:?}",
            alloc.id, node.datacenter
        ));
    }
    if ![POOL_ALL, ""].contains(&&*job.node_pool) && job.node_pool != node.node_pool {
        findings.add(format!(
            "{} is in node pool {}, and its job asks for {}",
            alloc.id, node.node_pool, job.node_pool
        ));
    }
    for task in group.tasks.iter().flatten() {
        let driver = node.drivers.as_ref().and_then(|drivers| drivers.get(&task.driver));
        if !driver.is_some_and(|driver| driver.detected) {
            findings
                .add(format!("{} needs driver {}, which node {} has not", alloc.id, task.driver, node.name));
        }
    }
}

/// Whether a name is like a pattern in which `*` stands for anything.
fn is_like(pattern: &str, name: &str) -> bool {
    let parts: Vec<String> = pattern.split('*').map(regex::escape).collect();
    Regex::new(&format!("^{}$", parts.join(".*"))).is_ok_and(|pattern| pattern.is_match(name))
}

/// Whether a node satisfies a constraint; none where that is not judged here, or is not about one node alone.
fn holds(constraint: &Constraint, node: &AuditedNode) -> Option<bool> {
    let Constraint { left, operand, right } = constraint;
    let (is, required) = (value(left, node), value(right, node));
    Some(match &**operand {
        "distinct_hosts" | "distinct_property" => true,
        "is_set" => is.is_some(),
        "is_not_set" => is.is_none(),
        "=" | "==" | "is" => is.is_some() && is == required,
        "!=" | "not" => is != required,
        "<" | "<=" | ">" | ">=" => {
            is.zip(required).is_some_and(|(is, required)| is_ordered(&is, operand, &required))
        }
        "regexp" => is.zip(Regex::new(right).ok()).is_some_and(|(is, required)| required.is_match(&is)),
        "set_contains" | "set_contains_all" => {
            is.zip(required).is_some_and(|(is, required)| members(&required).is_subset(&members(&is)))
        }
        "set_contains_any" => {
            is.zip(required).is_some_and(|(is, required)| !members(&required).is_disjoint(&members(&is)))
        }
        _ => return None,
    })
}

fn members(list: &str) -> BTreeSet<&str> {
    list.split(',').map(str::trim).collect()
}

/// As numbers where both are, else as text.
fn is_ordered(is: &str, operand: &str, required: &str) -> bool {
    let numbers = is.parse::<f64>().ok().zip(required.parse::<f64>().ok());
    let ordering = numbers.map_or_else(|| Some(is.cmp(required)), |(is, required)| is.partial_cmp(&required));
    ordering.is_some_and(|ordering| match operand {
        "<" => ordering.is_lt(),
        "<=" => ordering.is_le(),
        ">" => ordering.is_gt(),
        _ => ordering.is_ge(),
    })
}

/// What a side of a constraint stands for on a node; none for what the node has not.
fn value(side: &str, node: &AuditedNode) -> Option<String> {
    let Some(name) = side.strip_prefix("${").and_then(|side| side.strip_suffix('}')) else {
        return Some(side.to_owned());
    };
    let of_node = match name.split_once('.')? {
        ("attr", name) => node.attributes.as_ref()?.get(name)?,
        ("meta", name) => node.meta.as_ref()?.get(name)?,
        ("node", "unique.id") => &node.id,
        ("node", "unique.name") => &node.name,
        ("node", "datacenter") => &node.datacenter,
        ("node", "class") => &node.node_class,
        ("node", "pool") => &node.node_pool,
        _ => return None,
    };
    Some(of_node.clone())
}

/// Constraints on all allocations of a group together.
fn distinct(constraint: &Constraint, placed: &[Placement<'_>], findings: &mut Findings) {
    let (by, most) = match &*constraint.operand {
        "distinct_hosts" if constraint.right != "false" => ("${node.unique.id}", 1),
        "distinct_property" => (&*constraint.left, constraint.right.parse().unwrap_or(1)),
        _ => return,
    };
    let mut together: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for one in placed {
        if let Some(value) = value(by, one.node) {
            together.entry(value).or_default().push(&one.alloc.id);
        }
    }
    for (value, allocs) in together.iter().filter(|(_, allocs)| allocs.len() > most) {
        findings.add(format!(
            "{} allocations, as {} and {}, are on `{value}`, and their job asks for {} ({most} at most)",
            allocs.len(),
            allocs[0],
            allocs[1],
            constraint.operand
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> AuditedNode {
        let text = |pairs: &[(&str, &str)]| {
            Some(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        AuditedNode {
            id: "n".to_owned(),
            datacenter: "dc1".to_owned(),
            attributes: text(&[("kernel.name", "linux"), ("cpu.numcores", "16"), ("disks", "ssd, nvme")]),
            meta: text(&[("rack", "r1")]),
            ..AuditedNode::default()
        }
    }

    #[test]
    fn each_operand_is_judged_as_it_is_documented() {
        for (left, operand, right, expected) in [
            ("${attr.kernel.name}", "=", "linux", Some(true)),
            ("${attr.kernel.name}", "!=", "linux", Some(false)),
            ("${attr.none}", "!=", "linux", Some(true)),
            ("${attr.none}", "=", "", Some(false)),
            ("${meta.rack}", "is", "r1", Some(true)),
            ("${meta.rack}", "is_not_set", "", Some(false)),
            ("${attr.cpu.numcores}", ">=", "9", Some(true)),
            ("${attr.cpu.numcores}", "<", "9", Some(false)),
            ("${attr.none}", "<", "9", Some(false)),
            ("${attr.kernel.name}", "regexp", "^li", Some(true)),
            ("${attr.disks}", "set_contains", "nvme,ssd", Some(true)),
            ("${attr.disks}", "set_contains_any", "hdd,ssd", Some(true)),
            ("${attr.disks}", "set_contains_all", "hdd,ssd", Some(false)),
            ("${attr.kernel.version}", "version", "> 5", None),
        ] {
            let constraint =
                Constraint { left: left.to_owned(), operand: operand.to_owned(), right: right.to_owned() };
            assert_eq!(holds(&constraint, &node()), expected, "{constraint:?}");
        }
    }

    #[test]
    fn a_star_stands_for_anything_and_a_dot_for_itself() {
        assert!(is_like("dc*", "dc1") && is_like("*", "") && is_like("eu.1", "eu.1"));
        assert!(!is_like("dc", "dc1") && !is_like("eu.1", "eux1"));
    }

    #[test]
    fn what_is_where_it_may_not_be_is_named() {
        let job: AuditedJob = serde_json::from_value(serde_json::json!({
            "Datacenters": ["dc2"], "NodePool": "gpu", "Constraints": [{"Operand": "distinct_hosts"}],
            "TaskGroups": [{"Name": "g", "Constraints": [{"LTarget": "${meta.rack}", "Operand": "=", "RTarget": "r2"}],
                "Tasks": [{"Driver": "docker"}]}],
        }))
        .expect("a job");
        let alloc = |id: &str| AuditedAlloc {
            id: id.to_owned(),
            node_id: "n".to_owned(),
            task_group: "g".to_owned(),
            ..AuditedAlloc::default()
        };
        let (node, allocs) = (AuditedNode { name: "n1".to_owned(), ..node() }, [alloc("a"), alloc("b")]);
        let (mut findings, mut not_judged) = (Findings::default(), BTreeSet::new());
        let nodes = BTreeMap::from([("n", &node)]);
        check(&job, &allocs.iter().collect::<Vec<_>>(), &nodes, &mut findings, &mut not_judged);
        let found = findings.lines();
        assert_eq!(
            found[..4],
            [
                "a is in datacenter dc1, and its job asks for [\"dc2\"]",
                "a is in node pool , and its job asks for gpu",
                "a needs driver docker, which node n1 has not",
                "a is on node n1, and its job asks for `${meta.rack} = r2`",
            ]
        );
        let both = "2 allocations, as a and b, are on `n`, and their job asks for distinct_hosts (1 at most)";
        assert_eq!((found.len(), found.last().map(String::as_str)), (9, Some(both)));
        assert_eq!(not_judged, BTreeSet::new());
    }
}
