//! Makes text that others wrote safe to print.

use std::borrow::Cow;

/// Characters of a shortened id.
const SHORT_ID_CHARS: usize = 8;
/// How alike a word must be to be suggested.
const SIMILARITY_MIN: f64 = 0.75;

/// The text on one line, without what would steer a terminal or turn the reading direction.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| printable(c) == c) { text.into() } else { text.chars().map(printable).collect() }
}

/// The same of several lines. Those after the first are indented: none of them begins as a line of this program's own.
pub fn clean_lines(text: &str) -> String {
    let mut lines = text.lines();
    let mut cleaned = lines.next().map(clean).unwrap_or_default().into_owned();
    for line in lines {
        cleaned.push_str(if line.starts_with("  ") { "\n" } else { "\n  " });
        cleaned.push_str(&clean(line));
    }
    cleaned
}

fn printable(c: char) -> char {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    match c {
        '\n' | '\t' => ' ',
        c if c.is_control() || turns => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// The beginning of an id, enough for people to distinguish it from others.
pub fn short_id(id: &str) -> String {
    clean(id).chars().take(SHORT_ID_CHARS).collect()
}

/// An id as it is shown: in full where that is asked for.
pub fn id(id: &str, verbose: bool) -> String {
    if verbose { clean(id).into_owned() } else { short_id(id) }
}

/// A number and what is counted: `1 group`, `2 groups`.
pub fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// An amount of bytes in the unit that makes it short: `512 B`, `1.5 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut amount = bytes as f64;
    let mut unit = "B";
    for larger in UNITS {
        if amount < 1024.0 {
            break;
        }
        (amount, unit) = (amount / 1024.0, larger);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{amount:.1} {unit}") }
}

/// The known word that is most like a misspelt one, if any is.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(clean("\u{1b}[31mred\u{7}"), "\u{fffd}[31mred\u{fffd}");
        assert_eq!(clean("a\nb\tc"), "a b c");
        assert_eq!(clean("\u{202e}evil"), "\u{fffd}evil");
        assert!(matches!(clean("plain, naïve ✓"), Cow::Borrowed(_)));
    }

    #[test]
    fn lines_stay_lines_and_none_looks_like_one_of_this_program() {
        let text = "expected a value\n  Status ==\n           ^\nnote: all is \u{1b}[32mwell\n";
        let cleaned = "expected a value\n  Status ==\n           ^\n  note: all is \u{fffd}[32mwell";
        assert_eq!(clean_lines(text), cleaned);
        assert_eq!(clean_lines(""), "");
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!([0, 1023, 1024, 1_572_864].map(bytes), ["0 B", "1023 B", "1.0 KiB", "1.5 MiB"]);
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
    }

    #[test]
    fn a_misspelt_word_finds_its_neighbour() {
        let known = ["data-dir", "http-addr", "node-pool"];
        assert_eq!(nearest("datadir", known), Some("data-dir"));
        assert_eq!(nearest("http-adr", known), Some("http-addr"));
        assert_eq!(nearest("zebra", known), None);
    }
}
