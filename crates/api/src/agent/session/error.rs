//! Errors with which the agent's side ends a session.

use super::{AllocId, ClusterId};
use crate::agent::{DESIRED_ALLOCS_MAX, DESIRED_BYTES_MAX};

/// A server that breaks the protocol, or that this node must not listen to. The connection cannot be used any further;
/// no task is touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Servers and agent do not belong together.
    #[error(
        "the server belongs to cluster {theirs}, this node to cluster {ours}: point the agent at servers of its own \
         cluster, or give it a new data directory to join the other one"
    )]
    OtherCluster {
        /// The node's.
        ours: ClusterId,
        /// The server's.
        theirs: ClusterId,
    },
    /// Not 16 bytes.
    #[error("read a welcome: the cluster's id has {0} bytes instead of 16")]
    ClusterId(usize),
    /// Nobody was welcomed.
    #[error("desired state came before a welcome")]
    BeforeWelcome,
    /// Something was lost on the way, or is sent twice.
    #[error("desired state number {got} came where number {expected} was due")]
    Gap {
        /// What was due.
        expected: u64,
        /// What came.
        got: u64,
    },
    /// Not 16 bytes.
    #[error("read desired state: an allocation id has {0} bytes instead of 16")]
    AllocId(usize),
    /// The message does not hold the group.
    #[error(
        "read desired state: allocation {alloc} refers to group {group_ref}, which the message does not hold"
    )]
    GroupRef {
        /// The allocation.
        alloc: AllocId,
        /// What it says.
        group_ref: u32,
    },
    /// More than an agent holds.
    #[error("read desired state: a full list names more than {DESIRED_ALLOCS_MAX} allocations")]
    TooManyAllocs,
    /// A full list is too large.
    #[error("read desired state: a full list has more than {DESIRED_BYTES_MAX} bytes")]
    TooManyBytes,
}
