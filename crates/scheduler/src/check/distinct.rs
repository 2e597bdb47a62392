//! Whether the constraints between allocations hold: `distinct_hosts` and `distinct_property`.

use std::collections::HashMap;

use berth_model::{
    constraint::{Constraint, Operator},
    store::NodeSlot,
};

use super::{CheckedPlan, PlanFaults};
use crate::property::{Property, resolve};

/// Only what the plan adds can be at fault: what was there before may be of an older version.
pub(super) fn check(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    for constraint in &checked.job.constraints {
        check_one(checked, constraint, None, faults);
    }
    for (position, group) in (0_u16..).zip(&checked.job.groups) {
        let of_tasks = group.tasks.iter().flat_map(|task| &task.constraints);
        for constraint in group.constraints.iter().chain(of_tasks) {
            check_one(checked, constraint, Some(position), faults);
        }
    }
}

fn check_one(
    checked: &CheckedPlan<'_>,
    constraint: &Constraint,
    group: Option<u16>,
    faults: &mut PlanFaults,
) {
    let most = match constraint.operator {
        Operator::DistinctHosts if constraint.right != "false" => 1,
        Operator::DistinctProperty => constraint.right.parse().unwrap_or(1),
        _ => return,
    };
    let counts = |of: u16| group.is_none_or(|group| group == of);
    let value = |node: NodeSlot| {
        let detail = checked.store.nodes().detail(node)?;
        match constraint.operator {
            Operator::DistinctHosts => Some(node.0.to_string()),
            _ => resolve(&Property::parse(&constraint.left), &detail.node).map(|value| value.into_owned()),
        }
    };
    let mut used: HashMap<String, u32> = HashMap::new();
    for (node, of, _) in checked.staying() {
        if let Some(value) = value(node).filter(|_| counts(of)) {
            *used.entry(value).or_default() += 1;
        }
    }
    // What goes on as an older version keeps to what that one says.
    let newest = checked.plan.placements.iter().filter(|placement| placement.job_version.is_none());
    for placement in newest.filter(|placement| counts(placement.group)) {
        let Some(value) = checked.node(placement.node).and_then(value) else {
            faults.add(format!("node {} has no value for {constraint}", placement.node));
            continue;
        };
        let used = used.entry(value).or_default();
        *used += 1;
        if *used > most {
            faults.add(format!(
                "allocation {} is on node {} against {constraint}",
                placement.id, placement.node
            ));
        }
    }
}
