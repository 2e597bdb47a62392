//! The jobs of a soak, in Nomad's JSON.

use bytes::Bytes;
use serde_json::{Value, json};

/// The group of each job.
pub(super) const GROUP: &str = "group";
/// A service has so many allocations, or as many as it is scaled to.
pub(super) const SERVICE_COUNT: u64 = 3;

/// A service; `revision` makes a new version of it, every other one of which replaces its allocations.
pub(super) fn service(id: &str, revision: u64) -> Bytes {
    let env = json!({"REVISION": (revision / 2).to_string()});
    let mut job = job(id, "service", SERVICE_COUNT, &task("24h", &env));
    job["Meta"] = json!({"revision": revision.to_string()});
    job["Update"] = json!({
        "MaxParallel": 2,
        "MinHealthyTime": 100_000_000_u64,
        "HealthyDeadline": 30_000_000_000_u64,
        "ProgressDeadline": 60_000_000_000_u64,
        "HealthCheck": "task_states",
    });
    body(&job)
}

/// A batch job whose tasks end by themselves.
pub(super) fn batch(id: &str) -> Bytes {
    body(&job(id, "batch", 2, &task("200ms", &json!({}))))
}

/// A batch job that is dispatched.
pub(super) fn parameterized(id: &str) -> Bytes {
    let mut job = job(id, "batch", 1, &task("200ms", &json!({})));
    job["ParameterizedJob"] = json!({"Payload": "optional"});
    body(&job)
}

/// A batch job that is launched every second.
pub(super) fn periodic(id: &str) -> Bytes {
    let mut job = job(id, "batch", 1, &task("200ms", &json!({})));
    job["Periodic"] = json!({"Enabled": true, "SpecType": "cron", "Spec": "* * * * * * *"});
    body(&job)
}

fn task(run_for: &str, env: &Value) -> Value {
    json!({
        "Name": "task",
        "Driver": "mock_driver",
        "Config": {"run_for": run_for},
        "Env": env,
        "LogConfig": {"Disabled": true, "MaxFiles": 1, "MaxFileSizeMB": 1},
        "Resources": {"CPU": 10, "MemoryMB": 10},
    })
}

fn job(id: &str, kind: &str, count: u64, task: &Value) -> Value {
    let group = json!({
        "Name": GROUP,
        "Count": count,
        "EphemeralDisk": {"SizeMB": 10},
        "RestartPolicy": {"Attempts": 1, "Interval": 60_000_000_000_u64, "Delay": 100_000_000_u64, "Mode": "fail"},
        "Tasks": [task],
    });
    json!({"ID": id, "Name": id, "Type": kind, "Datacenters": ["*"], "TaskGroups": [group]})
}

fn body(job: &Value) -> Bytes {
    json!({ "Job": job }).to_string().into()
}
