//! A point in time as RFC 3339 text, as Go writes it: "never" is the first day of year 1.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// How Go's zero time reads.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Nanoseconds since the Unix epoch; zero for never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(self.0)) {
            Some(at) if self.0 > 0 => humantime::format_rfc3339(at).fmt(f),
            _ => f.write_str(NEVER),
        }
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            // Most moments of a task that is starting: the formatting machinery would take ten times as long.
            0 => serializer.serialize_str(NEVER),
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == NEVER {
            return Ok(Self(0));
        }
        let at = humantime::parse_rfc3339(&text).map_err(D::Error::custom)?;
        let since = at.duration_since(SystemTime::UNIX_EPOCH).map_err(D::Error::custom)?;
        u64::try_from(since.as_nanos()).map(Self).map_err(D::Error::custom)
    }
}
