//! What the allocator is given, and what it offers.

use berth_model::{NodeId, Timestamp};

use super::Bundle;
use crate::fairness::{Amounts, Weight};

/// Names a framework; chosen by the caller, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameworkId(pub u64);

/// What a role is guaranteed, and its limit. Of what is in it, all roles below it hold part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleQuota {
    /// Kept free for it for as long as it holds less; zero for what it is not guaranteed.
    pub guarantee: Amounts,
    /// It is not offered more; [`Amounts::UNLIMITED`] for what is not limited.
    pub limit: Amounts,
}

impl Default for RoleQuota {
    fn default() -> Self {
        Self { guarantee: Amounts::ZERO, limit: Amounts::UNLIMITED }
    }
}

/// One thing that happened. A role is named by its path: `eng/dev` hangs below `eng`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfferEvent {
    /// A node offers resources from now on.
    NodeAdded(NodeId, Bundle),
    /// A node is gone, with all that was held on it.
    NodeRemoved(NodeId),
    /// Whether what is free on a node is offered.
    NodeOpened(NodeId, bool),
    /// A framework subscribes to roles.
    FrameworkAdded(FrameworkId, Vec<String>),
    /// A framework is gone; what it held is free.
    FrameworkRemoved(FrameworkId),
    /// Whether a framework is there to take offers.
    FrameworkOpened(FrameworkId, bool),
    /// A framework wants no offers for a role.
    Suppressed(FrameworkId, String),
    /// A framework wants offers for a role again, whatever it refused before.
    Revived(FrameworkId, String),
    /// How much more than its siblings a role should get.
    WeightSet(String, Weight),
    /// What a role is guaranteed, and its limit.
    QuotaSet(String, RoleQuota),
    /// A framework holds something that it was not offered by this allocator: it ran before.
    Charged(FrameworkId, String, NodeId, Bundle),
    /// What a framework held on a node is free: it ended, or was not wanted.
    Recovered(FrameworkId, String, NodeId, Bundle),
    /// A framework will not take as much as this, or less, of a node until then.
    Refused(FrameworkId, String, NodeId, Bundle, Timestamp),
}

/// Part of a node, to be taken or returned by one framework. It holds it until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The framework that receives the offer.
    pub framework: FrameworkId,
    /// As a member of which role.
    pub role: std::sync::Arc<str>,
    /// The node.
    pub node: NodeId,
    /// The resources.
    pub bundle: Bundle,
}

/// An event that does not fit what the allocator knows. It changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OffersError {
    /// There is no such node.
    #[error("node {0} is not known to the allocator")]
    NoNode(NodeId),
    /// There is one already.
    #[error("node {0} was added before: remove it first")]
    NodeKnown(NodeId),
    /// There is no such framework.
    #[error("framework {0:?} is not known to the allocator")]
    NoFramework(FrameworkId),
    /// There is one already.
    #[error("framework {0:?} was added before: remove it first")]
    FrameworkKnown(FrameworkId),
    /// It did not subscribe to that role.
    #[error("framework {0:?} is not a member of role {1:?}")]
    NotMember(FrameworkId, String),
    /// Not a path of names.
    #[error("{0:?} is not a role: expected names with slashes between them, as in eng/dev")]
    RoleName(String),
    /// More than it holds there would be taken from a framework.
    #[error("framework {0:?} does not hold {2:?} on node {1}")]
    NotHeld(FrameworkId, NodeId, Box<Bundle>),
    /// Less is free there than a framework is said to hold.
    #[error("node {1} has no room for {2:?} of framework {0:?}")]
    NotFree(FrameworkId, NodeId, Box<Bundle>),
    /// A limit is below the guarantee, or guarantees do not fit each other.
    #[error("quota of role {0:?}: {1}")]
    Quota(String, &'static str),
}
