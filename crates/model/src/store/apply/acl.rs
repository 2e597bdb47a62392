//! Applying changes of who may do what.

use super::{Store, rules::Rules};
use crate::{
    acl::{
        ACL_DESCRIPTION_MAX, ACL_LINKS_MAX, AclPolicy, AclRole, AclToken, ChangeAcl, ONE_TIME_OF_TOKEN_MAX,
        ONE_TIME_TOKENS_MAX, OneTimeToken, POLICIES_MAX, POLICY_RULES_MAX, PolicyJob, SEALED_MAX, TOKENS_MAX,
        TokenType,
    },
    command::{Outcome, Refusal},
    event::{AclObject, StateChange},
    ids::Index,
    namespace::is_tenant_name,
};

/// Tokens that have expired are garbage-collected as others are made, so many at a time.
const EXPIRED_FORGOTTEN_MAX: usize = 16;

const NAME: &str = "a name has 1 to 128 letters, digits, dashes and underscores";

impl Store {
    pub(super) fn change_acl(
        &mut self,
        change: ChangeAcl,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        let index = self.index;
        let object = match change {
            ChangeAcl::Bootstrap(token, again) => self.bootstrap(*token, again, rules)?,
            ChangeAcl::PutPolicy(policy) => self.put_policy(*policy)?,
            ChangeAcl::DeletePolicy(name) => {
                let object = AclObject::Policy(name.clone());
                if self.acl.remove_policy(&name, index) { object } else { return not_found(object) }
            }
            ChangeAcl::PutRole(role) => self.put_role(*role, rules)?,
            ChangeAcl::DeleteRole(id) => {
                let object = AclObject::Role(id);
                if self.acl.remove_role(id, index) { object } else { return not_found(object) }
            }
            ChangeAcl::PutToken(token) => self.put_token(*token, rules, events)?,
            ChangeAcl::DeleteToken(id) => {
                let object = AclObject::Token(id);
                let was_there = match rules.revoked_tokens_are_remembered() {
                    true => self.acl.revoke_token(id, self.at, index),
                    false => self.acl.remove_token(id, index),
                };
                if was_there { object } else { return not_found(object) }
            }
            ChangeAcl::PutOneTime(token) => self.put_one_time(*token)?,
            ChangeAcl::TakeOneTime(secret) => match self.acl.remove_one_time(&secret, index) {
                Some(token) => AclObject::OneTimeToken(token.token),
                None => return Err(Refusal::NoAclObject("the one-time token".to_owned())),
            },
            ChangeAcl::PutJoinToken(token) => self.put_join_token(*token)?,
            ChangeAcl::Join(join) => self.join(&join)?,
            ChangeAcl::RevokeNode(node) => self.revoke_node(node)?,
            ChangeAcl::RevokeServer(name) => self.revoke_server(&name)?,
        };
        events.push(StateChange::AclChanged(object));
        Ok(())
    }

    fn bootstrap(
        &mut self,
        token: AclToken,
        again: Option<Index>,
        rules: Rules,
    ) -> Result<AclObject, Refusal> {
        let last = self.acl.bootstrapped_at;
        if last != Index(0) && again != Some(last) {
            return Err(Refusal::AclBootstrapped(last));
        }
        let object = self.insert_token(token, rules)?;
        self.acl.bootstrapped_at = self.index;
        Ok(object)
    }

    fn put_policy(&mut self, mut policy: AclPolicy) -> Result<AclObject, Refusal> {
        let object = AclObject::Policy(policy.name.clone());
        let refuse = |why: String| Err(Refusal::BadAcl(object.to_string(), why));
        if !is_tenant_name(&policy.name) {
            return refuse(NAME.to_owned());
        }
        if policy.description.len() > ACL_DESCRIPTION_MAX {
            return refuse(format!("its description is longer than {ACL_DESCRIPTION_MAX} bytes"));
        }
        if policy.rules.len() > POLICY_RULES_MAX {
            return refuse(format!("its rules are longer than {POLICY_RULES_MAX} bytes"));
        }
        if let Some(why) = policy.job.as_deref().and_then(PolicyJob::wrong) {
            return refuse(why);
        }
        let old = self.acl.policy(&policy.name);
        if old.is_none() && self.acl.policies().len() >= POLICIES_MAX {
            return refuse(format!(
                "there are {POLICIES_MAX} policies, the most there may be: delete some first"
            ));
        }
        policy.create_index = old.map_or(self.index, |old| old.create_index);
        policy.modify_index = self.index;
        self.acl.put_policy(policy);
        Ok(object)
    }

    fn put_role(&mut self, mut role: AclRole, rules: Rules) -> Result<AclObject, Refusal> {
        let object = AclObject::Role(role.id);
        let refuse = |why: String| Err(Refusal::BadAcl(format!("role {:?}", role.name), why));
        if !is_tenant_name(&role.name) {
            return refuse(NAME.to_owned());
        }
        if role.description.len() > ACL_DESCRIPTION_MAX {
            return refuse(format!("its description is longer than {ACL_DESCRIPTION_MAX} bytes"));
        }
        if role.policies.is_empty() || role.policies.len() > ACL_LINKS_MAX {
            return refuse(format!("it needs 1 to {ACL_LINKS_MAX} policies"));
        }
        if let Some(missing) = role.policies.iter().find(|name| self.acl.policy(name).is_none()) {
            return refuse(format!("policy {missing:?} does not exist: write it first"));
        }
        if self.acl.role_named(&role.name).is_some_and(|other| other.id != role.id) {
            return refuse("another role has this name".to_owned());
        }
        let old = self.acl.role(role.id);
        if old.is_none() && role.create_index != Index(0) && rules.only_what_exists_is_changed() {
            return Err(Refusal::NoAclObject(object.to_string()));
        }
        if old.is_none() && self.acl.roles().len() >= POLICIES_MAX {
            return refuse(format!(
                "there are {POLICIES_MAX} roles, the most there may be: delete some first"
            ));
        }
        role.create_index = old.map_or(self.index, |old| old.create_index);
        role.modify_index = self.index;
        self.acl.put_role(role);
        Ok(object)
    }

    fn put_token(
        &mut self,
        token: AclToken,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) -> Result<AclObject, Refusal> {
        let object = self.insert_token(token, rules)?;
        let expired: Vec<_> = self.acl.expired(self.at).take(EXPIRED_FORGOTTEN_MAX).collect();
        for id in expired {
            self.acl.remove_token(id, self.index);
            events.push(StateChange::AclChanged(AclObject::Token(id)));
        }
        Ok(object)
    }

    fn put_one_time(&mut self, mut token: OneTimeToken) -> Result<AclObject, Refusal> {
        let object = AclObject::OneTimeToken(token.token);
        let refuse = |why: &str| Err(Refusal::BadAcl(object.to_string(), why.to_owned()));
        if self.acl.token(token.token).is_none_or(|token| token.is_expired(self.at)) {
            return Err(Refusal::NoAclObject(AclObject::Token(token.token).to_string()));
        }
        if token.sealed.len() > SEALED_MAX {
            return refuse("its token's secret is too long");
        }
        let expired: Vec<_> = self.acl.one_time_expired(self.at).take(EXPIRED_FORGOTTEN_MAX).collect();
        for secret in expired {
            self.acl.remove_one_time(&secret, self.index);
        }
        if self.acl.one_time_tokens().len() >= ONE_TIME_TOKENS_MAX {
            return refuse("there are as many as there may be: wait until some have expired");
        }
        let of_token = self.acl.one_time_tokens().filter(|other| other.token == token.token).count();
        if of_token >= ONE_TIME_OF_TOKEN_MAX {
            return refuse("it has as many as it may have: exchange some, or wait until they have expired");
        }
        if self.acl.one_time(&token.secret).is_some() {
            return refuse("another one has this secret");
        }
        token.create_index = self.index;
        self.acl.put_one_time(token, self.index);
        Ok(object)
    }

    /// A token that is there keeps its secret, its type, and when it was made and ends.
    fn insert_token(&mut self, mut token: AclToken, rules: Rules) -> Result<AclObject, Refusal> {
        let object = AclObject::Token(token.id);
        let refuse = |why: &str| Err(Refusal::BadAcl(object.to_string(), why.to_owned()));
        if token.name.len() > ACL_DESCRIPTION_MAX {
            return refuse("its name is longer than 256 bytes");
        }
        let links = token.policies.len().max(token.roles.len());
        match token.token_type {
            TokenType::Management if links > 0 => {
                return refuse("a management token may do everything: it has no policies and no roles");
            }
            TokenType::Client if links == 0 => return refuse("a client token needs policies or roles"),
            _ if links > ACL_LINKS_MAX => return refuse("it has more than 64 policies or roles"),
            _ => {}
        }
        if let Some(missing) = token.policies.iter().find(|name| self.acl.policy(name).is_none()) {
            return refuse(&format!("policy {missing:?} does not exist: write it first"));
        }
        match self.acl.token(token.id) {
            Some(old) => {
                token = AclToken {
                    secret: old.secret,
                    token_type: token.token_type,
                    created_at: old.created_at,
                    expires_at: old.expires_at,
                    create_index: old.create_index,
                    ..token
                };
                if old.token_type != token.token_type || old.global != token.global {
                    return refuse(
                        "its type, and whether it is global, cannot be changed: make another token",
                    );
                }
            }
            None if token.create_index != Index(0) && rules.only_what_exists_is_changed() => {
                return Err(Refusal::NoAclObject(object.to_string()));
            }
            None if self.acl.tokens_len() >= TOKENS_MAX => {
                return refuse(&format!("there are {TOKENS_MAX} tokens, no more may be: delete some first"));
            }
            None if self.acl.token_of(&token.secret).is_some() => {
                return refuse("another token has this secret");
            }
            None => token.create_index = self.index,
        }
        token.modify_index = self.index;
        self.acl.put_token(token);
        Ok(object)
    }
}

fn not_found(object: AclObject) -> Outcome {
    Err(Refusal::NoAclObject(object.to_string()))
}
