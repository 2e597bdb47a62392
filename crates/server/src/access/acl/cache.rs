//! A cache of compiled rights and policy rules. Entries are valid as long as the policies and roles that they follow from are
//! unchanged.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use berth_model::{
    AclTokenId,
    acl::{AclPolicy, AclToken},
    store::{Acl, AclRules},
};

use super::{attached::Attached, compile::PolicyGrants};
use crate::{access::Rights, workload::TaskName};

/// Owners whose rights are kept; when there are more, they are looked up again.
const OWNERS_MAX: usize = 16_384;
/// Bytes of rules of which it is kept what they grant, of policies and of sets of them; when there are more, they are read again.
const RULES_BYTES_MAX: usize = 16 << 20;

/// Who has policies: a token, or everybody who shows none.
pub(super) type TokenRef<'t> = Option<&'t Arc<AclToken>>;

/// What was made before.
#[derive(Debug, Default)]
pub(super) struct RightsCache {
    /// The policies and roles that the rights follow from.
    of: AclRules,
    by_owner: HashMap<Option<AclTokenId>, CachedRights>,
    /// By the names of the policies that they are made of.
    by_policies: HashMap<BTreeSet<String>, Arc<Rights>>,
    policies_bytes: usize,
    by_task: HashMap<TaskName, Arc<Rights>>,
    /// The policies that are attached to jobs.
    attached: Option<Arc<Attached>>,
    /// What rules grant, by the name of their policy, with that: a restored state may have another of the same name and index.
    grants: HashMap<String, (Arc<AclPolicy>, Arc<PolicyGrants>)>,
    rules_bytes: usize,
}

/// The rights of a token as it was: one that was written again may have other policies.
#[derive(Debug)]
struct CachedRights {
    token: Option<Arc<AclToken>>,
    rights: Arc<Rights>,
}

impl RightsCache {
    /// The rights of an owner, as far as they are kept. Two requests may see two states: whatever is kept is of the one that
    /// asks.
    pub fn of_owner(&mut self, owner: TokenRef<'_>, acl: &Acl) -> Option<Arc<Rights>> {
        self.follow(acl);
        let cached = self.by_owner.get(&owner.map(|token| token.id))?;
        let is_same = match (&cached.token, owner) {
            (Some(cached), Some(token)) => Arc::ptr_eq(cached, token),
            (cached, token) => cached.is_none() && token.is_none(),
        };
        is_same.then(|| cached.rights.clone())
    }

    /// The rights of a task, as far as they are kept.
    pub fn of_task(&mut self, task: &TaskName, acl: &Acl) -> Option<Arc<Rights>> {
        self.follow(acl);
        self.by_task.get(task).cloned()
    }

    /// Keeps the rights of a task.
    pub fn store_task(&mut self, task: &TaskName, acl: &Acl, rights: &Arc<Rights>) {
        if !self.of.are_same(&acl.rules()) {
            return;
        }
        if self.by_task.len() >= OWNERS_MAX {
            self.by_task.clear();
        }
        self.by_task.insert(task.clone(), rights.clone());
    }

    /// The policies that are attached to jobs, if they are kept.
    pub fn attached(&mut self, acl: &Acl) -> Option<Arc<Attached>> {
        self.follow(acl);
        self.attached.clone()
    }

    /// Caches the index of attached policies.
    pub fn store_attached(&mut self, acl: &Acl, attached: &Arc<Attached>) {
        if self.of.are_same(&acl.rules()) {
            self.attached = Some(attached.clone());
        }
    }

    /// Lets go of what follows from other policies and roles than these.
    fn follow(&mut self, acl: &Acl) {
        let rules = acl.rules();
        if !self.of.are_same(&rules) {
            self.forget_rights();
            self.attached = None;
            self.of = rules;
        }
    }

    /// The rights of a set of policies, as far as they are kept.
    pub fn of_policies(&self, names: &BTreeSet<String>, acl: &Acl) -> Option<Arc<Rights>> {
        self.by_policies.get(names).filter(|_| self.of.are_same(&acl.rules())).cloned()
    }

    /// Keeps rights that were made of policies with so many bytes of rules.
    pub fn store(
        &mut self,
        owner: TokenRef<'_>,
        names: BTreeSet<String>,
        acl: &Acl,
        rights: &Arc<Rights>,
        bytes: usize,
    ) {
        if !self.of.are_same(&acl.rules()) {
            return;
        }
        if self.by_owner.len() >= OWNERS_MAX || self.policies_bytes + bytes > RULES_BYTES_MAX {
            self.forget_rights();
        }
        let cached = CachedRights { token: owner.cloned(), rights: rights.clone() };
        self.by_owner.insert(owner.map(|token| token.id), cached);
        // Who shows no token may do less than who has one with the same policies.
        if owner.is_some() && self.by_policies.insert(names, rights.clone()).is_none() {
            self.policies_bytes += bytes;
        }
    }

    fn forget_rights(&mut self) {
        self.by_owner.clear();
        self.by_policies.clear();
        self.by_task.clear();
        self.policies_bytes = 0;
    }

    /// What a policy grants, as far as it is kept.
    pub fn grants(&self, policy: &Arc<AclPolicy>) -> Option<Arc<PolicyGrants>> {
        let (_, grants) = self.grants.get(&policy.name).filter(|(of, _)| Arc::ptr_eq(of, policy))?;
        Some(grants.clone())
    }

    /// Keeps what a policy grants.
    pub fn store_grants(&mut self, policy: &Arc<AclPolicy>, grants: &Arc<PolicyGrants>) {
        if self.rules_bytes + policy.rules.len() > RULES_BYTES_MAX {
            self.grants.clear();
            self.rules_bytes = 0;
        }
        self.rules_bytes += policy.rules.len();
        let old = self.grants.insert(policy.name.clone(), (policy.clone(), grants.clone()));
        self.rules_bytes -= old.map_or(0, |(old, _)| old.rules.len());
    }
}
