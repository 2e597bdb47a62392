//! What clients read of allocations, evaluations and deployments, in the event stream and in lists: as few fields as possible, since
//! there are many.

use std::fmt;

use berth_api::http::Time;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

/// A line of the event stream.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct EventLine {
    #[serde(default)]
    events: Vec<StreamEvent>,
    /// Why the stream ends here; empty while it goes on.
    #[serde(default)]
    pub error: String,
    /// With an error: where to go on once the state has been read.
    #[serde(default)]
    pub resume_index: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StreamEvent {
    payload: Option<EventPayload>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EventPayload {
    allocation: Option<AllocEvent>,
    evaluation: Option<EvalEvent>,
    deployment: Option<DeploymentEvent>,
}

/// What one line of the event stream has brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::run) struct EventBatch {
    /// Allocations.
    pub allocs: Vec<AllocEvent>,
    /// Evaluations.
    pub evals: Vec<EvalEvent>,
    /// Deployments.
    pub deployments: Vec<DeploymentEvent>,
}

impl EventLine {
    /// What it reports.
    pub fn batch(self) -> EventBatch {
        let mut batch = EventBatch::default();
        for payload in self.events.into_iter().filter_map(|event| event.payload) {
            batch.allocs.extend(payload.allocation);
            batch.evals.extend(payload.evaluation);
            batch.deployments.extend(payload.deployment);
        }
        batch
    }
}

/// An evaluation as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::run) struct EvalEvent {
    /// Its job's id.
    #[serde(rename = "JobID")]
    pub job: String,
    /// How far it is.
    pub status: String,
    /// The blocked evaluation, for what could not be placed; empty for none.
    #[serde(default)]
    pub blocked_eval: String,
}

impl EvalEvent {
    /// Whether something could not be placed.
    pub fn is_refusal(&self) -> bool {
        self.status == "blocked" || !self.blocked_eval.is_empty()
    }
}

/// A deployment as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::run) struct DeploymentEvent {
    /// Its job's id.
    #[serde(rename = "JobID")]
    pub job: String,
    /// How far it is.
    pub status: String,
    /// In words, what it is.
    #[serde(rename = "StatusDescription", default)]
    pub description: String,
}

/// An allocation as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::run) struct AllocEvent {
    /// Its id.
    #[serde(rename = "ID", deserialize_with = "uuid")]
    pub id: u128,
    /// Its job's id.
    #[serde(rename = "JobID")]
    pub job: String,
    /// Its client status.
    #[serde(rename = "ClientStatus")]
    pub status: AllocStatus,
    /// When it was made, by the server's clock.
    #[serde(rename = "CreateTime", default)]
    pub created_ns: u64,
    /// What happened to its tasks.
    #[serde(rename = "TaskStates", default)]
    pub tasks: TaskTimes,
}

/// The client status of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::run) enum AllocStatus {
    Pending,
    Running,
    Complete,
    Failed,
    Lost,
    #[serde(other)]
    Unknown,
}

/// When a node had an allocation and ran it, by the node's clock; 0 for not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::run) struct TaskTimes {
    /// The first of its tasks was known there.
    pub received_ns: u64,
    /// The first of its tasks was started: from then on it runs.
    pub started_ns: u64,
    /// The last of its tasks was started; 0 while one is not.
    pub all_started_ns: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TaskStateTimes {
    #[serde(default)]
    started_at: Option<Time>,
    #[serde(default)]
    events: Option<Vec<TaskEventTime>>,
}

impl TaskStateTimes {
    fn received_ns(&self) -> Option<u64> {
        let mut events = self.events.iter().flatten();
        events.find(|event| event.kind == TaskEventKind::Received).map(|event| event.time)
    }

    fn started_ns(&self) -> Option<u64> {
        self.started_at.map(|Time(ns)| ns).filter(|ns| *ns > 0)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TaskEventTime {
    #[serde(rename = "Type")]
    kind: TaskEventKind,
    time: u64,
}

#[derive(PartialEq, Deserialize)]
enum TaskEventKind {
    Received,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for TaskTimes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TaskTimesVisitor)
    }
}

struct TaskTimesVisitor;

impl<'de> Visitor<'de> for TaskTimesVisitor {
    type Value = TaskTimes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tasks by name, or null")
    }

    fn visit_unit<E>(self) -> Result<TaskTimes, E> {
        Ok(TaskTimes::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut tasks: A) -> Result<TaskTimes, A::Error> {
        let (mut received, mut started, mut all_started) = (None, None, Some(0));
        while let Some((IgnoredAny, task)) = tasks.next_entry::<IgnoredAny, TaskStateTimes>()? {
            received = earliest(received, task.received_ns());
            started = earliest(started, task.started_ns());
            all_started = all_started.zip(task.started_ns()).map(|(last, this)| this.max(last));
        }
        Ok(TaskTimes {
            received_ns: received.unwrap_or_default(),
            started_ns: started.unwrap_or_default(),
            all_started_ns: all_started.unwrap_or_default(),
        })
    }
}

fn earliest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

fn uuid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
    struct Uuid;

    impl Visitor<'_> for Uuid {
        type Value = u128;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an id such as 7f9c24e5-8b13-4d0a-9a55-0c9d3a6e1b42")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<u128, E> {
            let digits = text.bytes().filter(|byte| *byte != b'-');
            let value = digits.into_iter().try_fold((0_u128, 0), |(value, count), byte| {
                let digit = char::from(byte).to_digit(16)?;
                Some((value << 4 | u128::from(digit), count + 1))
            });
            match value {
                Some((value, 32)) => Ok(value),
                _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
            }
        }
    }

    deserializer.deserialize_str(Uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocs(line: &str) -> Vec<AllocEvent> {
        serde_json::from_str::<EventLine>(line).unwrap().batch().allocs
    }

    #[test]
    fn an_allocation_is_read_with_what_happened_to_its_tasks() {
        let line = r#"{"Index":7,"Events":[{"Topic":"Allocation","Type":"AllocationUpdated","Index":7,"Payload":{
            "Allocation":{"ID":"7f9c24e5-8b13-4d0a-9a55-0c9d3a6e1b42","JobID":"lab-1-2","ClientStatus":"running",
            "CreateTime":5,"Resources":{"CPU":1},"TaskStates":{
              "one":{"State":"running","StartedAt":"1970-01-01T00:00:00.000000008Z",
                "Events":[{"Type":"Received","Time":6},{"Type":"Started","Time":8}]},
              "two":{"State":"running","StartedAt":"1970-01-01T00:00:00.000000009Z",
                "Events":[{"Type":"Received","Time":7}]}}}}}]}"#;
        let expected = AllocEvent {
            id: 0x7f9c_24e5_8b13_4d0a_9a55_0c9d_3a6e_1b42,
            job: "lab-1-2".to_owned(),
            status: AllocStatus::Running,
            created_ns: 5,
            tasks: TaskTimes { received_ns: 6, started_ns: 8, all_started_ns: 9 },
        };
        assert_eq!(allocs(line), [expected]);
    }

    #[test]
    fn what_is_gone_or_not_started_is_read_too() {
        assert_eq!(allocs(r#"{"Events":[{"Payload":null},{"Payload":{}}]}"#), []);
        assert_eq!(allocs("{}"), []);
        let line = r#"{"Events":[{"Payload":{"Allocation":{"ID":"7f9c24e58b134d0a9a550c9d3a6e1b42","JobID":"x",
            "ClientStatus":"paused","TaskStates":{"one":{"StartedAt":"0001-01-01T00:00:00Z",
            "Events":[{"Type":"Received","Time":6}]},"two":{"StartedAt":null}}}}}]}"#;
        let alloc = &allocs(line)[0];
        assert_eq!(alloc.status, AllocStatus::Unknown);
        assert_eq!(alloc.tasks, TaskTimes { received_ns: 6, started_ns: 0, all_started_ns: 0 });
        assert_eq!(serde_json::from_str::<EventLine>(r#"{"Error":"too old"}"#).unwrap().error, "too old");
    }

    #[test]
    fn an_evaluation_says_whether_something_found_no_room() {
        let line = r#"{"Events":[{"Payload":{"Evaluation":{"JobID":"a","Status":"complete","BlockedEval":""}}},
            {"Payload":{"Evaluation":{"JobID":"b","Status":"complete","BlockedEval":"7f9c"}}},
            {"Payload":{"Evaluation":{"JobID":"b","Status":"blocked"}}}]}"#;
        let evals = serde_json::from_str::<EventLine>(line).unwrap().batch().evals;
        assert_eq!(evals.iter().map(EvalEvent::is_refusal).collect::<Vec<_>>(), [false, true, true]);
    }

    #[test]
    fn a_deployment_is_read_with_how_far_it_is() {
        let line = r#"{"Events":[{"Payload":{"Deployment":{"ID":"7f9c","JobID":"a","Status":"failed",
            "StatusDescription":"Failed due to progress deadline"}}}]}"#;
        let deployments = serde_json::from_str::<EventLine>(line).unwrap().batch().deployments;
        let expected = DeploymentEvent {
            job: "a".to_owned(),
            status: "failed".to_owned(),
            description: "Failed due to progress deadline".to_owned(),
        };
        assert_eq!(deployments, [expected]);
    }

    #[test]
    fn an_id_that_is_none_is_refused() {
        let read = serde_json::from_str::<AllocEvent>(r#"{"ID":"7f9c","JobID":"x","ClientStatus":"lost"}"#);
        assert!(read.unwrap_err().to_string().contains("an id such as"));
    }
}
