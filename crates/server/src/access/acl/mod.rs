//! Rights from tokens: a token has policies, by itself or through roles, and their rules say what its owner may do.

mod compile;
mod grant;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard},
};

use berth_jobfile::{PolicyRules, parse_policy};
use berth_model::{
    Index, Timestamp,
    acl::{AclPolicy, AclToken, POLICY_ANONYMOUS, SecretHash, TokenType},
    store::Acl,
};
use sha2::{Digest, Sha256};

use super::{
    Rights,
    policy::{BadToken, Identity, Policy},
};
use compile::compile;

/// Sets of policies whose rights are kept; when there are more, they are made anew.
const KEPT_MAX: usize = 4096;

/// The hash by which a token is found.
pub(crate) fn hash(secret: &str) -> SecretHash {
    SecretHash(Sha256::digest(secret).into())
}

/// The policy of a cluster whose operators say who may do what.
#[derive(Debug)]
pub(crate) struct Acls {
    management: Arc<Rights>,
    kept: Mutex<Kept>,
}

/// Rights that were made, by the names of the policies that they are made of.
#[derive(Debug, Default)]
struct Kept {
    /// Of the policies and tokens that they are made of.
    index: Index,
    rights: HashMap<BTreeSet<String>, Arc<Rights>>,
    /// Rules as they were read, by the name of their policy, with that: a restored state may have another of the same name and
    /// index.
    rules: HashMap<String, (Arc<AclPolicy>, Arc<PolicyRules>)>,
}

impl Default for Acls {
    fn default() -> Self {
        Self { management: Arc::new(Rights::all()), kept: Mutex::default() }
    }
}

impl Policy for Acls {
    fn rights(&self, identity: &Identity, acl: &Acl, now: Timestamp) -> Result<Arc<Rights>, BadToken> {
        let names = match identity {
            Identity::Anonymous => BTreeSet::from([POLICY_ANONYMOUS.to_owned()]),
            Identity::Token(secret) => {
                let token = acl.token_of(secret).ok_or(BadToken::Unknown)?;
                if token.is_expired(now) {
                    return Err(BadToken::Expired);
                }
                match token.token_type {
                    TokenType::Management => return Ok(self.management.clone()),
                    TokenType::Client => policies(token, acl),
                }
            }
        };
        Ok(self.kept().rights(names, acl))
    }

    fn is_open(&self) -> bool {
        false
    }
}

impl Acls {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("nothing panics while it holds this lock")
    }
}

/// The names of the policies that a token has.
fn policies(token: &AclToken, acl: &Acl) -> BTreeSet<String> {
    let roles = token.roles.iter().filter_map(|id| acl.role(*id)).flat_map(|role| &role.policies);
    token.policies.iter().chain(roles).cloned().collect()
}

impl Kept {
    fn rights(&mut self, names: BTreeSet<String>, acl: &Acl) -> Arc<Rights> {
        if self.index != acl.modify_index() {
            // Two requests may see states of two indexes: whatever is kept here is of the one that asks.
            self.index = acl.modify_index();
            self.rights.clear();
        }
        if let Some(rights) = self.rights.get(&names) {
            return rights.clone();
        }
        if self.rights.len() >= KEPT_MAX {
            self.rights.clear();
        }
        let rules: Vec<Arc<PolicyRules>> = names.iter().filter_map(|name| self.rules(name, acl)).collect();
        let rights = Arc::new(compile(rules.iter().map(|rules| &**rules)));
        self.rights.insert(names, rights.clone());
        rights
    }

    /// The rules of a policy; none that is not there grants anything, nor one that cannot be read.
    fn rules(&mut self, name: &str, acl: &Acl) -> Option<Arc<PolicyRules>> {
        let policy = acl.policy(name)?;
        if let Some((_, rules)) = self.rules.get(name).filter(|(of, _)| Arc::ptr_eq(of, policy)) {
            return Some(rules.clone());
        }
        let read = parse_policy(policy.rules.as_bytes(), name);
        let (rules, _) = read
            .inspect_err(|mistakes| {
                let mistakes = mistakes.messages();
                tracing::error!(policy = name, mistakes, "a policy cannot be read, and grants nothing");
            })
            .ok()?;
        let rules = Arc::new(rules);
        if self.rules.len() >= KEPT_MAX {
            self.rules.clear();
        }
        self.rules.insert(name.to_owned(), (policy.clone(), rules.clone()));
        Some(rules)
    }
}
