//! Durations as text. Job files and the API have Go's form (`1h30m`, `1.5s`, `100ms`); settings and flags take days and
//! words besides (`30d`, `2 hours`). What is shown to users is either exact or rounded to two units.

use std::{fmt, time::Duration};

/// Go counts nanoseconds in 64 signed bits, and so do all clients.
const NANOS_MAX: u128 = i64::MAX as u128;

/// Digits of one number that matter: more than 64 bits of nanoseconds hold.
const DIGITS_MAX: usize = 20;

const SECOND: u128 = 1_000_000_000;
const DAY: u128 = 86_400 * SECOND;

/// Go's units by name, in nanoseconds.
const GO_UNITS: &[(&str, u128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3_600 * SECOND),
];

/// What users may write besides. A month is a twelfth of a year, a year is a quarter of a day longer than 365.
const PEOPLES_UNITS: &[(&[&str], u128)] = &[
    (&["nsec", "nsecs"], 1),
    (&["usec", "usecs"], 1_000),
    (&["msec", "msecs", "millis"], 1_000_000),
    (&["sec", "secs", "second", "seconds"], SECOND),
    (&["min", "mins", "minute", "minutes"], 60 * SECOND),
    (&["hr", "hrs", "hour", "hours"], 3_600 * SECOND),
    (&["d", "day", "days"], DAY),
    (&["w", "wk", "wks", "week", "weeks"], 7 * DAY),
    (&["M", "month", "months"], 2_630_016 * SECOND),
    (&["y", "yr", "yrs", "year", "years"], 31_557_600 * SECOND),
];

/// The units of rounded durations, in seconds, longest first.
const ROUNDED_UNITS: &[(u64, &str)] = &[(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];

/// A text that is not a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotADuration;

impl fmt::Display for NotADuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a duration such as 90s, 1m30s or 7d")
    }
}

impl std::error::Error for NotADuration {}

/// Reads a duration in Go's form: one or more numbers, each with its unit; none when it is not one, or is too long for Go.
pub fn parse(text: &str) -> Option<Duration> {
    read(text.strip_prefix('+').unwrap_or(text), go_unit)
}

/// Reads a duration as users write it in settings and flags: Go's form, with longer units and words, and with spaces
/// between them.
///
/// # Errors
/// When it is not one, or is too long for Go.
pub fn parse_words(text: &str) -> Result<Duration, NotADuration> {
    let text = text.split_whitespace().collect::<String>();
    let unit = |name: &str| go_unit(name).or_else(|| peoples_unit(name));
    read(&text, unit).ok_or(NotADuration)
}

fn go_unit(name: &str) -> Option<u128> {
    GO_UNITS.iter().find(|(unit, _)| *unit == name).map(|(_, nanos)| *nanos)
}

fn peoples_unit(name: &str) -> Option<u128> {
    PEOPLES_UNITS.iter().find(|(units, _)| units.contains(&name)).map(|(_, nanos)| *nanos)
}

fn read(text: &str, unit: impl Fn(&str) -> Option<u128>) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut nanos, mut rest) = number_with_unit(text, &unit)?;
    while !rest.is_empty() && nanos <= NANOS_MAX {
        let (more, tail) = number_with_unit(rest, &unit)?;
        nanos += more;
        rest = tail;
    }
    from_nanos(nanos)
}

/// A duration in nanoseconds; none when it is too long for Go.
pub fn from_nanos(nanos: u128) -> Option<Duration> {
    let nanos = u64::try_from(nanos).ok().filter(|n| u128::from(*n) <= NANOS_MAX)?;
    Some(Duration::from_nanos(nanos))
}

/// A duration in nanoseconds, as the API spells it.
pub fn to_nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// All of a duration, the largest units first: `1h30m`, `1.5s`. [`parse`] reads it back.
pub fn exact(duration: Duration) -> String {
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

/// All of a duration as Go itself writes it: `1h30m0s`. Texts that users of Nomad know word for word have it so.
pub fn as_go_writes_it(duration: Duration) -> String {
    let (exact, minutes) = (exact(duration), duration.as_secs() / 60);
    match (exact.chars().last(), minutes) {
        (_, 0) | (None, _) => exact,
        (Some('h'), _) => exact + "0m0s",
        (Some('m'), _) => exact + "0s",
        // Below an hour and above a minute, Go counts what is left in seconds.
        _ => {
            let seconds = (duration - Duration::from_secs(minutes * 60)).as_secs_f64();
            let hours = if minutes < 60 { String::new() } else { format!("{}h", minutes / 60) };
            format!("{hours}{}m{seconds}s", minutes % 60)
        }
    }
}

/// A duration by its two largest units, from days to seconds: `3m12s`, `1d1h`.
pub fn rounded(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let Some(largest) = ROUNDED_UNITS.iter().position(|(length, _)| seconds >= *length) else {
        return "0s".into();
    };
    let (length, unit) = ROUNDED_UNITS[largest];
    let rest = ROUNDED_UNITS.get(largest + 1).map(|(next, unit)| (seconds % length / next, unit));
    match rest {
        Some((count, smaller)) if count > 0 => format!("{}{unit}{count}{smaller}", seconds / length),
        _ => format!("{}{unit}", seconds / length),
    }
}

/// Reads `1.5s` off the front: its nanoseconds and what follows.
fn number_with_unit(text: &str, unit: impl Fn(&str) -> Option<u128>) -> Option<(u128, &str)> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
    if whole.is_empty() && fraction.is_empty() || whole.len() > DIGITS_MAX {
        return None;
    }
    let (name, rest) = rest.split_at(rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len()));
    let unit = unit(name)?;
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
            assert_eq!(parse(text).map(exact).as_deref(), Some(text));
        }
    }

    #[test]
    fn people_write_longer_units_and_words() {
        for (text, seconds) in [
            ("0", 0),
            ("1m30s", 90),
            ("1m 30s", 90),
            ("1 hour 30 min", 5_400),
            ("1.5h", 5_400),
            ("7d", 7 * 86_400),
            ("2weeks 1day", 15 * 86_400),
            ("1y", 31_557_600),
        ] {
            assert_eq!(parse_words(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", " ", "5", "-1s", "1x", "days", "1d2", "300 years"] {
            assert_eq!(parse_words(text), Err(NotADuration), "{text}");
        }
    }

    #[test]
    fn go_writes_what_is_zero_below_the_largest_unit() {
        let written = [0, 20, 1_500, 60_000, 61_500, 1_800_000, 3_600_000, 5_400_000, 3_601_000, 5_405_250];
        let written = written.map(|ms| as_go_writes_it(Duration::from_millis(ms)));
        assert_eq!(
            written,
            ["0s", "20ms", "1.5s", "1m0s", "1m1.5s", "30m0s", "1h0m0s", "1h30m0s", "1h0m1s", "1h30m5.25s"]
        );
    }

    #[test]
    fn rounded_durations_have_two_units() {
        let rounded = [0, 59, 192, 7_200, 90_061].map(|seconds| rounded(Duration::from_secs(seconds)));
        assert_eq!(rounded, ["0s", "59s", "3m12s", "2h", "1d1h"]);
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
