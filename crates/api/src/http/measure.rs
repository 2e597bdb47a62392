//! Measurements, in the JSON form of `/v1/metrics`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All measurements of a server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Measurements {
    /// When they were read.
    pub timestamp: String,
    /// Values that go up and down.
    pub gauges: Vec<Gauge>,
    /// Always empty.
    pub points: Vec<Value>,
    /// Values that only grow.
    pub counters: Vec<Counter>,
    /// Many values of one kind; their spread is in the Prometheus form.
    pub samples: Vec<Sample>,
}

/// A value that goes up and down.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Gauge {
    /// With its unit last.
    pub name: String,
    /// The value.
    pub value: f64,
    /// What distinguishes it from others of its name.
    pub labels: BTreeMap<String, String>,
}

/// A value that only grows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Counter {
    /// With its unit last.
    pub name: String,
    /// The value since the server started.
    pub sum: f64,
    /// Always 1: it is read once.
    pub count: u64,
    /// What distinguishes it from others of its name.
    pub labels: BTreeMap<String, String>,
}

/// Many values of one kind, added up.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Sample {
    /// With its unit last.
    pub name: String,
    /// Of all values since the server started.
    pub sum: f64,
    /// How many there were.
    pub count: u64,
    /// What distinguishes it from others of its name.
    pub labels: BTreeMap<String, String>,
}
