//! What a task holds of its node.

use berth_model::{
    device::DeviceAsk,
    job::{MEMORY_MAX_OF_NODE, TaskResources},
};

use super::{affinity, constraint, name};
use crate::{
    diagnostic::quoted,
    record::COUNT,
    schema::{Body, STORED_OF_RESOURCES},
};

/// MHz; less could not be accounted for.
const CPU_MHZ_MIN: i64 = 1;
/// MiB; no process fits into less.
const MEMORY_MB_MIN: i64 = 10;
/// Devices of one ask.
const DEVICES_MAX: i64 = 1024;
/// `vendor/type/model`; a model may hold further slashes.
const DEVICE_NAME_PARTS: usize = 3;

pub(super) fn resources(body: Option<Body<'_>>) -> TaskResources {
    let default = TaskResources::default();
    let Some(body) = body else { return default };
    let cores = body.number("cores", COUNT).unwrap_or(default.cores);
    let memory_mb = body.number("memory", MEMORY_MB_MIN..=*COUNT.end()).unwrap_or(default.memory_mb);
    let memory_max_mb: u32 = body
        .number("memory_max", -1..=*COUNT.end() - 1)
        .map_or(0, |max: i64| u32::try_from(max).unwrap_or(MEMORY_MAX_OF_NODE));
    if memory_max_mb != 0 && memory_max_mb < memory_mb {
        let message = format!("memory_max is {memory_max_mb}, less than memory, {memory_mb}");
        body.report.error(body.at("memory_max"), message);
    }
    TaskResources {
        cpu_mhz: cpu_mhz(&body, cores, default.cpu_mhz),
        memory_mb,
        cores,
        memory_max_mb,
        devices: body.blocks("device").iter().map(device).collect(),
        kept: body.kept(STORED_OF_RESOURCES),
    }
}

/// MHz; 0 beside whole cores.
fn cpu_mhz(body: &Body<'_>, cores: u32, default: u32) -> u32 {
    if cores == 0 {
        return body.number("cpu", CPU_MHZ_MIN..=*COUNT.end()).unwrap_or(default);
    }
    if !body.is_json() && body.has("cpu") {
        let help = "whole cores bring their cpu with them: take one of the two out";
        body.report.error_with_help(body.at("cpu"), "resources have both `cpu` and `cores`", help);
    }
    body.number("cpu", COUNT).unwrap_or(0)
}

fn device(body: &Body<'_>) -> DeviceAsk {
    let name = body.label().unwrap_or_default();
    let mut parts = name.splitn(DEVICE_NAME_PARTS, '/');
    if !name.is_empty() && parts.any(str::is_empty) {
        let message = format!("{} cannot be the name of a device", quoted(&name));
        let help = "write its type, as `gpu`, `nvidia/gpu` or `nvidia/gpu/A100`";
        body.report.error_with_help(body.at_label(), message, help);
    } else {
        name::check_id(body, &name, || body.at_label());
    }
    let count = body.number("count", 1..=DEVICES_MAX).unwrap_or(1);
    let share_milli = body.number("share", 0..=999).unwrap_or(0);
    if share_milli != 0 && count != 1 {
        let help = "a share is a part of one device: take the count out";
        body.report.error_with_help(body.at("count"), "device has both a count and a share", help);
    }
    DeviceAsk {
        name,
        count,
        share_milli,
        constraints: constraint::constraints(body),
        affinities: affinity::of_device(body),
    }
}
