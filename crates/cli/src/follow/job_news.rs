//! What a job's events say of the job itself, as far as it matters to whoever follows it.

use serde::Deserialize;

/// What a job's events say of the job itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobNews {
    pub status: String,
    pub outcome: String,
    pub stop: bool,
    task_groups: Option<Vec<GroupNews>>,
}

/// What they say of one of its groups.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct GroupNews {
    reschedule_policy: Option<RescheduleNews>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct RescheduleNews {
    unlimited: bool,
}

impl JobNews {
    /// Of a job that was purged.
    pub fn gone() -> Self {
        Self { status: "dead".to_owned(), stop: true, ..Self::default() }
    }

    /// Whether a number of attempts ends the rescheduling of each of its groups.
    pub fn ends_by_itself(&self) -> bool {
        let has_end =
            |group: &GroupNews| group.reschedule_policy.as_ref().is_some_and(|policy| !policy.unlimited);
        self.task_groups.as_ref().is_some_and(|groups| groups.iter().all(has_end))
    }
}
