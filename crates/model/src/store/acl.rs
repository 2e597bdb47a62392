//! The table of policies, roles and tokens.

use std::{ops::RangeBounds, sync::Arc};

use imbl::{OrdMap, OrdSet};

use super::{
    digest::{TableDigest, hash_encoded},
    joins::Joins,
};
use crate::{
    acl::{AclPolicy, AclRole, AclToken, OneTimeToken, REVOKED_TOKENS_MAX, RevokedToken, SecretHash},
    ids::{AclRoleId, AclTokenId, Index},
    join::{JoinToken, RevokedNode, RevokedServer},
    time::Timestamp,
};

/// All policies, roles and tokens.
#[derive(Debug, Clone, Default)]
pub struct Acl {
    policies: OrdMap<String, Arc<AclPolicy>>,
    roles: OrdMap<AclRoleId, Arc<AclRole>>,
    tokens: OrdMap<AclTokenId, Arc<AclToken>>,
    by_secret: OrdMap<SecretHash, AclTokenId>,
    by_end: OrdSet<(Timestamp, AclTokenId)>,
    /// Tokens that are good no more before their end.
    revoked: OrdMap<AclTokenId, RevokedToken>,
    revoked_by_age: OrdSet<(Timestamp, AclTokenId)>,
    /// Those that would have ended by themselves.
    revoked_by_end: OrdSet<(Timestamp, AclTokenId)>,
    one_time: OrdMap<SecretHash, Arc<OneTimeToken>>,
    one_time_by_end: OrdSet<(Timestamp, SecretHash)>,
    joins: Joins,
    digest: TableDigest,
    pub(super) modify_index: Index,
    /// Follows from the changes, and is in no snapshot.
    pub(super) rights_index: Index,
    /// Where the first token was made last; 0 for never.
    pub(super) bootstrapped_at: Index,
}

/// The policies and roles of a moment. What follows from them alone holds while they are the same.
#[derive(Debug, Clone, Default)]
pub struct AclRules {
    policies: OrdMap<String, Arc<AclPolicy>>,
    roles: OrdMap<AclRoleId, Arc<AclRole>>,
}

impl AclRules {
    /// Whether nothing was written since; may say no where all that was written says the same.
    pub fn are_same(&self, other: &Self) -> bool {
        self.policies.ptr_eq(&other.policies) && self.roles.ptr_eq(&other.roles)
    }
}

impl Acl {
    /// Its policies and roles, as they are now.
    pub fn rules(&self) -> AclRules {
        AclRules { policies: self.policies.clone(), roles: self.roles.clone() }
    }

    /// Where the last change of what anybody may do is: of a policy, a role or a token, not of a one-time token. At least as
    /// late in a state that was read from a snapshot; so that it differs whenever rights do.
    pub fn rights_index(&self) -> Index {
        self.rights_index
    }

    /// Where the last change of any of them is; 0 for none.
    pub fn modify_index(&self) -> Index {
        self.modify_index
    }

    /// Where the first token was made last; 0 for never.
    pub fn bootstrapped_at(&self) -> Index {
        self.bootstrapped_at
    }

    /// A policy by its name.
    pub fn policy(&self, name: &str) -> Option<&Arc<AclPolicy>> {
        self.policies.get(name)
    }

    /// All policies, by name.
    pub fn policies(&self) -> impl ExactSizeIterator<Item = &Arc<AclPolicy>> {
        self.policies.values()
    }

    /// A role by its id.
    pub fn role(&self, id: AclRoleId) -> Option<&Arc<AclRole>> {
        self.roles.get(&id)
    }

    /// A role by its name.
    pub fn role_named(&self, name: &str) -> Option<&Arc<AclRole>> {
        self.roles.values().find(|role| role.name == name)
    }

    /// All roles, by id.
    pub fn roles(&self) -> impl ExactSizeIterator<Item = &Arc<AclRole>> {
        self.roles.values()
    }

    /// A token by its id.
    pub fn token(&self, id: AclTokenId) -> Option<&Arc<AclToken>> {
        self.tokens.get(&id)
    }

    /// The token of a secret. Only the secret's hash is compared: how long that takes reveals nothing of the secret.
    pub fn token_of(&self, secret: &SecretHash) -> Option<&Arc<AclToken>> {
        self.token(*self.by_secret.get(secret)?)
    }

    /// The tokens whose ids are in a range, by id.
    pub fn tokens(
        &self,
        ids: impl RangeBounds<AclTokenId>,
    ) -> impl DoubleEndedIterator<Item = &Arc<AclToken>> {
        self.tokens.range(ids).map(|(_, token)| token)
    }

    /// Those of its tokens that are good and unknown elsewhere: where this table replaces another, who had them gets back
    /// what may have been revoked.
    pub fn tokens_unknown(&self, now: Timestamp, is_known: impl Fn(AclTokenId) -> bool) -> Vec<AclTokenId> {
        let good = self.tokens.values().filter(|token| !token.is_expired(now));
        good.map(|token| token.id).filter(|id| !is_known(*id)).collect()
    }

    /// How many tokens there are.
    pub fn tokens_len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether a token was something then, and is nothing any more now.
    pub fn any_ends_between(&self, then: Timestamp, now: Timestamp) -> bool {
        let after = (Timestamp(then.0.saturating_add(1)), AclTokenId::default());
        self.by_end.range(after..).next().is_some_and(|(end, _)| *end <= now)
    }

    /// Tokens that are nothing any more by then, the oldest first.
    pub(super) fn expired(&self, now: Timestamp) -> impl Iterator<Item = AclTokenId> {
        self.by_end.iter().take_while(move |(end, _)| *end <= now).map(|(_, id)| *id)
    }

    /// The tokens that were revoked, as far as that is remembered, by id.
    pub fn revoked_tokens(&self) -> impl ExactSizeIterator<Item = &RevokedToken> {
        self.revoked.values()
    }

    /// Whether it is remembered that a token was revoked: a state that is restored does not bring it back.
    pub fn is_revoked(&self, id: AclTokenId) -> bool {
        self.revoked.contains_key(&id)
    }

    /// The one-time token of a secret.
    pub fn one_time(&self, secret: &SecretHash) -> Option<&Arc<OneTimeToken>> {
        self.one_time.get(secret)
    }

    /// All one-time tokens, by the hash of their secrets.
    pub fn one_time_tokens(&self) -> impl ExactSizeIterator<Item = &Arc<OneTimeToken>> {
        self.one_time.values()
    }

    /// One-time tokens that are nothing any more by then, the oldest first.
    pub(super) fn one_time_expired(&self, now: Timestamp) -> impl Iterator<Item = SecretHash> {
        self.one_time_by_end.iter().take_while(move |(end, _)| *end <= now).map(|(_, secret)| *secret)
    }

    /// Join tokens, revoked nodes and revoked servers.
    pub fn joins(&self) -> &Joins {
        &self.joins
    }

    pub(super) fn put_join_token(&mut self, token: JoinToken, index: Index) {
        self.touch(index);
        self.joins.put(token, &mut self.digest);
    }

    pub(super) fn remove_join_token(&mut self, secret: &SecretHash, index: Index) {
        self.touch(index);
        self.joins.remove(secret, &mut self.digest);
    }

    pub(super) fn revoke_node(&mut self, revoked: RevokedNode, index: Index) {
        self.touch(index);
        self.joins.revoke(revoked, index, &mut self.digest);
    }

    pub(super) fn revoke_server(&mut self, revoked: RevokedServer, index: Index) {
        self.touch(index);
        self.joins.revoke_server(revoked, &mut self.digest);
    }

    pub(super) fn digest(&self) -> u128 {
        self.digest.value()
    }

    pub(super) fn put_policy(&mut self, policy: AclPolicy) {
        self.touch(policy.modify_index);
        self.digest.add(hash_encoded(b'p', &policy));
        if let Some(old) = self.policies.insert(policy.name.clone(), Arc::new(policy)) {
            self.digest.remove(hash_encoded(b'p', &*old));
        }
    }

    pub(super) fn remove_policy(&mut self, name: &str, index: Index) -> bool {
        let Some(old) = self.policies.remove(name) else { return false };
        self.digest.remove(hash_encoded(b'p', &*old));
        self.touch(index);
        true
    }

    pub(super) fn put_role(&mut self, role: AclRole) {
        self.touch(role.modify_index);
        self.digest.add(hash_encoded(b'r', &role));
        if let Some(old) = self.roles.insert(role.id, Arc::new(role)) {
            self.digest.remove(hash_encoded(b'r', &*old));
        }
    }

    pub(super) fn remove_role(&mut self, id: AclRoleId, index: Index) -> bool {
        let Some(old) = self.roles.remove(&id) else { return false };
        self.digest.remove(hash_encoded(b'r', &*old));
        self.touch(index);
        true
    }

    pub(super) fn put_token(&mut self, token: AclToken) {
        let (id, index) = (token.id, token.modify_index);
        self.drop_token(id);
        self.drop_revoked(id);
        self.touch(index);
        self.digest.add(hash_encoded(b't', &token));
        self.by_secret.insert(token.secret, id);
        self.by_end.extend(token.expires_at.map(|end| (end, id)));
        self.tokens.insert(id, Arc::new(token));
    }

    pub(super) fn remove_token(&mut self, id: AclTokenId, index: Index) -> bool {
        let was_there = self.drop_token(id);
        if was_there {
            self.touch(index);
        }
        was_there
    }

    /// Takes a token away, and remembers that for as long as it would have been good otherwise.
    pub(super) fn revoke_token(&mut self, id: AclTokenId, at: Timestamp, index: Index) -> bool {
        let expires_at = self.token(id).and_then(|token| token.expires_at);
        let was_there = self.remove_token(id, index);
        if was_there {
            self.put_revoked(RevokedToken { token: id, at, expires_at });
        }
        was_there
    }

    /// Remembers that a token was revoked. Those that would have expired by then are dropped, and of too many those that were
    /// revoked first.
    pub(super) fn put_revoked(&mut self, revoked: RevokedToken) {
        self.drop_revoked(revoked.token);
        while let Some((end, over)) =
            self.revoked_by_end.get_min().copied().filter(|(end, _)| *end <= revoked.at)
        {
            self.revoked_by_end.remove(&(end, over));
            self.drop_revoked(over);
        }
        self.revoked_by_end.extend(revoked.expires_at.map(|end| (end, revoked.token)));
        self.digest.add(hash_encoded(b'x', &revoked));
        self.revoked_by_age.insert((revoked.at, revoked.token));
        self.revoked.insert(revoked.token, revoked);
        while self.revoked.len() > REVOKED_TOKENS_MAX
            && let Some((_, oldest)) = self.revoked_by_age.get_min().copied()
        {
            self.drop_revoked(oldest);
        }
    }

    fn drop_revoked(&mut self, id: AclTokenId) {
        if let Some(old) = self.revoked.remove(&id) {
            self.digest.remove(hash_encoded(b'x', &old));
            self.revoked_by_age.remove(&(old.at, id));
            if let Some(end) = old.expires_at {
                self.revoked_by_end.remove(&(end, id));
            }
        }
    }

    /// What was revoked before this table replaced another stays so, unless all of it is to be good again.
    pub(super) fn retain_revoked(&mut self, before: &Self, revives: bool, now: Timestamp) {
        let still = before.revoked.values().filter(|revoked| revoked.expires_at.is_none_or(|end| end > now));
        for revoked in still {
            let is_back = self.tokens.contains_key(&revoked.token);
            if is_back && revives {
                continue;
            }
            self.drop_token(revoked.token);
            self.put_revoked(revoked.clone());
        }
    }

    fn drop_token(&mut self, id: AclTokenId) -> bool {
        let Some(old) = self.tokens.remove(&id) else { return false };
        self.digest.remove(hash_encoded(b't', &*old));
        self.by_secret.remove(&old.secret);
        if let Some(end) = old.expires_at {
            self.by_end.remove(&(end, id));
        }
        true
    }

    pub(super) fn put_one_time(&mut self, token: OneTimeToken, index: Index) {
        self.modify_index = self.modify_index.max(index);
        self.digest.add(hash_encoded(b'o', &token));
        self.one_time_by_end.insert((token.expires_at, token.secret));
        self.one_time.insert(token.secret, Arc::new(token));
    }

    pub(super) fn remove_one_time(&mut self, secret: &SecretHash, index: Index) -> Option<Arc<OneTimeToken>> {
        let old = self.one_time.remove(secret)?;
        self.digest.remove(hash_encoded(b'o', &*old));
        self.one_time_by_end.remove(&(old.expires_at, old.secret));
        self.modify_index = self.modify_index.max(index);
        Some(old)
    }

    /// It replaces another, whose indexes may be the same and say something else: rights that were made of that
    /// must not pass for rights of this. Where neither has anything, nothing is written, as before there were tokens.
    pub(super) fn restored_at(&mut self, index: Index, before: &Self) {
        if self.modify_index.max(before.modify_index) == Index(0) {
            return;
        }
        (self.modify_index, self.rights_index) = (index, index);
        self.joins.restored_at(index, &before.joins, &mut self.digest);
        if self.bootstrapped_at != Index(0) {
            self.bootstrapped_at = index;
        }
    }

    fn touch(&mut self, index: Index) {
        self.modify_index = self.modify_index.max(index);
        self.rights_index = self.rights_index.max(index);
    }
}
