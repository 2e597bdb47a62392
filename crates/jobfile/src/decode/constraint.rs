//! Conditions on nodes, with the short forms of HCL: `version = ">= 2"` for an operator and a value.

use berth_model::constraint::{Constraint, Operator};

use super::version;
use crate::{diagnostic::quoted, schema::Body, suggest::nearest};

/// Short forms whose value is the right side.
const WITH_VALUE: &[&str] =
    &["version", "semver", "regexp", "set_contains", "set_contains_all", "set_contains_any"];
/// Short forms that are only true.
const FLAGS: &[&str] = &["is_set", "is_not_set", "distinct_hosts"];

pub(super) fn constraints(blocks: &[Body<'_>]) -> Vec<Constraint> {
    blocks.iter().filter_map(constraint).collect()
}

/// None for a condition that is switched off, as `distinct_hosts = false`.
fn constraint(body: &Body<'_>) -> Option<Constraint> {
    let attribute = body.text("attribute").unwrap_or_default();
    let value = body.text("value").unwrap_or_default();
    let constraint = match short_form(body) {
        Some((flag, _)) if FLAGS.contains(&flag) => {
            let on = body.flag(flag).unwrap_or(true);
            Constraint { left: attribute, operator: operator(flag)?, right: on.to_string() }
        }
        Some((form @ "distinct_property", property)) => {
            Constraint { left: property, operator: operator(form)?, right: value }
        }
        Some((form, right)) => Constraint { left: attribute, operator: operator(form)?, right },
        None => Constraint { left: attribute, operator: named_operator(body)?, right: value },
    };
    check(body, &constraint);
    switched(constraint)
}

fn operator(word: &str) -> Option<Operator> {
    Operator::parse(word)
}

/// The short form that is used, with its value.
fn short_form(body: &Body<'_>) -> Option<(&'static str, String)> {
    let forms = WITH_VALUE.iter().chain(FLAGS).chain(&["distinct_property"]);
    let mut given = forms.filter_map(|form| Some((*form, body.text(form)?)));
    let first = given.next()?;
    if let Some((second, _)) = given.next() {
        body.report.error(body.at(second), format!("constraint has both `{}` and `{second}`", first.0));
    } else if body.has("operator") {
        body.report.error(body.at("operator"), format!("constraint has both `{}` and an operator", first.0));
    }
    Some(first)
}

fn named_operator(body: &Body<'_>) -> Option<Operator> {
    let Some(word) = body.filled_text("operator") else { return Some(Operator::Equal) };
    let operator = Operator::parse(&word);
    if operator.is_none() {
        let known = || Operator::SPELLINGS.iter().flat_map(|(_, words)| words.iter().copied());
        let help = nearest(&word, known()).map_or_else(
            || format!("known are {}", known().collect::<Vec<_>>().join(" ")),
            |word| format!("did you mean `{word}`?"),
        );
        let message = format!("{} is not an operator", quoted(&word));
        body.report.error_with_help(body.at("operator"), message, help);
    }
    operator
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

fn check(body: &Body<'_>, Constraint { left, operator, right }: &Constraint) {
    let report = |message: String| body.report.error(body.at_self(), message);
    if left.is_empty() && *operator != Operator::DistinctHosts {
        report("constraint has no attribute".to_owned());
    }
    let needs_value = !matches!(
        operator,
        Operator::IsSet | Operator::IsNotSet | Operator::DistinctHosts | Operator::DistinctProperty
    );
    if right.is_empty() && needs_value {
        return report(format!("constraint `{operator}` has no value"));
    }
    // Only the node knows what this will be.
    if right.contains("${") {
        return;
    }
    if let Some(wrong) = wrong_value(*operator, right) {
        report(format!("{} is not {wrong}", quoted(right)));
    }
}

/// What the right side should be and is not.
fn wrong_value(operator: Operator, right: &str) -> Option<String> {
    match operator {
        Operator::Regexp => {
            let fault = regex_syntax::ast::parse::Parser::new().parse(right).err()?;
            Some(format!("a regular expression: {}", fault.kind()))
        }
        Operator::Version if !version::is_range(right) => {
            Some("a version range, as `>= 1.2, < 2`".to_owned())
        }
        Operator::Semver if !version::is_semver_range(right) => {
            Some("a range of semantic versions, as `>= 1.2.0, < 2.0.0`".to_owned())
        }
        Operator::DistinctProperty if !right.is_empty() && !right.parse().is_ok_and(|n: u32| n > 0) => {
            Some("a number of allocations, 1 or more".to_owned())
        }
        _ => None,
    }
}
