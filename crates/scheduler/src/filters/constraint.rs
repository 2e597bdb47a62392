//! A constraint on what a node is.

use berth_model::{constraint::Constraint, node::Node};

use super::{Filter, Refused, condition::Condition};
use crate::failures::cut;

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
    fn check(&self, node: &Node) -> Result<(), Refused> {
        if self.condition.holds(node) { Ok(()) } else { Err(Refused::Filtered(self.reason.clone())) }
    }

    fn is_unique(&self) -> bool {
        self.condition.is_unique()
    }

    fn remedy(&self, _: &Node, reason: &str) -> String {
        format!("drop the constraint {reason}")
    }
}
