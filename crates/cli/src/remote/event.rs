//! The event stream.

use std::collections::BTreeMap;

use berth_api::http::{AllocationStub, Event, EventFrame, JsonLines, Target};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Remote;
use crate::failure::{Exit, Failure};

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
    pub async fn job_events(&self, job: &str, index: u64) -> Result<JsonLines<EventFrame>, Failure> {
        let topics =
            ["Job", "Evaluation", "Deployment", "Allocation"].map(|topic| format!("{topic}:{job}")).to_vec();
        self.events(&EventFilter { topics, from: Some(index) }).await
    }

    /// How a job, its evaluations, deployments and allocations are now, shown as events: for who missed those that led there.
    pub async fn job_state(&self, job: &str) -> Result<Vec<Event>, Failure> {
        let (all, of) =
            (self.target("/v1/job").part(job), |what| self.target("/v1/job").part(job).part(what));
        let (deployments, evals, allocs) = (of("deployments"), of("evaluations"), of("allocations"));
        let (now, deployments, evals, allocs) = tokio::join!(
            self.quietly::<Value>(&all),
            self.quietly::<Vec<Value>>(&deployments),
            self.quietly::<Vec<Value>>(&evals),
            self.quietly::<Vec<AllocationStub>>(&allocs),
        );
        // One that was purged is gone.
        if matches!(&now, Err(failure) if failure.exit() == Exit::NotFound) {
            return Ok(vec![event("Job", Value::Null)]);
        }
        let allocs = allocs?;
        let previous: BTreeMap<&str, &str> =
            allocs.iter().map(|alloc| (&*alloc.next_allocation, &*alloc.id)).collect();
        let alloc = |alloc: &AllocationStub| {
            let mut object = json!(alloc);
            object["PreviousAllocation"] = previous.get(&*alloc.id).copied().unwrap_or_default().into();
            object
        };
        let deployments = deployments?.into_iter().map(|object| event("Deployment", object));
        let evals = evals?.into_iter().map(|object| event("Evaluation", object));
        let allocs = allocs.iter().map(|of| event("Allocation", alloc(of)));
        Ok([event("Job", now?)].into_iter().chain(deployments).chain(evals).chain(allocs).collect())
    }

    /// Reads without a note on what is not confirmed yet: the events that follow will confirm it.
    async fn quietly<T: DeserializeOwned>(&self, target: &Target) -> Result<T, Failure> {
        Ok(self.client.get(target).await?.value)
    }

    /// Everything that the filter lets through, as it happens.
    pub async fn events(&self, filter: &EventFilter) -> Result<JsonLines<EventFrame>, Failure> {
        let target = self.target("/v1/event/stream");
        let target = match filter.from {
            Some(index) => target.param("index", index),
            None => target.param("recent", false),
        };
        let target = filter.topics.iter().fold(target, |target, topic| target.param("topic", topic));
        Ok(self.client.lines(&target).await?)
    }
}

fn event(topic: &str, payload: Value) -> Event {
    Event { topic: topic.to_owned(), payload: json!({ topic: payload }), ..Event::default() }
}
