//! Durations as Go writes them: `1h30m`, `1.5s`, `100ms`.

use std::time::Duration;

/// Go counts nanoseconds in 64 signed bits, and so do all clients.
const NANOS_MAX: u128 = i64::MAX as u128;

/// Digits of one number that matter: more than 64 bits of nanoseconds hold.
const DIGITS_MAX: usize = 20;

/// Units by name, in nanoseconds; none is the start of a later one.
const UNITS: &[(&str, u128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration of one or more numbers, each with its unit; none when it is not one, or is too long for Go.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut nanos, mut rest) = number_with_unit(text.strip_prefix('+').unwrap_or(text))?;
    while !rest.is_empty() && nanos <= NANOS_MAX {
        let (more, tail) = number_with_unit(rest)?;
        nanos += more;
        rest = tail;
    }
    from_nanos(nanos)
}

/// A duration in nanoseconds; none when it is too long for Go.
pub(crate) fn from_nanos(nanos: u128) -> Option<Duration> {
    let nanos = u64::try_from(nanos).ok().filter(|n| u128::from(*n) <= NANOS_MAX)?;
    Some(Duration::from_nanos(nanos))
}

/// A duration in nanoseconds, as the API spells it.
pub(crate) fn to_nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// A duration as Go writes it, the largest units first: `1h30m`, `1.5s`.
pub(crate) fn shown(duration: Duration) -> String {
    let whole = duration.as_secs();
    let (hours, minutes) = (whole / 3600, whole / 60 % 60);
    let rest = duration - Duration::from_secs(whole - whole % 60);
    let part = |count: u64, unit: &str| if count == 0 { String::new() } else { format!("{count}{unit}") };
    let rest = match (rest.is_zero(), duration.is_zero()) {
        (true, true) => "0s".to_owned(),
        (true, false) => String::new(),
        (false, _) => format!("{rest:?}"),
    };
    part(hours, "h") + &part(minutes, "m") + &rest
}

/// Reads `1.5s` off the front: its nanoseconds and what follows.
fn number_with_unit(text: &str) -> Option<(u128, &str)> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
    if whole.is_empty() && fraction.is_empty() || whole.len() > DIGITS_MAX {
        return None;
    }
    let (unit, rest) = UNITS.iter().find_map(|(name, nanos)| Some((*nanos, rest.strip_prefix(name)?)))?;
    let fraction = &fraction[..fraction.len().min(DIGITS_MAX)];
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    Some((value(whole)? * unit + value(fraction)? * unit / scale, rest))
}

fn value(digits: &str) -> Option<u128> {
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", 0),
            ("5s", 5_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("100ms", 100_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("+1us2ns", 1_002),
            ("0.0000000019s", 1),
            ("2562047h47m16.854775807s", i64::MAX as u64),
        ] {
            assert_eq!(parse(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn durations_are_shown_as_they_are_written() {
        for text in ["0s", "10ns", "100ms", "1.5s", "59s", "1m", "1m500ms", "1h", "1h30m", "24h1ms", "1h1s"] {
            assert_eq!(parse(text).map(shown).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in
            ["", "+", "5", "s", "1d", "-1s", "1s2", "1 s", ".s", "2562048h", "99999999999999999999999999h"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
