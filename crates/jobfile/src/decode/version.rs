//! The right sides of `version` and `semver`: `>= 1.2, < 2`.

/// Comparisons that may precede a version, longer ones first.
const OPERATORS: &[&str] = &["!=", ">=", "<=", "~>", "=", ">", "<"];

/// Whether the text is a list of comparisons with loose versions: any number of parts, suffixes without a dash.
pub(super) fn is_range(text: &str) -> bool {
    text.split(',').all(|part| is_version(operand(part).1, true))
}

/// Whether the text is a list of comparisons with semantic versions, which have no `~>`.
pub(super) fn is_semver_range(text: &str) -> bool {
    text.split(',').map(operand).all(|(operator, version)| operator != "~>" && is_version(version, false))
}

/// Splits `>= 1.2`.
fn operand(part: &str) -> (&str, &str) {
    let part = part.trim();
    let operator = OPERATORS.iter().find(|operator| part.starts_with(**operator)).copied().unwrap_or("");
    (operator, part[operator.len()..].trim_start())
}

/// Whether the text is a version, as `v1.2.3-rc.1+build`.
fn is_version(text: &str, loose: bool) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, build) = text.split_once('+').unwrap_or((text, "0"));
    let numbers = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let (numbers, suffix) = text.split_at(text.len() - numbers.len());
    let suffix = match suffix.strip_prefix('-') {
        Some(suffix) => is_suffix(suffix),
        None => suffix.is_empty() || loose && is_suffix(suffix),
    };
    numbers.split('.').all(|part| !part.is_empty() && part.len() <= 18) && suffix && is_suffix(build)
}

fn is_suffix(text: &str) -> bool {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '~';
    text.split('.').all(|part| !part.is_empty() && part.chars().all(sound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_distinguished_from_other_text() {
        for text in ["1", ">= 1.2", "~> 1.2.3, != 1.2.9", "v2.0.0-rc.1+b7", "<3.10.0-957.el7", "= 1.2.3.4"] {
            assert!(is_range(text), "{text}");
        }
        for text in ["", ">=", ">= 1,", "latest", ">> 1", "1..2", "1.2 3", "1.2-", "1+"] {
            assert!(!is_range(text), "{text}");
            assert!(!is_semver_range(text), "{text}");
        }
        assert!(is_semver_range(">= 1.2.0-beta, < 2"));
        assert!(!is_semver_range("~> 1.2"));
        assert!(is_range("1.2beta") && !is_semver_range("1.2beta"));
    }
}
