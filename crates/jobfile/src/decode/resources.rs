//! What a task holds of its node.

use berth_model::job::TaskResources;

use crate::schema::Body;

/// MHz; less could not be accounted for.
const CPU_MHZ_MIN: i64 = 1;
/// MiB; no process fits into less.
const MEMORY_MB_MIN: i64 = 10;

pub(super) fn resources(body: Option<Body<'_>>) -> TaskResources {
    let default = TaskResources::default();
    let Some(body) = body else { return default };
    TaskResources {
        cpu_mhz: body.number("cpu", CPU_MHZ_MIN..=i64::from(u32::MAX)).unwrap_or(default.cpu_mhz),
        memory_mb: body.number("memory", MEMORY_MB_MIN..=i64::from(u32::MAX)).unwrap_or(default.memory_mb),
    }
}
