//! The state at one index, as a caller may see it. Objects of namespaces that the request may not access are left out; from a
//! visible row the objects that belong to it can be reached.

mod allocs;
mod deployments;
mod evals;
mod jobs;
mod nodes;
mod tenants;
mod variables;

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use berth_controller::NodeRecovery;
use berth_model::{
    AclRoleId, Index, JobKey,
    acl::{AclPolicy, AclRole, AclToken, OneTimeToken, SecretHash},
    store::{Acl, Store},
};

use super::{
    Access, Capability, Denied, Identity,
    acl::{names_of_attached, policies},
};
use crate::{
    shared::{Contact, View},
    workload::{PublicKey, Workload, public_keys},
};

pub(crate) use allocs::AllocParts;
pub(crate) use variables::ListedVariable;

/// What one caller sees of the state. Cheap to clone and never changed.
#[derive(Debug, Clone)]
pub(crate) struct CallerView {
    view: Arc<View>,
    access: Arc<Access>,
    contact: Contact,
    had_at: Instant,
}

impl CallerView {
    /// `contact` is from before the view was had: one from after it may be of a newer state.
    pub fn new(view: Arc<View>, access: Arc<Access>, contact: Contact) -> Self {
        Self { view, access, contact, had_at: Instant::now() }
    }

    /// How fresh it still is: it gets older while it is read. One that a leader had stays a leader's.
    pub fn contact(&self) -> Contact {
        let Contact { known_leader, last_contact } = self.contact;
        let since = if last_contact.is_zero() { Duration::ZERO } else { self.had_at.elapsed() };
        Contact { known_leader, last_contact: last_contact.saturating_add(since) }
    }

    /// Up to where changes are in it.
    pub fn index(&self) -> Index {
        self.view.index
    }

    /// The index of the last entry that is in it.
    pub fn log_index(&self) -> Index {
        self.view.store.index()
    }

    /// How far the leader knows the nodes.
    pub fn recovery(&self) -> &NodeRecovery {
        &self.view.recovery
    }

    /// All there is, for those who keep the servers in order: they clean it up.
    ///
    /// # Errors
    /// For everybody else.
    pub fn everything(&self) -> Result<&Store, Denied> {
        self.access.require_of_cluster(Capability::Management)?;
        Ok(&self.view.store)
    }

    /// All there is, for those who may copy it.
    ///
    /// # Errors
    /// For everybody else.
    pub fn to_copy(&self) -> Result<&Store, Denied> {
        self.access.require_of_cluster(Capability::SnapshotSave)?;
        Ok(&self.view.store)
    }

    /// Who may do what, for those who say so.
    ///
    /// # Errors
    /// For everybody else.
    pub fn acl(&self) -> Result<&Acl, Denied> {
        self.access.require_of_cluster(Capability::Management)?;
        Ok(self.view.store.acl())
    }

    /// The token that a caller shows; it may be read by whoever has it.
    pub fn own_token(&self, identity: &Identity) -> Option<&Arc<AclToken>> {
        let Identity::Token(secret) = identity else { return None };
        self.view.store.acl().token_of(secret)
    }

    /// The names of the policies that a task has which shows who it is.
    pub fn workload_policies(&self, workload: &Workload) -> Vec<String> {
        names_of_attached(&workload.name, self.view.store.acl())
    }

    /// The keys by which anybody can find out whether a workload's token is genuine.
    pub fn public_keys(&self) -> Vec<PublicKey> {
        public_keys(&self.view.store)
    }

    /// The policies that a caller may read, by name: with a management token all, else those that the own token has.
    pub fn acl_policies(&self, identity: &Identity) -> Vec<&Arc<AclPolicy>> {
        let acl = self.view.store.acl();
        if self.access.has(Capability::Management) {
            return acl.policies().collect();
        }
        self.own_policies(identity)
    }

    /// The policies that the caller's own token has, by name.
    pub fn own_policies(&self, identity: &Identity) -> Vec<&Arc<AclPolicy>> {
        let acl = self.view.store.acl();
        let names = match identity {
            Identity::Workload(workload) => self.workload_policies(workload).into_iter().collect(),
            _ => self.own_token(identity).map_or_else(BTreeSet::new, |token| policies(token, acl)),
        };
        names.iter().filter_map(|name| acl.policy(name)).collect()
    }

    /// One of these policies.
    pub fn acl_policy(&self, identity: &Identity, name: &str) -> Option<&Arc<AclPolicy>> {
        let acl = self.view.store.acl();
        let is_own = || self.own_token(identity).is_some_and(|token| policies(token, acl).contains(name));
        acl.policy(name).filter(|_| self.access.has(Capability::Management) || is_own())
    }

    /// The roles that a caller may read: with a management token all, else those that the own token has.
    pub fn acl_roles(&self, identity: &Identity) -> Vec<&Arc<AclRole>> {
        let acl = self.view.store.acl();
        if self.access.has(Capability::Management) {
            return acl.roles().collect();
        }
        let own = self.own_token(identity).into_iter().flat_map(|token| &token.roles);
        own.filter_map(|id| acl.role(*id)).collect()
    }

    /// A one-time token, and the token that it stands for: for whoever has its secret.
    pub fn one_time_token(&self, secret: SecretHash) -> Option<(&Arc<OneTimeToken>, &Arc<AclToken>)> {
        let acl = self.view.store.acl();
        let one_time = acl.one_time(&secret)?;
        Some((one_time, acl.token(one_time.token)?))
    }

    /// The names of a token's roles, which its owner may read.
    pub fn role_name(&self, id: AclRoleId) -> Option<&str> {
        self.view.store.acl().role(id).map(|role| &*role.name)
    }

    /// Where the last change of who may do what is.
    pub fn acl_index(&self) -> Index {
        self.view.store.acl().modify_index()
    }

    /// Where the first token was made; 0 for nowhere yet. It is shown to anybody who asks for it.
    pub fn bootstrapped_at(&self) -> Index {
        self.view.store.acl().bootstrapped_at()
    }

    /// All there is, for planning a job that the request reaches; none for another. What comes of it names other jobs and
    /// nodes: they are looked up here before they are shown.
    pub fn to_plan(&self, job: &JobKey) -> Option<&Store> {
        self.access.reaches(&job.namespace).then_some(&self.view.store)
    }
}
