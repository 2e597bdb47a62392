//! How nodes join and are cast out: tokens with which one agent gets its first certificate, and nodes and servers whose
//! certificates are good for nothing any more.

use minicbor::{Decode, Encode};

use crate::{
    acl::SecretHash,
    ids::{Index, NodeId},
    time::Timestamp,
};

/// Most join tokens that have not expired.
pub const JOIN_TOKENS_MAX: usize = 10_000;
/// Most nodes that are revoked.
pub const REVOKED_NODES_MAX: usize = 1_000_000;

/// Most servers that are revoked: each agent is informed of all of them.
pub const REVOKED_SERVERS_MAX: usize = 256;
/// Longest name of a server that is revoked, in bytes: what a certificate can name.
pub const REVOKED_SERVER_NAME_MAX: usize = 128;

/// Lets one agent join.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct JoinToken {
    /// Hash of the token's secret.
    #[n(0)]
    pub secret: SecretHash,
    /// The node that joins again with it; none for one that is not there yet.
    #[n(1)]
    pub node: Option<NodeId>,
    /// From when on it is nothing any more.
    #[n(2)]
    pub expires_at: Timestamp,
    /// Who has joined with it.
    #[n(3)]
    pub joined: Option<JoinedNode>,
    /// Where it was made.
    #[n(4)]
    pub create_index: Index,
}

/// An agent that has joined. It may ask again, as one does that was killed before the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct JoinedNode {
    /// The node that it speaks for.
    #[n(0)]
    pub node: NodeId,
    /// Of its public key.
    #[n(1)]
    pub key: SecretHash,
}

/// An agent joins with the token of this secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Join {
    /// Of the token's secret.
    #[n(0)]
    pub secret: SecretHash,
    /// The node that joins, with its key.
    #[n(1)]
    pub joined: JoinedNode,
}

/// A node whose certificates are good for nothing if they are valid from then on or earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct RevokedNode {
    /// The node.
    #[n(0)]
    pub node: NodeId,
    /// When that was said.
    #[n(1)]
    pub at: Timestamp,
}

/// A server whose certificates are good for nothing if they are valid from then on or earlier.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RevokedServer {
    /// The name that they name, in small letters.
    #[n(0)]
    pub name: String,
    /// When that was said.
    #[n(1)]
    pub at: Timestamp,
}
