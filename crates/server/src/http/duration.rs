//! Spans of time as Go writes them: `300ms`, `1m30s`, `1.5h`.

use std::time::Duration;

/// Units and their nanoseconds. Longer names come first where a shorter one is their beginning.
const UNITS: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// Reads a span of time; none when the text is not one. Spans below zero are not.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let (unit, scale) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        nanos += number.parse::<f64>().ok()? * scale;
        rest = &after[unit.len()..];
    }
    let seconds = nanos / 1e9;
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_go() {
        let read = |text| parse(text).map(|span| span.as_millis());
        assert_eq!(read("300ms"), Some(300));
        assert_eq!(read("1m30s"), Some(90_000));
        assert_eq!(read("1.5h"), Some(5_400_000));
        assert_eq!(read("2000000us"), Some(2000));
        assert_eq!(read("0"), Some(0));
        for wrong in ["", "5", "s", "-5s", "5 s", "5d", "1e9s", ".s", "..5s", "9999999999999999h9"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
