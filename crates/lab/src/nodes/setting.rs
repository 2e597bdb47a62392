//! Settings of simulated nodes as they are written on a command line.

use std::{str::FromStr, time::Duration};

use super::clock::nanos;
use crate::random::unit;

/// An invalid setting; the message shows a valid one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingError(pub(super) String);

/// A length of time, evenly distributed between two: `100ms..500ms`, or `1s` for exactly that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DurationRange {
    min: Duration,
    max: Duration,
}

impl DurationRange {
    /// Between two, both included.
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min) }
    }

    /// The one that a well-mixed number stands for: nanoseconds.
    pub(super) fn draw_ns(&self, mixed: u64) -> u64 {
        nanos(self.min) + nanos((self.max - self.min).mul_f64(unit(mixed)))
    }
}

impl FromStr for DurationRange {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let read = |part: &str| {
            let help = || format!("{part:?} is not a length of time such as 500ms, 10s or 2m");
            berth_duration::parse_words(part).map_err(|_| SettingError(help()))
        };
        let (min, max) = (read(min)?, read(max)?);
        if max < min {
            return Err(SettingError(format!(
                "{text:?} ends before it begins: write the shorter time first"
            )));
        }
        Ok(Self { min, max })
    }
}

/// Reads `key=value,key=value`, handing each to `set`, which says whether it knows the key.
pub(super) fn read_pairs(
    text: &str,
    keys: &str,
    mut set: impl FnMut(&str, &str) -> Result<bool, SettingError>,
) -> Result<(), SettingError> {
    for pair in text.split(',') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !set(key.trim(), value.trim())? {
            return Err(SettingError(format!("there is no {key:?} here: write {keys}")));
        }
    }
    Ok(())
}

/// Reads a number, naming what it is for when it is none.
pub(super) fn number<T: FromStr>(key: &str, text: &str) -> Result<T, SettingError> {
    text.parse().map_err(|_| SettingError(format!("{key}: {text:?} is not a valid number")))
}

/// Reads a share of all; `key` says of what.
///
/// # Errors
/// When it is not a number between 0 and 1.
pub fn read_share(key: &str, text: &str) -> Result<f64, SettingError> {
    let share: f64 = number(key, text)?;
    if !(0.0..=1.0).contains(&share) {
        return Err(SettingError(format!("{key}: {text} is not a share between 0 and 1")));
    }
    Ok(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read() {
        let span: DurationRange = "100ms..500ms".parse().unwrap();
        assert_eq!((span.draw_ns(0), span.draw_ns(u64::MAX) / 1_000_000), (100_000_000, 500));
        assert_eq!("2m".parse(), Ok(DurationRange::new(Duration::from_secs(120), Duration::from_secs(120))));
        let wrong =
            ["soon", "1s..", "2s..1s"].map(|text| text.parse::<DurationRange>().unwrap_err().to_string());
        assert_eq!(
            wrong,
            [
                "\"soon\" is not a length of time such as 500ms, 10s or 2m",
                "\"\" is not a length of time such as 500ms, 10s or 2m",
                "\"2s..1s\" ends before it begins: write the shorter time first",
            ]
        );
    }
}
