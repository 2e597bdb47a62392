//! Why something could not be placed: how many nodes each step of filtering left.

use std::collections::BTreeMap;

use berth_api::http::PlacementMetric;

use super::text::{clean, count};

/// The funnel of each group, a paragraph each.
pub fn funnels(failures: &BTreeMap<String, PlacementMetric>) -> String {
    failures.iter().map(|(group, metric)| funnel(group, metric)).collect::<Vec<_>>().join("\n")
}

/// The same of a group that wants one allocation on each node that can run it, and that no node can run.
pub fn no_node(group: &str, metric: &PlacementMetric) -> String {
    steps(format!("group {}: no node can run it", clean(group)), metric)
}

fn funnel(group: &str, metric: &PlacementMetric) -> String {
    let unplaced = metric.coalesced_failures as usize + 1;
    steps(format!("group {}: {} cannot be placed", clean(group), count(unplaced, "allocation")), metric)
}

fn steps(first: String, metric: &PlacementMetric) -> String {
    let mut lines = vec![first];
    let limits = metric.quota_exhausted.iter().flatten();
    lines.extend(limits.map(|limit| format!("  quota limit hit: {}", clean(limit))));
    // No node is looked at for what a quota does not allow.
    if lines.len() == 1 || metric.nodes_considered > 0 {
        lines.push(format!("  {} ready and eligible", nodes(metric.nodes_considered)));
    }
    if metric.nodes_considered > 0 {
        lines.push(format!("  {} in the job's node pool and datacenters", nodes(metric.nodes_evaluated)));
    }
    if metric.nodes_filtered > 0 {
        lines.push(format!("  {} excluded by filters", nodes(metric.nodes_filtered)));
        lines.extend(reasons(metric.constraint_filtered.as_ref()));
    }
    if metric.nodes_exhausted > 0 {
        lines.push(format!("  {} without enough free resources", nodes(metric.nodes_exhausted)));
        lines.extend(reasons(metric.dimension_exhausted.as_ref()));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn nodes(number: u32) -> String {
    if number == 0 {
        "no node is".into()
    } else {
        format!("{} {}", count(number as usize, "node"), is(number))
    }
}

fn is(number: u32) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

/// The most frequent reason first.
fn reasons(by_reason: Option<&BTreeMap<String, u32>>) -> Vec<String> {
    let mut reasons: Vec<_> = by_reason.into_iter().flatten().collect();
    reasons.sort_by_key(|(_, nodes)| std::cmp::Reverse(**nodes));
    let width = reasons.first().map_or(0, |(_, nodes)| nodes.to_string().len());
    reasons.iter().map(|(reason, nodes)| format!("    {nodes:>width$}  {}", clean(reason))).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(metric: PlacementMetric, expected: &Expect) {
        expected.assert_eq(&funnels(&BTreeMap::from([("web".to_owned(), metric)])));
    }

    fn by_reason(reasons: &[(&str, u32)]) -> Option<BTreeMap<String, u32>> {
        Some(reasons.iter().map(|(reason, nodes)| ((*reason).to_owned(), *nodes)).collect())
    }

    #[test]
    fn without_a_node_there_is_nothing_more_to_say() {
        check(
            PlacementMetric::default(),
            &expect![[r#"
            group web: 1 allocation cannot be placed
              no node is ready and eligible
        "#]],
        );
    }

    #[test]
    fn each_step_says_how_many_nodes_are_left() {
        let metric = PlacementMetric {
            nodes_considered: 40,
            nodes_evaluated: 12,
            nodes_filtered: 11,
            constraint_filtered: by_reason(&[
                ("missing driver `exec`", 1),
                ("${attr.kernel.name} = linux", 10),
            ]),
            nodes_exhausted: 1,
            dimension_exhausted: by_reason(&[("memory", 1)]),
            coalesced_failures: 2,
            ..PlacementMetric::default()
        };
        check(
            metric,
            &expect![[r#"
            group web: 3 allocations cannot be placed
              40 nodes are ready and eligible
              12 nodes are in the job's node pool and datacenters
              11 nodes are excluded by filters
                10  ${attr.kernel.name} = linux
                 1  missing driver `exec`
              1 node is without enough free resources
                1  memory
        "#]],
        );
    }
}
