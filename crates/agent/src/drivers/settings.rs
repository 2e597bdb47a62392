//! Reading a driver's settings; whatever a driver does not know is refused by name.

use std::time::Duration;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::lifecycle::{StartFailure, StartFailureKind};

/// Reads the settings of `driver` from JSON. Those without a value, and the `ignored` ones, count as not given.
pub(super) fn parse<T: DeserializeOwned>(
    driver: &str,
    config_json: &str,
    ignored: &[&str],
) -> Result<T, StartFailure> {
    let json = if config_json.is_empty() { "{}" } else { config_json };
    let read = || {
        let mut settings: serde_json::Map<String, Value> = serde_json::from_str(json)?;
        settings.retain(|name, value| !value.is_null() && !ignored.contains(&name.as_str()));
        serde_json::from_value(settings.into())
    };
    read().map_err(|error: serde_json::Error| setup(format!("read the settings of {driver}: {error}")))
}

/// A failure that is the job's fault.
pub(crate) fn setup(message: impl Into<String>) -> StartFailure {
    StartFailure { kind: StartFailureKind::Setup, message: message.into() }
}

/// A duration as Go writes it, in nanoseconds.
pub(super) fn duration_ns<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    let text = String::deserialize(input)?;
    parse_go_duration(&text)
        .and_then(|duration| u64::try_from(duration.as_nanos()).ok())
        .ok_or_else(|| D::Error::custom(format!("{text:?} is not a duration such as \"30s\" or \"1m30s\"")))
}

pub(super) fn parse_go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let unit_end = rest[digits..]
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .map_or(rest.len(), |at| digits + at);
        seconds += rest[..digits].parse::<f64>().ok()? * unit_seconds(&rest[digits..unit_end])?;
        rest = &rest[unit_end..];
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos() {
        let read = ["30s", "1m30s", "1.5h", "200ms", "0", "", "s", "3", "1y", "-1s"].map(parse_go_duration);
        let seconds = read.map(|duration| duration.map(|duration| duration.as_secs_f64()));
        let good = [Some(30.0), Some(90.0), Some(5400.0), Some(0.2), Some(0.0)];
        assert_eq!(seconds[..5], good);
        assert_eq!(seconds[5..], [None; 5]);
    }
}
