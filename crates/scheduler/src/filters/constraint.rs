//! A constraint on what a node is.

use berth_model::{
    constraint::{Constraint, Operator},
    node::Node,
};
use regex::Regex;

use super::{Filter, Refused, compare::satisfies};
use crate::property::{Property, resolve};

#[derive(Debug)]
pub(super) struct ConstraintFilter {
    left: Property,
    operator: Operator,
    right: Property,
    /// A literal pattern, compiled once.
    pattern: Option<Regex>,
    reason: String,
}

impl ConstraintFilter {
    pub fn new(constraint: &Constraint) -> Self {
        let right = Property::parse(&constraint.right);
        let pattern = match &right {
            Property::Literal(text) if constraint.operator == Operator::Regexp => Regex::new(text).ok(),
            _ => None,
        };
        Self {
            left: Property::parse(&constraint.left),
            operator: constraint.operator,
            right,
            pattern,
            reason: constraint.to_string(),
        }
    }
}

impl Filter for ConstraintFilter {
    fn check(&self, node: &Node) -> Result<(), Refused> {
        let (left, right) = (resolve(&self.left, node), resolve(&self.right, node));
        let met = match (&self.pattern, &left) {
            (Some(pattern), Some(left)) => pattern.is_match(left),
            _ => satisfies(left.as_deref(), self.operator, right.as_deref()),
        };
        if met { Ok(()) } else { Err(Refused::Filtered(self.reason.clone())) }
    }

    fn is_unique(&self) -> bool {
        self.left.is_unique() || self.right.is_unique()
    }
}
