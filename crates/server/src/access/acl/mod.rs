//! Rights from tokens: a token has policies, by itself or through roles, and their rules say what its owner may do.

mod attached;
mod cache;
mod compile;
mod grant;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
};

use berth_jobfile::parse_policy;
use berth_model::{
    Timestamp,
    acl::{AclPolicy, AclToken, POLICY_ANONYMOUS, SecretHash, TokenType},
    store::Acl,
};
use sha2::{Digest, Sha256};

use super::{
    Capability, Rights,
    policy::{BadToken, Identity, Policy},
};
use crate::workload::TaskName;
use attached::Attached;
use cache::{RightsCache, TokenRef};
use compile::{PolicyGrants, compile};

/// Bytes of rules that the policies of one token may have together.
const TOKEN_RULES_BYTES_MAX: usize = 1 << 20;

/// By what secrets of Berth's are known, for programs that look for secrets where none should be.
pub(crate) const SECRET_PREFIX: &str = "berth-";
/// So many random bytes follow, in hexadecimal.
pub(crate) const SECRET_BYTES: usize = 32;

/// The hash by which a token is found.
pub(crate) fn hash(secret: &str) -> SecretHash {
    SecretHash(Sha256::digest(secret).into())
}

/// The policy of a cluster whose operators say who may do what.
#[derive(Debug)]
pub(crate) struct Acls {
    management: Arc<Rights>,
    cache: Mutex<RightsCache>,
}

impl Default for Acls {
    fn default() -> Self {
        Self { management: Arc::new(Rights::all()), cache: Mutex::default() }
    }
}

impl Policy for Acls {
    fn known(&self, identity: &Identity, acl: &Acl, now: Timestamp) -> Result<Option<Arc<Rights>>, BadToken> {
        if let Identity::Workload(workload) = identity {
            return Ok(self.cache().of_task(&workload.name, acl));
        }
        match owner(identity, acl, now)? {
            Some(token) if token.token_type == TokenType::Management => Ok(Some(self.management.clone())),
            owner => Ok(self.cache().of_owner(owner, acl)),
        }
    }

    fn rights(&self, identity: &Identity, acl: &Acl, now: Timestamp) -> Result<Arc<Rights>, BadToken> {
        if let Some(rights) = self.known(identity, acl, now)? {
            return Ok(rights);
        }
        if let Identity::Workload(workload) = identity {
            return self.rights_of_task(&workload.name, acl);
        }
        let owner = owner(identity, acl, now)?;
        let names =
            owner.map_or_else(|| BTreeSet::from([POLICY_ANONYMOUS.to_owned()]), |token| policies(token, acl));
        let policies: Vec<&Arc<AclPolicy>> = names.iter().filter_map(|name| acl.policy(name)).collect();
        let bytes = rules_bytes(&policies)?;
        let cached = owner.and_then(|_| self.cache().of_policies(&names, acl));
        let rights = cached.unwrap_or_else(|| {
            let mut rights = self.compiled(&policies);
            if owner.is_some() {
                rights.cluster = rights.cluster.and([Capability::ReadOwnAcl].into());
            }
            Arc::new(rights)
        });
        self.cache().store(owner, names, acl, &rights, bytes);
        Ok(rights)
    }

    fn rights_of_task(&self, task: &TaskName, acl: &Acl) -> Result<Arc<Rights>, BadToken> {
        if let Some(rights) = self.cache().of_task(task, acl) {
            return Ok(rights);
        }
        let attached = self.attached(acl);
        let policies: Vec<&Arc<AclPolicy>> = attached.to(task).collect();
        rules_bytes(&policies)?;
        let mut rights = self.compiled(&policies);
        rights.grant_own(task);
        let rights = Arc::new(rights);
        self.cache().store_task(task, acl, &rights);
        Ok(rights)
    }

    fn is_open(&self) -> bool {
        false
    }
}

impl Acls {
    /// What was made before. Every request takes this lock: nothing is made while it is held.
    fn cache(&self) -> MutexGuard<'_, RightsCache> {
        self.cache.lock().expect("nothing panics while it holds this lock")
    }

    /// The policies that are attached to jobs.
    fn attached(&self, acl: &Acl) -> Arc<Attached> {
        let cached = self.cache().attached(acl);
        cached.unwrap_or_else(|| {
            let attached = Arc::new(Attached::of(acl));
            self.cache().store_attached(acl, &attached);
            attached
        })
    }

    /// What policies come to together.
    fn compiled(&self, policies: &[&Arc<AclPolicy>]) -> Rights {
        let grants: Vec<_> = policies.iter().filter_map(|policy| self.grants(policy)).collect();
        compile(grants.iter().map(|grants| &**grants))
    }

    /// What a policy grants; one that cannot be read grants nothing.
    fn grants(&self, policy: &Arc<AclPolicy>) -> Option<Arc<PolicyGrants>> {
        if let Some(grants) = self.cache().grants(policy) {
            return Some(grants);
        }
        let read = parse_policy(policy.rules.as_bytes(), &policy.name);
        let (rules, _) = read
            .inspect_err(|mistakes| {
                let (policy, mistakes) = (&policy.name, mistakes.messages());
                tracing::error!(policy, mistakes, "a policy cannot be read, and grants nothing");
            })
            .ok()?;
        let grants = Arc::new(PolicyGrants::from(&rules));
        self.cache().store_grants(policy, &grants);
        Some(grants)
    }
}

/// The caller: the owner of a token, or none without a token.
fn owner<'t>(identity: &Identity, acl: &'t Acl, now: Timestamp) -> Result<TokenRef<'t>, BadToken> {
    match identity {
        Identity::Anonymous => Ok(None),
        Identity::Token(secret) => match acl.token_of(secret).ok_or(BadToken::Unknown)? {
            token if token.is_expired(now) => Err(BadToken::Expired),
            token => Ok(Some(token)),
        },
        // It has no token that is written down.
        Identity::Workload(_) => Err(BadToken::Unknown),
    }
}

/// How many bytes of rules policies have, unless that is more than is read for a request.
fn rules_bytes(policies: &[&Arc<AclPolicy>]) -> Result<usize, BadToken> {
    let bytes = policies.iter().map(|policy| policy.rules.len()).sum();
    if bytes > TOKEN_RULES_BYTES_MAX {
        return Err(BadToken::Rules { bytes, max: TOKEN_RULES_BYTES_MAX });
    }
    Ok(bytes)
}

/// The names of the policies that are attached to a task, to its group or to its job.
pub(super) fn names_of_attached(task: &TaskName, acl: &Acl) -> Vec<String> {
    Attached::of(acl).to(task).map(|policy| policy.name.clone()).collect()
}

/// The names of the policies that a token has.
pub(super) fn policies(token: &AclToken, acl: &Acl) -> BTreeSet<String> {
    let roles = token.roles.iter().filter_map(|id| acl.role(*id)).flat_map(|role| &role.policies);
    token.policies.iter().chain(roles).cloned().collect()
}
