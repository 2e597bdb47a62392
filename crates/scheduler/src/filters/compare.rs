//! What each constraint operator means.

use std::cmp::Ordering;

use berth_model::constraint::Operator;
use regex::Regex;

use super::version;

/// Whether `left OPERATOR right` holds; none stands for what the node does not have.
///
/// A missing value is unequal to any other, and makes every other comparison false.
pub fn satisfies(left: Option<&str>, operator: Operator, right: Option<&str>) -> bool {
    match operator {
        Operator::IsSet => return left.is_some(),
        Operator::IsNotSet => return left.is_none(),
        Operator::NotEqual => return left != right,
        _ => {}
    }
    let (Some(left), Some(right)) = (left, right) else { return false };
    match operator {
        Operator::Equal => left == right,
        Operator::Less => order(left, right) == Ordering::Less,
        Operator::LessOrEqual => order(left, right) != Ordering::Greater,
        Operator::Greater => order(left, right) == Ordering::Greater,
        Operator::GreaterOrEqual => order(left, right) != Ordering::Less,
        Operator::Regexp => Regex::new(right).is_ok_and(|pattern| pattern.is_match(left)),
        Operator::Version => version::matches_loose(left, right),
        Operator::Semver => version::matches_strict(left, right),
        Operator::SetContainsAll => items(right).all(|wanted| items(left).any(|has| has == wanted)),
        Operator::SetContainsAny => items(right).any(|wanted| items(left).any(|has| has == wanted)),
        Operator::IsSet | Operator::IsNotSet | Operator::NotEqual => unreachable!("answered above"),
        // Not about one node alone: the placer keeps these.
        Operator::DistinctHosts | Operator::DistinctProperty => true,
    }
}

/// Numbers by value, everything else by characters.
fn order(left: &str, right: &str) -> Ordering {
    match (left.parse::<f64>(), right.parse::<f64>()) {
        (Ok(a), Ok(b)) => a.total_cmp(&b),
        _ => left.cmp(right),
    }
}

fn items(set: &str) -> impl Iterator<Item = &str> {
    set.split(',').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_mean_what_their_names_say() {
        for (left, operator, right, expected) in [
            (Some("linux"), "=", Some("linux"), true),
            (Some("linux"), "!=", Some("linux"), false),
            (None, "!=", Some("linux"), true),
            (None, "=", Some("linux"), false),
            (Some("9"), "<", Some("10"), true),
            (Some("a9"), "<", Some("a10"), false),
            (Some("10"), ">=", Some("10.0"), true),
            (Some("4"), "<=", Some("3"), false),
            (Some("web-01"), "regexp", Some("^web-[0-9]+$"), true),
            (Some("1.7.4"), "version", Some(">= 1.6, < 2.0"), true),
            (Some("1.7.4"), "version", Some("~> 1.7.0"), true),
            (Some("1.8.0"), "version", Some("~> 1.7.0"), false),
            (Some("1.8.0"), "version", Some("~> 1.7"), true),
            (Some("1.7"), "version", Some("= 1.7.0"), true),
            (Some("6.18.44-fc"), "version", Some("> 6.1"), true),
            (Some("1.7.0-beta"), "semver", Some(">= 1.7.0"), false),
            (Some("1.7.0"), "semver", Some(">= 1.6.0, < 2.0.0"), true),
            (Some("a, b,c"), "set_contains", Some("a,c"), true),
            (Some("a,b"), "set_contains_all", Some("a,c"), false),
            (Some("a,b"), "set_contains_any", Some("x,b"), true),
            (Some("x"), "is_set", None, true),
            (None, "is_set", None, false),
            (None, "is_not_set", None, true),
        ] {
            let operator = Operator::parse(operator).unwrap();
            assert_eq!(satisfies(left, operator, right), expected, "{left:?} {operator} {right:?}");
        }
    }
}
