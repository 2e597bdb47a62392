//! What keeps servers of another cluster, and servers that lag behind, from deciding over a node.

use super::{ClusterId, SessionError};
use crate::agent::Welcome;

/// The cluster that a node belongs to, and the log position of the desired state that it took in last. Kept on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fence {
    /// None until a first server has said which.
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
            _ => Ok(Self { cluster: Some(theirs), term: 0, index: 0 }),
        }
    }

    /// Whether this position is none that the node has passed.
    pub(super) fn allows(self, term: u64, index: u64) -> bool {
        (term, index) >= (self.term, self.index)
    }
}

/// The server's cluster; none when it does not say: 16 zero bytes, or none at all.
fn cluster_of(welcome: &Welcome) -> Result<Option<ClusterId>, SessionError> {
    let bytes = &welcome.cluster_id;
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    ClusterId::from_slice(bytes).map(Some).ok_or(SessionError::ClusterId(bytes.len()))
}
