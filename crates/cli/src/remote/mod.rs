//! The server that commands talk to: one method for each request, and the shortened ids that people type.

mod lookup;

use berth_api::http::{
    Address, AllocStopped, Allocation, AllocationStub, Client, Evaluation, EventFrame, JobDeregistered,
    JobRegister, JobRegistered, JobStub, JobSummary, Lines, Node, NodeStub, StreamFrame, Target,
};
use berth_model::job::Job;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::runtime;

use crate::{
    failure::{Exit, Failure},
    output,
};

pub use lookup::only_task;

/// A server, as seen from a namespace.
#[derive(Debug, Clone)]
pub struct Remote {
    client: Client,
    namespace: String,
}

/// A part of a log to read.
#[derive(Debug, Clone)]
pub struct LogRead<'a> {
    /// Whose.
    pub alloc: &'a str,
    /// The task's name.
    pub task: &'a str,
    /// `stdout` or `stderr`.
    pub stream: &'static str,
    /// Where to begin.
    pub from: LogStart,
    /// Go on with what is written from now on.
    pub follow: bool,
}

/// Where in a log to begin.
#[derive(Debug, Clone, Copy)]
pub enum LogStart {
    /// Bytes since the task's first output.
    Offset(u64),
    /// Bytes before the end.
    BeforeEnd(u64),
}

impl Remote {
    /// The server at that address.
    pub fn new(address: &str, namespace: &str) -> Result<Self, Failure> {
        let address: Address =
            address.parse().map_err(|error| Failure::new(Exit::Usage, format!("{error}")))?;
        Ok(Self { client: Client::new(address), namespace: namespace.to_owned() })
    }

    /// The same server, seen from another namespace.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self { client: self.client.clone(), namespace: namespace.to_owned() }
    }

    /// Registers a job; with an index only if the job was last registered there, 0 for never.
    pub async fn register(&self, job: &Job, check_index: Option<u64>) -> Result<JobRegistered, Failure> {
        let body = JobRegister {
            job: berth_jobfile::to_json(job),
            enforce_index: check_index.is_some(),
            job_modify_index: check_index.unwrap_or_default(),
        };
        Ok(self.client.put(&self.target("/v1/jobs"), &body).await?.value)
    }

    /// Stops a job, and forgets it with `purge`.
    pub async fn deregister(&self, job: &str, purge: bool) -> Result<JobDeregistered, Failure> {
        let target = self.target("/v1/job").part(job).param("purge", purge);
        Ok(self.client.delete(&target).await?.value)
    }

    /// All jobs.
    pub async fn jobs(&self) -> Result<Vec<JobStub>, Failure> {
        self.get(&self.target("/v1/jobs")).await
    }

    /// A job as its owner wrote it, and what the server knows of it.
    pub async fn job(&self, id: &str) -> Result<Value, Failure> {
        self.get(&self.target("/v1/job").part(id)).await
    }

    /// How many of a job's allocations are in which state.
    pub async fn job_summary(&self, id: &str) -> Result<JobSummary, Failure> {
        self.get(&self.target("/v1/job").part(id).part("summary")).await
    }

    /// A job's allocations.
    pub async fn job_allocations(&self, id: &str) -> Result<Vec<AllocationStub>, Failure> {
        self.get(&self.target("/v1/job").part(id).part("allocations")).await
    }

    /// A job's evaluations that are still kept.
    pub async fn job_evaluations(&self, id: &str) -> Result<Vec<Evaluation>, Failure> {
        self.get(&self.target("/v1/job").part(id).part("evaluations")).await
    }

    /// An allocation by its whole id.
    pub async fn allocation(&self, id: &str) -> Result<Allocation, Failure> {
        self.get(&self.target("/v1/allocation").part(id)).await
    }

    /// Stops an allocation; its job gets another one.
    pub async fn stop_allocation(&self, id: &str) -> Result<AllocStopped, Failure> {
        Ok(self.client.put(&self.target("/v1/allocation").part(id).part("stop"), &json!({})).await?.value)
    }

    /// All nodes.
    pub async fn nodes(&self) -> Result<Vec<NodeStub>, Failure> {
        self.get(&self.target("/v1/nodes")).await
    }

    /// A node by its whole id.
    pub async fn node(&self, id: &str) -> Result<Node, Failure> {
        self.get(&self.target("/v1/node").part(id)).await
    }

    /// The allocations on a node. They come whole; a list needs less.
    pub async fn node_allocations(&self, id: &str) -> Result<Vec<AllocationStub>, Failure> {
        self.get(&self.target("/v1/node").part(id).part("allocations")).await
    }

    /// What happens to a job's evaluations and allocations after `index`.
    pub async fn job_events(&self, job: &str, index: u64) -> Result<Lines<EventFrame>, Failure> {
        let target = self.target("/v1/event/stream").param("index", index);
        let topics = ["Evaluation", "Allocation"].map(|topic| format!("{topic}:{job}"));
        let target = topics.iter().fold(target, |target, topic| target.param("topic", topic));
        Ok(self.client.lines(&target).await?)
    }

    /// Pieces of a task's log.
    pub async fn log(&self, read: &LogRead<'_>) -> Result<Lines<StreamFrame>, Failure> {
        let (origin, offset) = match read.from {
            LogStart::Offset(offset) => ("start", offset),
            LogStart::BeforeEnd(offset) => ("end", offset),
        };
        let target = self.target("/v1/client/fs/logs").part(read.alloc).param("task", read.task);
        let target = target.param("type", read.stream).param("origin", origin).param("offset", offset);
        Ok(self.client.lines(&target.param("follow", read.follow)).await?)
    }

    fn target(&self, path: &str) -> Target {
        Target::new(path).param("namespace", &self.namespace)
    }

    async fn get<T: DeserializeOwned>(&self, target: &Target) -> Result<T, Failure> {
        let answer = self.client.get(target).await?;
        if answer.unconfirmed_nodes > 0 {
            let nodes = answer.unconfirmed_nodes;
            output::tell(&format!(
                "note: not yet confirmed by its node: what is said of {nodes} of the nodes"
            ));
        }
        Ok(answer.value)
    }
}

/// Does the work of a command that only talks to a server.
pub fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
