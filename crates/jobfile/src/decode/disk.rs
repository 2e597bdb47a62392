//! Room on the node's disk.

use berth_model::job::EphemeralDisk;

use crate::schema::Body;

pub(super) fn disk(body: Option<Body<'_>>) -> EphemeralDisk {
    let default = EphemeralDisk::default();
    let Some(body) = body else { return default };
    EphemeralDisk {
        size_mb: body.number("size", 0..=i64::from(u32::MAX)).unwrap_or(default.size_mb),
        sticky: body.flag("sticky").unwrap_or(default.sticky),
        migrate: body.flag("migrate").unwrap_or(default.migrate),
    }
}
