//! Conditions on nodes, with the short forms of HCL.

use berth_model::constraint::{Constraint, Operator};

use super::comparison::{WITH_VALUE, check, named_operator, short_form};
use crate::schema::Body;

/// Short forms that are only true.
const FLAGS: &[&str] = &["is_set", "is_not_set", "distinct_hosts"];

pub(super) fn constraints(body: &Body<'_>) -> Vec<Constraint> {
    body.blocks("constraint").iter().filter_map(constraint).collect()
}

/// None for a condition that is switched off, as `distinct_hosts = false`.
fn constraint(body: &Body<'_>) -> Option<Constraint> {
    let attribute = body.text("attribute").unwrap_or_default();
    let value = body.text("value").unwrap_or_default();
    let forms = WITH_VALUE.iter().chain(FLAGS).chain(&["distinct_property"]).copied();
    let constraint = match short_form(body, forms) {
        Some((flag, _)) if FLAGS.contains(&flag) => {
            let on = body.flag(flag).unwrap_or(true);
            Constraint { left: attribute, operator: Operator::parse(flag)?, right: on.to_string() }
        }
        Some((form @ "distinct_property", property)) => {
            Constraint { left: property, operator: Operator::parse(form)?, right: value }
        }
        Some((form, right)) => Constraint { left: attribute, operator: Operator::parse(form)?, right },
        None => Constraint { left: attribute, operator: named_operator(body)?, right: value },
    };
    check(body, &constraint.left, constraint.operator, &constraint.right);
    switched(constraint)
}

/// Flags in their one spelling: without a right side, or not there at all.
fn switched(constraint: Constraint) -> Option<Constraint> {
    let Constraint { left, operator, right } = constraint;
    Some(match operator {
        Operator::DistinctHosts | Operator::IsSet | Operator::IsNotSet if right == "false" => return None,
        Operator::DistinctHosts => Constraint { left: String::new(), operator, right: String::new() },
        Operator::IsSet | Operator::IsNotSet => Constraint { left, operator, right: String::new() },
        _ => Constraint { left, operator, right },
    })
}
