//! Follows the event stream. Whoever is too slow for it reads the state and goes on from there.

use hyper::HeaderMap;

use super::event::{AllocSeen, Line};
use crate::run::{
    Target,
    error::RunError,
    http::{Connection, Lines},
};

/// Allocations in a page of their list.
const PAGE: usize = 5_000;
const STREAM: &str = "/v1/event/stream?topic=Allocation&namespace=default";

/// A client of the event stream.
pub(super) struct Follower {
    target: Target,
    lines: Lines,
    /// How often it was too slow.
    fell_behind: u32,
}

impl Follower {
    /// Follows from now on.
    pub async fn open(target: &Target) -> Result<Self, RunError> {
        let lines = Connection::open(target).await?.lines(STREAM).await?;
        Ok(Self { target: target.clone(), lines, fell_behind: 0 })
    }

    /// What changed next; none when the client was too slow, and has to catch up. It may be called off without a loss.
    pub async fn next(&mut self) -> Result<Option<Vec<AllocSeen>>, RunError> {
        let line = self.lines.next().await?;
        let line: Line = serde_json::from_slice(&line).map_err(|error| RunError::Http {
            doing: "follow the event stream".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(line.error.is_empty().then(|| line.allocs()))
    }

    /// Reads the state, and goes on after it.
    pub async fn catch_up(&mut self) -> Result<Vec<AllocSeen>, RunError> {
        self.fell_behind += 1;
        let mut connection = Connection::open(&self.target).await?;
        let first = format!("/v1/allocations?task_states=true&per_page={PAGE}");
        let (mut allocs, mut headers): (Vec<AllocSeen>, _) = connection.get(&first).await?;
        let index = text(&headers, "x-nomad-index").unwrap_or("0").to_owned();
        while let Some(token) = text(&headers, "x-nomad-nexttoken") {
            let (page, next): (Vec<AllocSeen>, _) =
                connection.get(&format!("{first}&next_token={token}")).await?;
            allocs.extend(page);
            headers = next;
        }
        self.lines = connection.lines(&format!("{STREAM}&index={index}")).await?;
        Ok(allocs)
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

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().filter(|text| !text.is_empty())
}
