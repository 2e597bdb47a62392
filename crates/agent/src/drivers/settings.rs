//! Reads a driver's settings; those that the driver does not know are refused by name.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::lifecycle::{StartFailure, StartFailureKind};

/// Reads the settings of `driver` from JSON. Those without a value, also in blocks, and the `ignored` ones count as not given.
pub(super) fn parse<T: DeserializeOwned>(
    driver: &str,
    config_json: &str,
    ignored: &[&str],
) -> Result<T, StartFailure> {
    let json = if config_json.is_empty() { "{}" } else { config_json };
    let read = || {
        let mut settings: serde_json::Map<String, Value> = serde_json::from_str(json)?;
        settings.retain(|name, _| !ignored.contains(&name.as_str()));
        serde_json::from_value(without_nulls(settings.into()))
    };
    read().map_err(|error: serde_json::Error| setup(format!("read the settings of {driver}: {error}")))
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let given = members.into_iter().filter(|(_, value)| !value.is_null());
            given.map(|(name, value)| (name, without_nulls(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// A failure that is the job's fault.
pub(crate) fn setup(message: impl Into<String>) -> StartFailure {
    StartFailure { kind: StartFailureKind::Setup, message: message.into() }
}

/// A duration in nanoseconds; 0 where it is empty, as clients send what nobody has set.
pub(super) fn duration_ns<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    let text = String::deserialize(input)?;
    if text.is_empty() {
        return Ok(0);
    }
    berth_duration::parse(&text)
        .and_then(|duration| u64::try_from(duration.as_nanos()).ok())
        .ok_or_else(|| D::Error::custom(format!("{text:?} is not a duration such as \"30s\" or \"1m30s\"")))
}
