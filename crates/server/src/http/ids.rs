//! Ids in paths and prefixes of ids in parameters: with or without dashes, whole or only their beginning.

use std::ops::Bound;

use super::{failure::Failure, list::Span};

/// Hexadecimal digits of a whole id.
const DIGITS: u32 = 32;
/// Digits that an id in a path must at least have: with fewer, one mistyped character would name something else.
const PATH_DIGITS_MIN: u32 = 4;

/// All ids that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdRange {
    /// The smallest id.
    pub from: u128,
    /// The largest id.
    pub to: u128,
    digits: u32,
}

impl IdRange {
    /// All ids.
    pub const ALL: Self = Self { from: 0, to: u128::MAX, digits: 0 };

    /// All ids that begin with these digits; none when that is not the beginning of an id.
    pub fn parse(text: &str) -> Option<Self> {
        let mut from: u128 = 0;
        let mut digits = 0;
        for c in text.chars().filter(|c| *c != '-') {
            from = from << 4 | u128::from(c.to_digit(16)?);
            digits += 1;
            if digits > DIGITS {
                return None;
            }
        }
        if digits == 0 {
            return Some(Self::ALL);
        }
        let free = 4 * (DIGITS - digits);
        let from = from << free;
        let to = from | ((1 << free) - 1);
        Some(Self { from, to, digits })
    }

    /// The value of the `prefix` parameter.
    pub fn of_prefix(text: Option<&str>) -> Result<Self, Failure> {
        let Some(text) = text else { return Ok(Self::ALL) };
        Self::parse(text).ok_or_else(|| Failure::value("prefix", text, "the beginning of an id"))
    }

    /// The same for ids of some kind.
    pub fn span<K>(&self, id: impl Fn(u128) -> K) -> Span<K> {
        (Bound::Included(id(self.from)), Bound::Included(id(self.to)))
    }
}

/// The id that a path names. `first_two` finds the first two ids of a range; it is not asked for a whole id, which need
/// not be there.
pub(crate) fn resolve(
    text: &str,
    what: &str,
    first_two: impl FnOnce(IdRange) -> Vec<u128>,
) -> Result<u128, Failure> {
    let range = IdRange::parse(text).filter(|range| range.digits >= PATH_DIGITS_MIN);
    let Some(range) = range else {
        let cut: String = text.chars().take(64).collect();
        return Err(Failure::bad_request(format!(
            "`{cut}` is no {what} id: expected 32 hexadecimal digits, or at least the first {PATH_DIGITS_MIN}"
        )));
    };
    if range.digits == DIGITS {
        return Ok(range.from);
    }
    match first_two(range)[..] {
        [] => Err(Failure::not_found(format!("{what} not found"))),
        [id] => Ok(id),
        _ => Err(Failure::bad_request(format!("{what} id `{text}` is ambiguous: write more of its digits"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_range() {
        let range = IdRange::parse("ab-c").expect("it is one");
        assert_eq!(range.from, 0xabc << 116);
        assert_eq!(range.to, (0xabc << 116) | ((1 << 116) - 1));
        assert_eq!(IdRange::parse(""), Some(IdRange::ALL));
        let whole = IdRange::parse("6f1c2b0a-9d41-4b53-8a0e-2f6c7d8e9f10").expect("it is one");
        assert_eq!(whole.from, whole.to);
        assert_eq!((IdRange::parse("xyz"), IdRange::parse(&"0".repeat(33))), (None, None));
    }
}
