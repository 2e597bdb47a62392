//! The rights of a token while it, its roles and its policies change.

use berth_model::{
    AclRoleId, AclTokenId, Index,
    acl::{AclPolicy, AclRole, ChangeAcl, OneTimeToken, POLICY_RULES_MAX},
    command::{Command, Entry, RestorePart},
    store::{Store, snapshot},
};

use super::super::*;
use crate::access::{Capability, Realm};

/// A state with policies and tokens in it.
#[derive(Default)]
struct World {
    store: Store,
    acls: Acls,
}

impl World {
    fn change(&mut self, change: ChangeAcl) {
        self.apply(Command::ChangeAcl(Box::new(change)));
    }

    fn apply(&mut self, command: Command) {
        let index = Index(self.store.index().0 + 1);
        let commands = vec![command];
        let version = berth_model::command::ENTRY_VERSION;
        let applied = self.store.apply(Entry { index, at: Timestamp(index.0), commands, version });
        assert_eq!(applied.outcomes, [Ok(())]);
    }

    fn policy(&mut self, name: &str, rules: &str) {
        let none = Index(0);
        let (name, description, rules) = (name.to_owned(), String::new(), rules.to_owned());
        let policy =
            AclPolicy { name, description, rules, create_index: none, modify_index: none, job: None };
        self.change(ChangeAcl::PutPolicy(Box::new(policy)));
    }

    fn may(&self, identity: &Identity, capability: Capability, now: u64) -> Result<bool, BadToken> {
        let rights = self.acls.rights(identity, self.store.acl(), Timestamp(now))?;
        Ok(rights.grant(capability, Realm::Namespace("default")))
    }
}

fn token(number: u128, secret: &str, policies: &[&str], roles: &[u128]) -> AclToken {
    AclToken {
        id: AclTokenId(number),
        secret: hash(secret),
        name: String::new(),
        token_type: if policies.is_empty() && roles.is_empty() {
            TokenType::Management
        } else {
            TokenType::Client
        },
        policies: policies.iter().map(|name| (*name).to_owned()).collect(),
        roles: roles.iter().map(|id| AclRoleId(*id)).collect(),
        global: false,
        created_at: Timestamp(1),
        expires_at: None,
        create_index: Index(0),
        modify_index: Index(0),
    }
}

#[test]
fn rights_follow_tokens_roles_and_policies_at_once() {
    let mut world = World::default();
    let read = r#"namespace "default" { policy = "read" }"#;
    let write = r#"namespace "default" { policy = "write" }"#;
    world.policy("some", read);
    let role = AclRole {
        id: AclRoleId(1),
        name: "ops".to_owned(),
        description: String::new(),
        policies: vec!["some".to_owned()],
        create_index: Index(0),
        modify_index: Index(0),
    };
    world.change(ChangeAcl::PutRole(Box::new(role)));
    world.change(ChangeAcl::PutToken(Box::new(token(1, "by policy", &["some"], &[]))));
    world.change(ChangeAcl::PutToken(Box::new(token(2, "by role", &[], &[1]))));
    let (by_policy, by_role) = (Identity::Token(hash("by policy")), Identity::Token(hash("by role")));
    for identity in [&by_policy, &by_role] {
        assert_eq!(world.may(identity, Capability::ReadJob, 9), Ok(true));
        assert_eq!(world.may(identity, Capability::RegisterJob, 9), Ok(false));
    }
    world.policy("some", write);
    for identity in [&by_policy, &by_role] {
        assert_eq!(world.may(identity, Capability::RegisterJob, 9), Ok(true));
    }
    world.change(ChangeAcl::DeleteRole(AclRoleId(1)));
    assert_eq!(world.may(&by_role, Capability::ReadJob, 9), Ok(false));
    world.change(ChangeAcl::DeletePolicy("some".to_owned()));
    assert_eq!(world.may(&by_policy, Capability::ReadJob, 9), Ok(false));
    world.change(ChangeAcl::DeleteToken(AclTokenId(1)));
    assert_eq!(world.may(&by_policy, Capability::ReadJob, 9), Err(BadToken::Unknown));
}

#[test]
fn an_expired_or_unknown_token_is_refused_and_not_taken_for_anonymous() {
    let mut world = World::default();
    world.policy(POLICY_ANONYMOUS, r#"namespace "*" { policy = "read" }"#);
    let ends = AclToken { expires_at: Some(Timestamp(100)), ..token(1, "short", &[], &[]) };
    world.change(ChangeAcl::PutToken(Box::new(ends)));
    let short = Identity::Token(hash("short"));
    assert_eq!(world.may(&short, Capability::RegisterJob, 99), Ok(true));
    assert_eq!(world.may(&short, Capability::RegisterJob, 100), Err(BadToken::Expired));
    assert_eq!(world.may(&Identity::Anonymous, Capability::ReadJob, 9), Ok(true));
    assert_eq!(world.may(&Identity::Anonymous, Capability::RegisterJob, 9), Ok(false));
    assert_eq!(world.may(&Identity::Token(hash("wrong")), Capability::ReadJob, 9), Err(BadToken::Unknown));
    world.change(ChangeAcl::DeletePolicy(POLICY_ANONYMOUS.to_owned()));
    assert_eq!(world.may(&Identity::Anonymous, Capability::ReadJob, 9), Ok(false));
}

#[test]
fn rights_that_were_kept_are_not_those_of_a_state_that_was_restored() {
    let (mut world, mut saved) = (World::default(), World::default());
    for (world, rules) in [(&mut world, "write"), (&mut saved, "read")] {
        world.policy("some", &format!(r#"namespace "default" {{ policy = "{rules}" }}"#));
        world.change(ChangeAcl::PutToken(Box::new(token(1, "secret", &["some"], &[]))));
    }
    let owner = Identity::Token(hash("secret"));
    assert_eq!(world.may(&owner, Capability::RegisterJob, 9), Ok(true));
    let mut bytes = Vec::new();
    snapshot::write_records(&saved.store, &mut bytes).expect("memory takes it");
    world.apply(Command::RestorePart(RestorePart {
        number: 0,
        bytes,
        granted: Index(0),
        revives_tokens: None,
    }));
    assert_eq!(world.may(&owner, Capability::RegisterJob, 9), Ok(false), "the same policy at the same index");
    assert_eq!(world.may(&owner, Capability::ReadJob, 9), Ok(true));
}

#[test]
fn tokens_that_a_state_in_the_place_of_another_brings_back_are_those_that_are_good_and_not_there() {
    let (mut world, mut saved) = (World::default(), World::default());
    for (world, numbers) in [(&mut world, [1, 4]), (&mut saved, [1, 2])] {
        for number in numbers {
            world.change(ChangeAcl::PutToken(Box::new(token(number, &format!("{number}"), &[], &[]))));
        }
    }
    let ends = AclToken { expires_at: Some(Timestamp(100)), ..token(3, "3", &[], &[]) };
    saved.change(ChangeAcl::PutToken(Box::new(ends)));
    let returning =
        |now| saved.store.acl().tokens_unknown(Timestamp(now), |id| world.store.acl().token(id).is_some());
    assert_eq!((returning(99), returning(100)), (vec![AclTokenId(2), AclTokenId(3)], vec![AclTokenId(2)]));
}

#[test]
fn what_changes_nobodys_rights_has_nobody_wait_for_policies_to_be_read_again() {
    let mut world = World::default();
    world.policy("some", r#"namespace "default" { policy = "read" }"#);
    world.change(ChangeAcl::PutToken(Box::new(token(1, "secret", &["some"], &[]))));
    let owner = Identity::Token(hash("secret"));
    let is_known = |world: &World| {
        let known = world.acls.known(&owner, world.store.acl(), Timestamp(9)).expect("the token is there");
        known.is_some()
    };
    assert!(!is_known(&world), "nobody has read it yet");
    assert_eq!(world.may(&owner, Capability::ReadJob, 9), Ok(true));
    assert!(is_known(&world));
    let one_time = OneTimeToken {
        secret: hash("once"),
        token: AclTokenId(1),
        sealed: vec![1],
        expires_at: Timestamp(1 << 60),
        create_index: Index(0),
    };
    let before = world.store.acl().rights_index();
    world.change(ChangeAcl::PutOneTime(Box::new(one_time)));
    world.change(ChangeAcl::TakeOneTime(hash("once")));
    assert_eq!(world.store.acl().rights_index(), before, "leases would all be looked at");
    world.change(ChangeAcl::PutToken(Box::new(token(2, "other", &["some"], &[]))));
    assert!(is_known(&world));
    world.change(ChangeAcl::PutToken(Box::new(token(1, "secret", &["some"], &[]))));
    assert!(!is_known(&world), "it may have other policies");
    world.may(&owner, Capability::ReadJob, 9).expect("the token is there");
    world.policy("other", "");
    assert!(!is_known(&world), "a role may have it");
}

#[test]
fn so_many_rules_of_one_token_are_understood_and_no_more() {
    let mut world = World::default();
    let rule = r#"namespace "default" { policy = "read" }"#;
    let filled = |bytes: usize| format!("{rule}{}", " ".repeat(bytes - rule.len()));
    let names: Vec<String> = (0..16).map(|number| format!("p{number}")).collect();
    names.iter().for_each(|name| world.policy(name, &filled(POLICY_RULES_MAX)));
    world.policy("more", &filled(rule.len()));
    let mut policies: Vec<&str> = names.iter().map(String::as_str).collect();
    world.change(ChangeAcl::PutToken(Box::new(token(1, "secret", &policies, &[]))));
    let owner = Identity::Token(hash("secret"));
    assert_eq!(world.may(&owner, Capability::ReadJob, 9), Ok(true));
    policies.push("more");
    world.change(ChangeAcl::PutToken(Box::new(token(1, "secret", &policies, &[]))));
    let refused = world.may(&owner, Capability::ReadJob, 9);
    let bytes = TOKEN_RULES_BYTES_MAX + rule.len();
    assert_eq!(refused, Err(BadToken::Rules { bytes, max: TOKEN_RULES_BYTES_MAX }));
}
