//! Identities of callers, and the interface that decides what each may do.

use std::{fmt::Debug, sync::Arc};

use berth_model::{Timestamp, acl::SecretHash, store::Acl};

use super::Rights;
use crate::workload::{TaskName, Workload};

/// The identity of a caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// Who shows no token.
    #[default]
    Anonymous,
    /// Who has a token, of which only the hash is known.
    Token(SecretHash),
    /// A task that has shown who it is.
    Workload(Arc<Workload>),
}

/// A token that says nothing of who has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadToken {
    /// Nobody made it, or it was revoked.
    #[error("ACL token not found")]
    Unknown,
    /// It is nothing any more.
    #[error("ACL token expired")]
    Expired,
    /// It is meant to say which task has it, and does not.
    #[error("the workload's token is refused: {0}")]
    Workload(&'static str),
    /// Nobody reads that much for each request.
    #[error(
        "the policies of this ACL token have {bytes} bytes of rules, at most {max} are understood: give it fewer policies, or \
         shorter ones"
    )]
    Rules {
        /// Of all its policies.
        bytes: usize,
        /// The limit in bytes.
        max: usize,
    },
}

/// Says what callers may do.
pub(crate) trait Policy: Debug + Send + Sync {
    /// The rights of a caller as far as they are known; none where what operators wrote must be read first, which takes time:
    /// [`Self::rights`].
    ///
    /// # Errors
    /// When the caller's token says nothing.
    fn known(&self, identity: &Identity, acl: &Acl, now: Timestamp) -> Result<Option<Arc<Rights>>, BadToken> {
        self.rights(identity, acl, now).map(Some)
    }

    /// The rights of a caller, by what operators wrote.
    ///
    /// # Errors
    /// When the caller's token says nothing, or more than is understood.
    fn rights(&self, identity: &Identity, acl: &Acl, now: Timestamp) -> Result<Arc<Rights>, BadToken>;

    /// The rights of a task by who it is: what policies say that are attached to it, and to read what is its own. None where
    /// nothing is decided about tasks.
    ///
    /// # Errors
    /// When its policies say more than is understood.
    fn rights_of_task(&self, _: &TaskName, _: &Acl) -> Result<Arc<Rights>, BadToken> {
        Ok(Arc::default())
    }

    /// Whether it is the same for everybody, whatever operators write.
    fn is_open(&self) -> bool {
        true
    }
}

/// The same rights for everybody.
impl Policy for Arc<Rights> {
    fn rights(&self, _: &Identity, _: &Acl, _: Timestamp) -> Result<Arc<Rights>, BadToken> {
        Ok(self.clone())
    }

    fn rights_of_task(&self, _: &TaskName, _: &Acl) -> Result<Arc<Rights>, BadToken> {
        Ok(self.clone())
    }
}

/// Everything for everybody: the policy of a server without ACLs.
pub(crate) fn open() -> Arc<Rights> {
    Arc::new(Rights::all())
}
