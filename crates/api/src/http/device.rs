//! Devices: what a node has, and what a task was given.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Text;

/// Devices of one model on a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeDeviceResource {
    /// As `nvidia`.
    pub vendor: String,
    /// As `gpu`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// The model, as `A100`.
    pub name: String,
    /// Each of them.
    pub instances: Vec<NodeDevice>,
    /// What holds for each of them, by name.
    pub attributes: BTreeMap<String, DeviceAttribute>,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeDevice {
    /// What a driver knows it by.
    #[serde(rename = "ID")]
    pub id: String,
    /// Whether it may be used.
    pub healthy: bool,
    /// How much of it allocations hold, in thousandths.
    pub held_milli: u16,
}

/// What a device is like in one respect; amounts have their unit, as `40 GiB`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeviceAttribute {
    /// As the agent reports it.
    pub string: String,
}

/// Devices that a task was given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "AllocatedDevice")]
pub struct AllocatedDevice<S: Text = String> {
    /// As `nvidia`.
    pub vendor: S,
    /// As `gpu`.
    #[serde(rename = "Type")]
    pub kind: S,
    /// The model, as `A100`.
    pub name: S,
    /// Each of them.
    #[serde(rename = "DeviceIDs")]
    pub device_ids: Vec<S>,
    /// What it has of each, in thousandths: less than 1000 of one that others may use too.
    pub milli_each: u16,
}
