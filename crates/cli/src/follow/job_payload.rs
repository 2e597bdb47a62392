//! The job in the payload of a job's event: the fields that following a job needs.

use serde::Deserialize;

/// The `Job` object of an event's payload.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobPayload {
    pub status: String,
    pub outcome: String,
    pub stop: bool,
    task_groups: Option<Vec<GroupPayload>>,
}

/// One of its task groups.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct GroupPayload {
    reschedule_policy: Option<ReschedulePayload>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ReschedulePayload {
    unlimited: bool,
}

impl JobPayload {
    /// The payload that stands for a job that was purged.
    pub fn purged() -> Self {
        Self { status: "dead".to_owned(), stop: true, ..Self::default() }
    }

    /// Whether a number of attempts ends the rescheduling of each of its groups.
    pub fn ends_by_itself(&self) -> bool {
        let has_end =
            |group: &GroupPayload| group.reschedule_policy.as_ref().is_some_and(|policy| !policy.unlimited);
        self.task_groups.as_ref().is_some_and(|groups| groups.iter().all(has_end))
    }
}
