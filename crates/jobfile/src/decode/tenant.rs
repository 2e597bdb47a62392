//! Namespaces, quotas and variables, as the API has them: what they may be is the server's to say.

use std::ops::RangeInclusive;

use serde_json::{Value as Json, json};

use crate::{diagnostic::quoted, schema::Body};

/// MHz or MiB, far more than any cluster has; -1 stands for nothing at all.
const AMOUNT: RangeInclusive<i64> = -1..=1_000_000_000_000;
/// Devices of one name.
const DEVICES: RangeInclusive<i64> = 0..=1_000_000_000;

/// Decodes a namespace.
pub(crate) fn namespace(body: &Body<'_>) -> Json {
    let drivers = |body: &Body<'_>| {
        json!({
            "EnabledTaskDrivers": body.texts("enabled_task_drivers"),
            "DisabledTaskDrivers": body.texts("disabled_task_drivers"),
        })
    };
    json!({
        "Name": name(body),
        "Description": body.text("description").unwrap_or_default(),
        "Parent": body.text("parent").unwrap_or_default(),
        "Weight": weight(body),
        "Quota": body.text("quota").unwrap_or_default(),
        "Meta": body.has("meta").then(|| body.text_map("meta")),
        "Capabilities": body.block("capabilities").as_ref().map(drivers),
    })
}

/// Decodes a quota.
pub(crate) fn quota(body: &Body<'_>) -> Json {
    let limit = |body: &Body<'_>| {
        json!({
            "Region": body.filled_text("region").unwrap_or_else(|| "global".to_owned()),
            "RegionLimit": body.block("region_limit").as_ref().map(amounts),
        })
    };
    json!({
        "Name": name(body),
        "Description": body.text("description").unwrap_or_default(),
        "Limits": body.blocks("limit").iter().map(limit).collect::<Vec<_>>(),
        "Guarantee": body.block("guarantee").as_ref().map(amounts),
    })
}

/// A file with the block of one node pool.
pub(crate) fn node_pool_file(body: &Body<'_>) -> Json {
    let pools = body.blocks("node_pool");
    if pools.len() != 1 {
        let message = if pools.is_empty() { "there is no node pool" } else { "there are several node pools" };
        body.missing(message, "write one block `node_pool \"NAME\" { ... }`");
    }
    pools.first().map(node_pool).unwrap_or_default()
}

/// Decodes a node pool.
pub(crate) fn node_pool(body: &Body<'_>) -> Json {
    let name = body.label();
    if name.is_none() {
        body.missing("the node pool has no name", "write `node_pool \"NAME\" { ... }`, or `Name` in JSON");
    }
    json!({
        "Name": name,
        "Description": body.text("description").unwrap_or_default(),
        "Meta": body.has("meta").then(|| body.text_map("meta")),
    })
}

/// Decodes a variable.
pub(crate) fn variable(body: &Body<'_>) -> Json {
    json!({
        "Namespace": body.text("namespace").unwrap_or_default(),
        "Path": body.text("path").unwrap_or_default(),
        "Items": body.text_map("items"),
    })
}

fn amounts(body: &Body<'_>) -> Json {
    let device = |device: &Body<'_>| {
        let name = device.label();
        if name.is_none() {
            device.missing("device has no name", "write `device \"nvidia/gpu\" { count = 2 }`");
        }
        json!({ "Name": name, "Count": device.number::<i64>("count", DEVICES) })
    };
    json!({
        "CPU": body.number::<i64>("cpu", AMOUNT),
        "MemoryMB": body.number::<i64>("memory", AMOUNT),
        "DiskMB": body.number::<i64>("disk", AMOUNT),
        "Devices": body.blocks("device").iter().map(device).collect::<Vec<_>>(),
    })
}

fn name(body: &Body<'_>) -> String {
    let name = body.filled_text("name");
    if name.is_none() && body.lacks("name") {
        let message = format!("{} has no name", body.what());
        body.missing(&message, "write `name = \"...\"` at the top of the file");
    }
    name.unwrap_or_default()
}

/// How much more than its siblings it should get.
fn weight(body: &Body<'_>) -> f64 {
    let Some(text) = body.filled_text("weight") else { return 1.0 };
    text.parse().unwrap_or_else(|_| {
        let message = format!("`weight` is {}, but must be a number", quoted(&text));
        body.report.error(body.at("weight"), message);
        1.0
    })
}
