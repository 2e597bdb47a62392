//! Who may do what, as operators wrote it: policies, roles that gather them, and tokens that have them. What a policy's
//! rules mean is the server's to say; of a token's secret only a hash is kept.

use std::fmt;

use minicbor::{Decode, Encode};

use crate::{
    ids::{AclRoleId, AclTokenId, Index, NodeId},
    join::{Join, JoinToken},
    time::Timestamp,
};

/// The policy of callers who show no token, once an operator has written it.
pub const POLICY_ANONYMOUS: &str = "anonymous";
/// Longest description, and longest name of a token.
pub const ACL_DESCRIPTION_MAX: usize = 256;
/// Longest rules of a policy, in bytes.
pub const POLICY_RULES_MAX: usize = 64 << 10;
/// Most policies, and as many roles.
pub const POLICIES_MAX: usize = 10_000;
/// Most tokens.
pub const TOKENS_MAX: usize = 1_000_000;
/// Revoked tokens that are remembered, so that a restored state does not bring them back; a few MiB.
pub const REVOKED_TOKENS_MAX: usize = 65_536;
/// Most one-time tokens that were not exchanged.
pub const ONE_TIME_TOKENS_MAX: usize = 10_000;
/// Most of those that stand for one token: none is kept from having any by the owner of another.
pub const ONE_TIME_OF_TOKEN_MAX: usize = 64;
/// Longest sealed secret of a one-time token, in bytes.
pub const SEALED_MAX: usize = 512;
/// Longest name of what a policy is attached to, in bytes: the id of a job that was dispatched is long.
pub const POLICY_JOB_NAME_MAX: usize = 512;
/// Most policies of a role or a token, and as many roles of a token.
pub const ACL_LINKS_MAX: usize = 64;

/// What those may do who have it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AclPolicy {
    /// Letters, digits, dashes and underscores.
    #[n(0)]
    pub name: String,
    /// In words, what it is.
    #[n(1)]
    pub description: String,
    /// In HCL or JSON, as it was written.
    #[n(2)]
    pub rules: String,
    /// Where it was made.
    #[n(3)]
    pub create_index: Index,
    /// Where it was last written.
    #[n(4)]
    pub modify_index: Index,
    /// The tasks that have it by who they are, besides the tokens that name it; none for no task.
    #[n(5)]
    pub job: Option<Box<PolicyJob>>,
}

/// The tasks to which a policy is attached. What is narrower than the last that is named is left empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct PolicyJob {
    /// Namespace of the job.
    #[n(0)]
    pub namespace: String,
    /// Of this job: of this very id, not of those that begin with it.
    #[n(1)]
    pub job: String,
    /// Of this group; empty for all of the job.
    #[n(2)]
    pub group: String,
    /// This one; empty for all of the group.
    #[n(3)]
    pub task: String,
}

impl PolicyJob {
    /// Whether a task is among them.
    pub fn has(&self, namespace: &str, job: &str, group: &str, task: &str) -> bool {
        let fits = |named: &str, own: &str| named.is_empty() || named == own;
        self.namespace == namespace && self.job == job && fits(&self.group, group) && fits(&self.task, task)
    }

    /// Why it cannot be, if it cannot.
    pub(crate) fn wrong(&self) -> Option<String> {
        if self.namespace.is_empty() || self.job.is_empty() || self.group.is_empty() && !self.task.is_empty()
        {
            let text = "what it is attached to is a namespace and a job, perhaps a group, and with that perhaps a task";
            return Some(text.to_owned());
        }
        let names = [&self.namespace, &self.job, &self.group, &self.task];
        let is_long = names.into_iter().any(|name| name.len() > POLICY_JOB_NAME_MAX);
        is_long
            .then(|| format!("a name of what it is attached to is longer than {POLICY_JOB_NAME_MAX} bytes"))
    }
}

/// A set of policies under one name.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AclRole {
    /// Its id.
    #[n(0)]
    pub id: AclRoleId,
    /// As a policy's; no two roles have the same.
    #[n(1)]
    pub name: String,
    /// In words, what it is.
    #[n(2)]
    pub description: String,
    /// Names of policies; one that is not there grants nothing.
    #[n(3)]
    pub policies: Vec<String>,
    /// Where it was made.
    #[n(4)]
    pub create_index: Index,
    /// Where it was last written.
    #[n(5)]
    pub modify_index: Index,
}

/// SHA-256 of a token's secret, which is long and random: it needs no salt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct SecretHash(
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub [u8; 32],
);

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum TokenType {
    /// What its policies and roles say.
    #[n(0)]
    Client,
    /// Everything.
    #[n(1)]
    Management,
}

impl TokenType {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Management => "management",
        }
    }
}

/// A token, of which only who has it knows the secret.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AclToken {
    /// What it is called in listings and logs.
    #[n(0)]
    pub id: AclTokenId,
    /// Hash of its secret; the secret itself is never stored.
    #[n(1)]
    pub secret: SecretHash,
    /// A name to read; it need not be unique.
    #[n(2)]
    pub name: String,
    /// What it may do.
    #[n(3)]
    pub token_type: TokenType,
    /// Names of policies; one that is not there grants nothing.
    #[n(4)]
    pub policies: Vec<String>,
    /// Roles; one that is not there grants nothing.
    #[n(5)]
    pub roles: Vec<AclRoleId>,
    /// Whether every region knows it.
    #[n(6)]
    pub global: bool,
    /// When it was made.
    #[n(7)]
    pub created_at: Timestamp,
    /// From when on it is nothing any more; none for never.
    #[n(8)]
    pub expires_at: Option<Timestamp>,
    /// Where it was made.
    #[n(9)]
    pub create_index: Index,
    /// Where it was last written.
    #[n(10)]
    pub modify_index: Index,
}

impl AclToken {
    /// Whether it is nothing any more.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// Stands for a token for a short while, and is exchanged for its secret once: so that a secret need not stand where others may
/// read it, as in the address of a page.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct OneTimeToken {
    /// Of its own secret.
    #[n(0)]
    pub secret: SecretHash,
    /// The token that it stands for.
    #[n(1)]
    pub token: AclTokenId,
    /// The secret of that, sealed with its own, which is nowhere kept.
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    pub sealed: Vec<u8>,
    /// From when on it is nothing any more.
    #[n(3)]
    pub expires_at: Timestamp,
    /// Where it was made.
    #[n(4)]
    pub create_index: Index,
}

/// A change of who may do what.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ChangeAcl {
    /// The first token, for whoever comes first; or again, if the operator gives the index of the last time.
    #[n(0)]
    Bootstrap(#[n(0)] Box<AclToken>, #[n(1)] Option<Index>),
    /// Writes a policy, new or again.
    #[n(1)]
    PutPolicy(#[n(0)] Box<AclPolicy>),
    /// Takes a policy away.
    #[n(2)]
    DeletePolicy(#[n(0)] String),
    /// Writes a role, new or again.
    #[n(3)]
    PutRole(#[n(0)] Box<AclRole>),
    /// Takes a role away.
    #[n(4)]
    DeleteRole(#[n(0)] AclRoleId),
    /// Makes a token, or changes its name, policies and roles.
    #[n(5)]
    PutToken(#[n(0)] Box<AclToken>),
    /// Revokes a token.
    #[n(6)]
    DeleteToken(#[n(0)] AclTokenId),
    /// Makes a one-time token.
    #[n(7)]
    PutOneTime(#[n(0)] Box<OneTimeToken>),
    /// A one-time token was exchanged: it is nothing any more.
    #[n(8)]
    TakeOneTime(#[n(0)] SecretHash),
    /// Makes a join token.
    #[n(9)]
    PutJoinToken(#[n(0)] Box<JoinToken>),
    /// An agent joins.
    #[n(10)]
    Join(#[n(0)] Box<Join>),
    /// What certificates there are of a node are good for nothing any more.
    #[n(11)]
    RevokeNode(#[n(0)] NodeId),
    /// What certificates there are that name a server are good for nothing any more.
    #[n(12)]
    RevokeServer(#[n(0)] String),
}

/// A token that was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RevokedToken {
    /// The token.
    #[n(0)]
    pub token: AclTokenId,
    /// When it was revoked.
    #[n(1)]
    pub at: Timestamp,
    /// When it would have expired by itself; after that nothing needs to be remembered.
    #[n(2)]
    pub expires_at: Option<Timestamp>,
}
