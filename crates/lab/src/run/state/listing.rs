//! The lists that are read, and whether an answer is complete. While the clock runs, items are counted in the bytes of the answer:
//! parsing it would take the client longer than the server takes to write it.

use std::collections::HashSet;

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;

use super::cluster_state::ClusterState;
use crate::run::{RunError, http::Connection};

/// A list that is read, with its path in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    Nodes,
    Allocs,
}

impl Listing {
    /// All that a poll reads, one after the other.
    pub const ALL: [Self; 2] = [Self::Nodes, Self::Allocs];

    /// Its name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Allocs => "allocations",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Nodes => "/v1/nodes",
            Self::Allocs => "/v1/allocations",
        }
    }

    /// What stands once in each item that is counted.
    fn mark(self, state: &ClusterState) -> String {
        match self {
            Self::Nodes => r#""SchedulingEligibility":"#.to_owned(),
            Self::Allocs => format!(r#""JobID":"{}"#, state.ids.prefix()),
        }
    }
}

/// How many items the lists have, of those that neither come nor go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExpectedCounts {
    pub nodes: u64,
    pub allocs: u64,
}

#[derive(Debug, PartialEq, Eq, Hash, Deserialize)]
struct ListedNode {
    #[serde(rename = "ID")]
    id: String,
}

#[derive(Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedAlloc {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "JobID")]
    job: String,
    client_status: String,
}

impl ExpectedCounts {
    fn of(self, listing: Listing) -> u64 {
        match listing {
            Listing::Nodes => self.nodes,
            Listing::Allocs => self.allocs,
        }
    }

    /// Reads and parses both lists once, without a clock: each item is there once and as it should be.
    pub async fn read(connection: &mut Connection, state: &ClusterState) -> Result<Self, RunError> {
        let nodes: Vec<ListedNode> = parse(connection, Listing::Nodes).await?;
        let (count, nodes) = (nodes.len(), nodes.into_iter().collect::<HashSet<_>>().len());
        if nodes < state.count as usize || count != nodes {
            let message =
                format!("the list of nodes holds {count} items with {nodes} ids, of {} nodes", state.count);
            return Err(RunError::Incomplete(message));
        }
        let allocs: Vec<ListedAlloc> = parse(connection, Listing::Allocs).await?;
        let prefix = state.ids.prefix();
        let own = || allocs.iter().filter(|alloc| alloc.job.starts_with(&prefix));
        let ids = own().map(|alloc| &*alloc.id).collect::<HashSet<_>>().len() as u64;
        let [running, complete] = ["running", "complete"]
            .map(|status| own().filter(|alloc| alloc.client_status == status).count() as u64);
        if [running, complete] != [state.allocs(); 2] || ids != 2 * state.allocs() {
            let each = state.allocs();
            let message = format!(
                "the list of allocations holds {running} that run and {complete} that have completed, with {ids} ids, of \
                 {each} each"
            );
            return Err(RunError::Incomplete(message));
        }
        Ok(Self { nodes: nodes as u64, allocs: ids })
    }
}

async fn parse<T: serde::de::DeserializeOwned>(
    connection: &mut Connection,
    listing: Listing,
) -> Result<Vec<T>, RunError> {
    let body = connection.request(Method::GET, listing.path(), Bytes::new()).await?;
    serde_json::from_slice(&body).map_err(|error| RunError::Http {
        doing: format!("read the list of {}", listing.name()),
        reason: error.to_string(),
    })
}

/// Reads a list whole; returns how many bytes it has.
///
/// # Errors
/// When it cannot be read, or is not all of it.
pub(super) async fn read(
    connection: &mut Connection,
    listing: Listing,
    state: &ClusterState,
    expected: ExpectedCounts,
) -> Result<u64, RunError> {
    let mut tally = MarkCounter::of(listing.mark(state));
    connection.read(listing.path(), |chunk| tally.add(chunk)).await?;
    let wrong = |what: String| RunError::Incomplete(format!("the list of {} {what}", listing.name()));
    if !tally.is_array() {
        return Err(wrong("is not an array from its begin to its end".to_owned()));
    }
    let expected = expected.of(listing);
    if tally.marks != expected {
        return Err(wrong(format!("holds {} of {expected} items", tally.marks)));
    }
    Ok(tally.bytes)
}

/// Counts a mark in text that arrives in chunks (Horspool 1980: most bytes are never compared).
#[derive(Debug)]
struct MarkCounter {
    mark: Vec<u8>,
    /// How far the search may go on behind a byte.
    skips: [u8; 256],
    /// What may be the begin of a mark at the end of the last piece.
    rest: Vec<u8>,
    first: Option<u8>,
    last: Option<u8>,
    marks: u64,
    bytes: u64,
}

impl MarkCounter {
    /// `mark` has from 1 to 255 bytes.
    fn of(mark: String) -> Self {
        let mark = mark.into_bytes();
        let len = u8::try_from(mark.len()).expect("a mark is short");
        let mut skips = [len; 256];
        for (at, byte) in (1..len).zip(&mark) {
            skips[usize::from(*byte)] = len - at;
        }
        Self { mark, skips, rest: Vec::new(), first: None, last: None, marks: 0, bytes: 0 }
    }

    fn add(&mut self, chunk: &[u8]) {
        self.first = self.first.or(chunk.first().copied());
        self.last = chunk.last().copied().or(self.last);
        self.bytes += chunk.len() as u64;
        let over = self.mark.len() - 1;
        // A mark that lies in both is in neither of them.
        self.rest.extend_from_slice(&chunk[..chunk.len().min(over)]);
        self.marks += self.count(&self.rest) + self.count(chunk);
        let tail = if chunk.len() >= over { &chunk[chunk.len() - over..] } else { &self.rest };
        self.rest = tail[tail.len().saturating_sub(over)..].to_vec();
    }

    fn count(&self, text: &[u8]) -> u64 {
        let (mut count, mut at) = (0, 0);
        while let Some(window) = text.get(at..at + self.mark.len()) {
            count += u64::from(window == self.mark);
            at += usize::from(self.skips[usize::from(window[window.len() - 1])]);
        }
        count
    }

    fn is_array(&self) -> bool {
        self.first == Some(b'[') && self.last == Some(b']')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_counted_wherever_the_text_is_cut() {
        let text = br#"[{"ID":"1","JobID":"lab-1"},{"JobID":"lab-1"},{"JobID":"lab-2"}]"#;
        for size in 1..=text.len() {
            let mut tally = MarkCounter::of(r#""JobID":"lab-1"#.to_owned());
            text.chunks(size).for_each(|chunk| tally.add(chunk));
            assert_eq!((tally.marks, tally.bytes), (2, text.len() as u64), "in pieces of {size}");
            assert!(tally.is_array());
        }
    }

    #[test]
    fn marks_that_overlap_by_letters_are_found() {
        for (mark, text, marks) in [("a", "aa", 2), ("ab", "abab", 2), ("aba", "ababa", 2), ("abc", "ab", 0)]
        {
            for size in 1..=text.len() {
                let mut tally = MarkCounter::of(mark.to_owned());
                text.as_bytes().chunks(size).for_each(|chunk| tally.add(chunk));
                assert_eq!(tally.marks, marks, "{mark} in {text} in pieces of {size}");
            }
        }
    }

    #[test]
    fn an_answer_that_breaks_off_is_no_array() {
        let mut tally = MarkCounter::of("x".to_owned());
        assert!(!tally.is_array());
        tally.add(b"[{},{");
        assert!(!tally.is_array());
        tally.add(b"}]");
        assert!(tally.is_array());
    }
}
