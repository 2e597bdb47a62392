//! The event stream.

use berth_api::http::{EventFrame, Lines};

use super::Remote;
use crate::failure::Failure;

/// Which events to follow.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// `TOPIC` or `TOPIC:KEY`; all topics when empty.
    pub topics: Vec<String>,
    /// Those at this index and later; none for those that happen from now on.
    pub from: Option<u64>,
}

impl Remote {
    /// What happens to a job's evaluations, deployments and allocations from `index` on.
    pub async fn job_events(&self, job: &str, index: u64) -> Result<Lines<EventFrame>, Failure> {
        let topics =
            ["Job", "Evaluation", "Deployment", "Allocation"].map(|topic| format!("{topic}:{job}")).to_vec();
        self.events(&EventFilter { topics, from: Some(index) }).await
    }

    /// Everything that the filter lets through, as it happens.
    pub async fn events(&self, filter: &EventFilter) -> Result<Lines<EventFrame>, Failure> {
        let target = self.target("/v1/event/stream");
        let target = filter.from.into_iter().fold(target, |target, index| target.param("index", index));
        let target = filter.topics.iter().fold(target, |target, topic| target.param("topic", topic));
        Ok(self.client.lines(&target).await?)
    }
}
