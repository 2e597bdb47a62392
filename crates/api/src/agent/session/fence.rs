//! Fencing: rejects servers of another cluster, and servers that lag behind the desired state that the node has accepted.

use std::cmp::Ordering;

use super::{ClusterId, SessionError};
use crate::agent::Welcome;

/// The cluster that a node belongs to, and the log position of the desired state that it took in last. Kept on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fence {
    /// None before the first server.
    pub cluster: Option<ClusterId>,
    /// The leader's term.
    pub term: u64,
    /// The log's index.
    pub index: u64,
}

impl Fence {
    /// The fence after a welcome: as it was, or that of a node which joins a cluster. Terms and indexes of another
    /// cluster, or of the same one before it was restored, mean nothing there.
    ///
    /// # Errors
    /// When the node belongs to another cluster.
    pub(super) fn after(self, welcome: &Welcome) -> Result<Self, SessionError> {
        let Some(theirs) = cluster_of(welcome)? else { return Ok(self) };
        match self.cluster {
            Some(ours) if ours == theirs => Ok(self),
            Some(ours) if !welcome.restored => Err(SessionError::OtherCluster { ours, theirs }),
            // It had no name yet when the node was informed of what it holds.
            None if !welcome.restored => Ok(Self { cluster: Some(theirs), ..self }),
            _ => Ok(Self { cluster: Some(theirs), term: 0, index: 0 }),
        }
    }

    /// Whether this position is none that the node has passed. A later term alone says nothing: a server that knows of an
    /// election may lag behind all that was reported before it.
    pub(super) fn allows(self, term: u64, index: u64) -> bool {
        match era(term).cmp(&era(self.term)) {
            Ordering::Equal => term >= self.term && index >= self.index,
            later_or_not => later_or_not.is_gt(),
        }
    }

    /// The node has come to this position, unless it was further.
    pub fn advance(&mut self, term: u64, index: u64) {
        if self.allows(term, index) {
            (self.term, self.index) = (term, index);
        }
    }
}

/// Bits of a term that count elections; those above them count recoveries of the cluster.
const ELECTION_BITS: u32 = 32;

/// How often a cluster was recovered, and began again: a new era knows nothing of what the old one reported last.
fn era(term: u64) -> u64 {
    term >> ELECTION_BITS
}

/// The server's cluster; none when it does not say: 16 zero bytes, or none at all.
fn cluster_of(welcome: &Welcome) -> Result<Option<ClusterId>, SessionError> {
    let bytes = &welcome.cluster_id;
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    ClusterId::from_slice(bytes).map(Some).ok_or(SessionError::ClusterId(bytes.len()))
}
