//! Follows the event stream. When the client was too slow for it, it reads the state again and follows from its index.

use berth_api::http::{Client, JsonLines, Target as Request};

use super::event::{EventBatch, EventLine};
use crate::run::{Target, error::RunError, http::Connection};

/// The topics to subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum FollowedTopics {
    /// Allocations.
    Allocs,
    /// Allocations and evaluations.
    AllocsAndEvals,
    /// Allocations and deployments.
    AllocsAndDeployments,
}

impl FollowedTopics {
    fn stream(self) -> Request {
        let allocs = Request::new("/v1/event/stream")
            .param("namespace", "default")
            .param("topic", "Allocation")
            .param("recent", false);
        match self {
            Self::Allocs => allocs,
            Self::AllocsAndEvals => allocs.param("topic", "Evaluation"),
            Self::AllocsAndDeployments => allocs.param("topic", "Deployment"),
        }
    }
}

/// A client of the event stream.
pub(in crate::run) struct EventFollower {
    target: Target,
    client: Client,
    topics: FollowedTopics,
    lines: JsonLines<EventLine>,
    /// Where to go on once the state has been read; of no meaning before the client was too slow.
    resume_index: u64,
    /// How often it was too slow.
    fell_behind: u32,
}

impl EventFollower {
    /// Follows from now on.
    pub async fn open(target: &Target, topics: FollowedTopics) -> Result<Self, RunError> {
        let client = target.client();
        let lines = client.lines(&topics.stream()).await.map_err(failed)?;
        Ok(Self { target: target.clone(), client, topics, lines, resume_index: 0, fell_behind: 0 })
    }

    /// What changed next; none when the client was too slow, and has to catch up. It may be called off without a loss.
    pub async fn next(&mut self) -> Result<Option<EventBatch>, RunError> {
        let line = self.lines.next().await.map_err(failed)?.ok_or_else(|| failed("it ended"))?;
        if line.error.is_empty() {
            return Ok(Some(line.batch()));
        }
        self.resume_index = line.resume_index;
        Ok(None)
    }

    /// Reads the state, which covers the changes that are no longer retained, and continues from the first one that is.
    pub async fn catch_up(&mut self) -> Result<EventBatch, RunError> {
        self.fell_behind += 1;
        let mut connection = Connection::open(&self.target).await?;
        let allocs = connection.list("/v1/allocations?task_states=true&").await?;
        let (mut evals, mut deployments) = (Vec::new(), Vec::new());
        match self.topics {
            FollowedTopics::Allocs => {}
            FollowedTopics::AllocsAndEvals => evals = connection.list("/v1/evaluations?").await?,
            FollowedTopics::AllocsAndDeployments => deployments = connection.list("/v1/deployments?").await?,
        }
        let resumed = self.topics.stream().param("index", self.resume_index);
        self.lines = self.client.lines(&resumed).await.map_err(failed)?;
        Ok(EventBatch { allocs, evals, deployments })
    }

    /// Whether times are less exact than they should be, for people.
    pub fn note(&self) -> Option<String> {
        (self.fell_behind > 0).then(|| {
            format!(
                "the client was too slow for the event stream {} times and read the state instead: what changed \
                 meanwhile was seen late",
                self.fell_behind
            )
        })
    }
}

fn failed(reason: impl std::fmt::Display) -> RunError {
    RunError::Http { doing: "follow the event stream".to_owned(), reason: reason.to_string() }
}
