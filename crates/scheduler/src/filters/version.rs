//! Version constraints: `>= 1.2, < 2.0`, loose (any number of parts, `~>`) or strict (semantic versioning).

use std::cmp::Ordering;

/// Whether a version meets all of the comma-separated conditions; versions may have any number of numeric parts.
pub(super) fn matches_loose(version: &str, conditions: &str) -> bool {
    let Some(version) = LooseVersion::parse(version) else { return false };
    conditions.split(',').all(|condition| {
        let (operator, wanted) = split(condition);
        LooseVersion::parse(wanted).is_some_and(|wanted| version.meets(operator, &wanted))
    })
}

/// Whether a semantic version meets all conditions; a pre-release is below its release.
pub(super) fn matches_strict(version: &str, conditions: &str) -> bool {
    let Ok(version) = semver::Version::parse(version.trim_start_matches('v')) else { return false };
    conditions.split(',').all(|condition| {
        let (operator, wanted) = split(condition);
        let Ok(wanted) = semver::Version::parse(wanted.trim_start_matches('v')) else { return false };
        holds(version.cmp_precedence(&wanted), operator)
    })
}

fn split(condition: &str) -> (&str, &str) {
    let condition = condition.trim();
    let at = condition.find(|c: char| !"<>=!~".contains(c)).unwrap_or(condition.len());
    let (operator, version) = condition.split_at(at);
    (operator, version.trim())
}

fn holds(order: Ordering, operator: &str) -> bool {
    match operator {
        "" | "=" | "==" => order == Ordering::Equal,
        "!=" => order != Ordering::Equal,
        "<" => order == Ordering::Less,
        "<=" => order != Ordering::Greater,
        ">" => order == Ordering::Greater,
        ">=" => order != Ordering::Less,
        _ => false,
    }
}

#[derive(Debug)]
struct LooseVersion {
    parts: Vec<u64>,
    pre_release: String,
}

impl LooseVersion {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('v');
        let text = text.split('+').next()?;
        let (numbers, pre_release) = text.split_once('-').unwrap_or((text, ""));
        let parts = numbers.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u64>>>()?;
        Some(Self { parts, pre_release: pre_release.to_owned() })
    }

    fn meets(&self, operator: &str, wanted: &Self) -> bool {
        if operator == "~>" {
            // The last part that is named may grow, the ones before it may not.
            let fixed = wanted.parts.len().saturating_sub(1).max(1);
            let same = (0..fixed).all(|at| self.part(at) == wanted.part(at));
            return same && self.order(wanted) != Ordering::Less;
        }
        holds(self.order(wanted), operator)
    }

    fn part(&self, at: usize) -> u64 {
        self.parts.get(at).copied().unwrap_or(0)
    }

    fn order(&self, other: &Self) -> Ordering {
        let parts = self.parts.len().max(other.parts.len());
        let numbers = (0..parts).map(|at| self.part(at).cmp(&other.part(at))).find(|o| *o != Ordering::Equal);
        numbers.unwrap_or_else(|| match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre_release.cmp(&other.pre_release),
        })
    }
}
