//! Jobs without their secrets, for callers that may follow events but not read jobs. Only the fields that are named here are kept:
//! any other, also a future one, is left out.

use serde_json::Value;

/// What is shown of a job.
const JOB: &[&str] = &[
    "CreateIndex",
    "Datacenters",
    "Dispatched",
    "ID",
    "JobModifyIndex",
    "ModifyIndex",
    "Name",
    "Namespace",
    "NodePool",
    "ParentID",
    "PeriodicLaunch",
    "Priority",
    "Region",
    "Stable",
    "Status",
    "StatusDescription",
    "Stop",
    "SubmitTime",
    "TaskGroups",
    "Type",
    "Version",
];
/// Fields of a group that are shown.
const GROUP: &[&str] = &["Count", "Name", "Tasks"];
/// Fields of a task that are shown.
const TASK: &[&str] = &["Driver", "Leader", "Name", "Resources"];

/// Takes all out of a job but what says which job it is, how it fares and what it asks for.
pub(super) fn without_secrets(mut job: Value) -> Value {
    retain_fields(&mut job, JOB);
    for group in items(&mut job, "TaskGroups") {
        retain_fields(group, GROUP);
        items(group, "Tasks").for_each(|task| retain_fields(task, TASK));
    }
    job
}

fn retain_fields(value: &mut Value, names: &[&str]) {
    if let Value::Object(members) = value {
        members.retain(|name, _| names.contains(&name.as_str()));
    }
}

fn items<'v>(value: &'v mut Value, name: &str) -> impl Iterator<Item = &'v mut Value> {
    value.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}
