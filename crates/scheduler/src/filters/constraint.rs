//! A constraint on what a node is.

use berth_model::{
    constraint::{Constraint, Operator},
    node::Node,
};

use super::{Filter, FilterRefusal, FilterRule, condition::Condition, constraints_of};
use crate::failures::cut;

pub(super) const RULE: FilterRule = FilterRule {
    name: "constraint",
    passes: "nodes that meet the constraints of the job, the group and its tasks",
    is_for_running: true,
    add: |job, group, checks| {
        let of_nodes = constraints_of(job, group).filter(|constraint| !is_distinct(constraint));
        of_nodes.for_each(|constraint| checks.push(Box::new(ConstraintFilter::new(constraint))));
    },
};

/// Whether it compares a group's allocations with each other: placement checks that itself, as it depends on more than
/// the node.
fn is_distinct(constraint: &Constraint) -> bool {
    matches!(constraint.operator, Operator::DistinctHosts | Operator::DistinctProperty)
}

#[derive(Debug)]
pub(super) struct ConstraintFilter {
    condition: Condition,
    reason: String,
}

impl ConstraintFilter {
    pub fn new(constraint: &Constraint) -> Self {
        let condition = Condition::new(&constraint.left, constraint.operator, &constraint.right);
        Self { condition, reason: cut(&constraint.to_string()) }
    }
}

impl Filter for ConstraintFilter {
    fn check(&self, node: &Node) -> Result<(), FilterRefusal> {
        if self.condition.holds(node) { Ok(()) } else { Err(FilterRefusal::Filtered(self.reason.clone())) }
    }

    fn is_unique(&self) -> bool {
        self.condition.is_unique()
    }

    fn remedy(&self, _: &Node, reason: &str) -> String {
        format!("drop the constraint {reason}")
    }
}
