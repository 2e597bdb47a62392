//! A comparison of what a node has with what is required, prepared once for many nodes.

use berth_model::{constraint::Operator, node::Node};
use regex::Regex;

use super::compare::satisfies;
use crate::property::{Property, resolve};

/// `LEFT OPERATOR RIGHT` on a node; the condition of constraints and affinities.
#[derive(Debug)]
pub struct Condition {
    left: Property,
    operator: Operator,
    right: Property,
    /// A literal pattern, compiled once.
    pattern: Option<Regex>,
}

impl Condition {
    /// Parses both sides.
    pub fn new(left: &str, operator: Operator, right: &str) -> Self {
        let right = Property::parse(right);
        let pattern = match &right {
            Property::Literal(text) if operator == Operator::Regexp => Regex::new(text).ok(),
            _ => None,
        };
        Self { left: Property::parse(left), operator, right, pattern }
    }

    /// Whether it holds on a node.
    pub fn holds(&self, node: &Node) -> bool {
        let (left, right) = (resolve(&self.left, node), resolve(&self.right, node));
        match (&self.pattern, &left) {
            (Some(pattern), Some(left)) => pattern.is_match(left),
            _ => satisfies(left.as_deref(), self.operator, right.as_deref()),
        }
    }

    /// Whether nodes of one class can differ in it.
    pub fn is_unique(&self) -> bool {
        self.left.is_unique() || self.right.is_unique()
    }
}
