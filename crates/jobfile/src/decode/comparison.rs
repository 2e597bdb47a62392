//! The two sides of a comparison, as constraints and affinities have them.

use berth_model::constraint::Operator;

use super::version;
use crate::{diagnostic::quoted, schema::Body, suggest::nearest};

/// Short forms whose value is the right side: `version = ">= 2"` for an operator and a value.
pub(super) const WITH_VALUE: &[&str] =
    &["version", "semver", "regexp", "set_contains", "set_contains_all", "set_contains_any"];

/// The one of these short forms that is used, with its value.
pub(super) fn short_form<'f>(
    body: &Body<'_>,
    forms: impl Iterator<Item = &'f str>,
) -> Option<(&'f str, String)> {
    let mut operands = forms.filter_map(|form| Some((form, body.text(form)?)));
    let first = operands.next()?;
    let (what, form) = (body.what(), first.0);
    if let Some((second, _)) = operands.next() {
        body.report.error(body.at(second), format!("{what} has both `{form}` and `{second}`"));
    } else if body.has("operator") {
        body.report.error(body.at("operator"), format!("{what} has both `{form}` and an operator"));
    }
    Some(first)
}

/// The operator that is given as a word; equality when none is.
pub(super) fn named_operator(body: &Body<'_>) -> Option<Operator> {
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

/// Reports sides that do not go with the operator.
pub(super) fn check(body: &Body<'_>, left: &str, operator: Operator, right: &str) {
    let what = body.what();
    let report = |message: String| body.report.error(body.at_self(), message);
    if left.is_empty() && operator != Operator::DistinctHosts {
        report(format!("{what} has no attribute"));
    }
    let needs_value = !matches!(
        operator,
        Operator::IsSet | Operator::IsNotSet | Operator::DistinctHosts | Operator::DistinctProperty
    );
    if right.is_empty() && needs_value {
        return report(format!("{what} `{operator}` has no value"));
    }
    // Only the node knows what this will be.
    if right.contains("${") {
        return;
    }
    if let Some(wrong) = wrong_value(operator, right) {
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
