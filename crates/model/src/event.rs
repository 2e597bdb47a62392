//! What applying an entry changed, for whoever keeps something in step with the store.

use std::fmt;

use crate::{
    command::Outcome,
    ids::{AclRoleId, AclTokenId, AllocId, DeploymentId, EvalId, Index, JobKey, NodeId},
    store::{AllocSlot, JobSlot, NodeSlot},
    time::Timestamp,
    variable::VariableKey,
};

/// One change of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateChange {
    /// A node registered, or registered again.
    NodeRegistered(NodeSlot),
    /// A node's status, eligibility or drain changed.
    NodeChanged(NodeSlot, NodeChange),
    /// A node was garbage-collected; its slot may be another's already.
    NodeCollected(NodeSlot, NodeId),
    /// A job was registered.
    JobRegistered(JobSlot),
    /// A job was stopped.
    JobDeregistered(JobSlot),
    /// A periodic job was due: its run was made, or left out.
    JobLaunched(JobSlot),
    /// A job's group was scaled, or a message about that was left: the newest scaling event of the group.
    JobScaled(JobSlot, String),
    /// A job became pending, running or dead, and no other event of the job itself reports it.
    JobStatusChanged(JobSlot),
    /// A job was purged: nothing has this key any more. What is left of it until its allocations have ended is in its slot,
    /// under a key that nobody can ask for.
    JobPurged(JobSlot, JobKey),
    /// A job was garbage-collected; its slot may be another's already.
    JobCollected(JobSlot, JobKey),
    /// An allocation was placed.
    AllocPlaced(AllocSlot),
    /// An allocation goes on under a newer version of its job: the positions of its group in the version before and in this
    /// one.
    AllocUpdated(AllocSlot, (u16, u16)),
    /// An allocation is desired to end.
    AllocStopped(AllocSlot),
    /// An allocation was found healthy, or not, as evidence of its deployment.
    AllocHealthChanged(AllocSlot),
    /// An allocation is to leave its node, or is not any more.
    AllocMigrates(AllocSlot),
    /// An allocation's node is disconnected, or is not any more.
    AllocNodeChanged(AllocSlot),
    /// Another was placed in the stead of an allocation that had ended.
    AllocReplaced(AllocSlot),
    /// An allocation has ended; what it held is free.
    AllocEnded(AllocSlot),
    /// An allocation was garbage-collected; its slot may be another's already.
    AllocCollected(AllocSlot, AllocId, NodeId),
    /// An evaluation was made or changed.
    EvalChanged(EvalId),
    /// An evaluation was garbage-collected.
    EvalCollected(EvalId),
    /// A deployment was made or changed.
    DeploymentChanged(DeploymentId, DeploymentChange),
    /// A deployment was garbage-collected.
    DeploymentCollected(DeploymentId),
    /// A namespace was described, or taken away.
    NamespaceChanged(String),
    /// A quota was described, or taken away.
    QuotaChanged(String),
    /// A node pool was described, or taken away.
    NodePoolChanged(String),
    /// A policy, role or token was made, changed or taken away.
    AclChanged(AclObject),
    /// A root key was made, is used otherwise, or was taken away.
    KeyringChanged,
    /// A variable was written.
    VariableWritten(VariableKey),
    /// A variable was taken away.
    VariableDeleted(VariableKey),
    /// How the cluster places was set.
    SchedulerConfigChanged,
    /// A snapshot replaced the state: whatever was known of it is void, slots included.
    Restored,
}

/// What of a node changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeChange {
    /// Its status.
    Status,
    /// Whether it takes new work.
    Eligibility,
    /// Its drain.
    Drain,
}

/// What of a deployment changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentChange {
    /// It was made, its status is another, or what is part of it.
    Status,
    /// Its groups were promoted.
    Promotion,
    /// An allocation of it was found healthy, or not.
    AllocHealth,
}

/// What says who may do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AclObject {
    /// A policy of this name.
    Policy(String),
    /// A role.
    Role(AclRoleId),
    /// A token.
    Token(AclTokenId),
    /// A one-time token that stands for this one.
    OneTimeToken(AclTokenId),
    /// A token with which an agent joins.
    JoinToken,
    /// The certificates of a node.
    Certificates(NodeId),
    /// The certificates of the server of this name.
    ServerCertificates(String),
}

impl fmt::Display for AclObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(name) => write!(f, "policy {name:?}"),
            Self::Role(id) => write!(f, "role {id}"),
            Self::Token(id) => write!(f, "token {id}"),
            Self::OneTimeToken(id) => write!(f, "one-time token for token {id}"),
            Self::JoinToken => f.write_str("the join token"),
            Self::Certificates(node) => write!(f, "the certificates of node {node}"),
            Self::ServerCertificates(name) => write!(f, "the certificates of server {name:?}"),
        }
    }
}

/// What became of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppliedEntry {
    /// The entry's index.
    pub index: Index,
    /// The entry's time.
    pub at: Timestamp,
    /// One for each command.
    pub outcomes: Vec<Outcome>,
    /// In the order in which they happened.
    pub events: Vec<StateChange>,
}
