//! Jobs of the mock driver, in Nomad's JSON, as most experiments submit them.

use bytes::Bytes;
use serde_json::{Value, json};

/// A job of one group with one task, which does nothing but hold its resources and writes no logs. Updates of it are not
/// rolled out.
pub(super) struct MockJob<'a> {
    /// `service` or `batch`.
    pub kind: &'a str,
    pub count: u32,
    /// Until its task ends by itself, as `24h`.
    pub run_for: &'a str,
    pub cpu_mhz: u32,
    pub memory_mb: u32,
    pub disk_mb: u32,
}

impl MockJob<'_> {
    /// A service whose tasks run until they are stopped.
    pub fn service(count: u32, [cpu_mhz, memory_mb, disk_mb]: [u32; 3]) -> Self {
        Self { kind: "service", count, run_for: "24h", cpu_mhz, memory_mb, disk_mb }
    }

    /// The job without its id.
    pub fn json(&self) -> Value {
        json!({
            "Type": self.kind,
            "Datacenters": ["*"],
            "Update": {"MaxParallel": 0},
            "TaskGroups": [{
                "Name": "group",
                "Count": self.count,
                "EphemeralDisk": {"SizeMB": self.disk_mb},
                "Tasks": [{
                    "Name": "task",
                    "Driver": "mock_driver",
                    "Config": {"run_for": self.run_for},
                    "LogConfig": {"Disabled": true, "MaxFiles": 1, "MaxFileSizeMB": 1},
                    "Resources": {"CPU": self.cpu_mhz, "MemoryMB": self.memory_mb},
                }],
            }],
        })
    }
}

/// The body of the request that registers a job under an id.
pub(super) fn registration(id: &str, mut job: Value) -> Bytes {
    job["ID"] = id.into();
    job["Name"] = id.into();
    json!({ "Job": job }).to_string().into()
}
