//! Policies, roles and tokens: what is refused, what follows from what, and that snapshots hold all of it.

use berth_model::{
    AclRoleId, AclTokenId, Index, NodeId, Timestamp,
    acl::{
        ACL_LINKS_MAX, AclPolicy, AclRole, AclToken, ChangeAcl, ONE_TIME_OF_TOKEN_MAX, ONE_TIME_TOKENS_MAX,
        OneTimeToken, POLICIES_MAX, POLICY_RULES_MAX, REVOKED_TOKENS_MAX, SEALED_MAX, SecretHash, TOKENS_MAX,
        TokenType,
    },
    command::{Command, Entry, Outcome, Refusal, RestorePart},
    join::{
        JOIN_TOKENS_MAX, Join, JoinToken, JoinedNode, REVOKED_NODES_MAX, REVOKED_SERVER_NAME_MAX,
        REVOKED_SERVERS_MAX,
    },
    store::{Store, snapshot},
};

/// Applies a change as the next entry, at a time that is its index.
fn change(store: &mut Store, change: ChangeAcl) -> Outcome {
    let index = Index(store.index().0 + 1);
    let entry = Entry::new(index, Timestamp(index.0), vec![Command::ChangeAcl(Box::new(change))]);
    let mut applied = store.apply(Entry::decode(&entry.encode()).expect("it was just encoded"));
    applied.outcomes.remove(0)
}

fn policy(name: &str) -> ChangeAcl {
    let policy = AclPolicy {
        name: name.to_owned(),
        description: String::new(),
        rules: "node { policy = \"read\" }".to_owned(),
        create_index: Index(0),
        modify_index: Index(0),
        job: None,
    };
    ChangeAcl::PutPolicy(Box::new(policy))
}

fn role(id: u128, name: &str, policies: &[&str]) -> ChangeAcl {
    let role = AclRole {
        id: AclRoleId(id),
        name: name.to_owned(),
        description: String::new(),
        policies: policies.iter().map(|&name| name.to_owned()).collect(),
        create_index: Index(0),
        modify_index: Index(0),
    };
    ChangeAcl::PutRole(Box::new(role))
}

fn token(id: u8, token_type: TokenType, policies: &[&str], ends: Option<u64>) -> AclToken {
    AclToken {
        id: AclTokenId(id.into()),
        secret: SecretHash([id; 32]),
        name: String::new(),
        token_type,
        policies: policies.iter().map(|&name| name.to_owned()).collect(),
        roles: Vec::new(),
        global: false,
        created_at: Timestamp(0),
        expires_at: ends.map(Timestamp),
        create_index: Index(0),
        modify_index: Index(0),
    }
}

fn put(token: AclToken) -> ChangeAcl {
    ChangeAcl::PutToken(Box::new(token))
}

fn bootstrap(id: u8, again: Option<u64>) -> ChangeAcl {
    ChangeAcl::Bootstrap(Box::new(token(id, TokenType::Management, &[], None)), again.map(Index))
}

#[test]
fn the_first_token_is_made_once_and_again_by_the_index_of_the_last_time() {
    let mut store = Store::default();
    assert_eq!(change(&mut store, bootstrap(1, None)), Ok(()));
    assert_eq!(store.acl().bootstrapped_at(), Index(1));
    for wrong in [None, Some(0), Some(2)] {
        assert_eq!(change(&mut store, bootstrap(2, wrong)), Err(Refusal::AclBootstrapped(Index(1))));
    }
    assert_eq!(change(&mut store, bootstrap(2, Some(1))), Ok(()));
    let last = store.acl().bootstrapped_at();
    assert_eq!(change(&mut store, bootstrap(3, Some(1))), Err(Refusal::AclBootstrapped(last)), "once");
    assert_eq!(store.acl().tokens_len(), 2);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut store = Store::default();
    assert_eq!(change(&mut store, policy("some")), Ok(()));
    assert_eq!(change(&mut store, role(1, "ops", &["some"])), Ok(()));
    let (client, management) = (TokenType::Client, TokenType::Management);
    assert_eq!(change(&mut store, put(token(1, client, &["some"], None))), Ok(()));
    let before = store.acl().modify_index();
    let long = AclPolicy {
        name: "long".to_owned(),
        description: String::new(),
        rules: "x".repeat(POLICY_RULES_MAX + 1),
        create_index: Index(0),
        modify_index: Index(0),
        job: None,
    };
    let same_secret = AclToken { id: AclTokenId(9), ..token(1, client, &["some"], None) };
    for (wrong, says) in [
        (policy(""), "a name has 1 to 128"),
        (policy("a/b"), "a name has 1 to 128"),
        (ChangeAcl::PutPolicy(Box::new(long)), "its rules are longer than"),
        (role(2, "ops", &["some"]), "another role has this name"),
        (role(2, "other", &[]), "it needs 1 to 64 policies"),
        (role(2, "other", &["none"]), "policy \"none\" does not exist"),
        (put(token(2, client, &[], None)), "a client token needs policies or roles"),
        (put(token(2, client, &["smoe"], None)), "policy \"smoe\" does not exist"),
        (put(token(2, management, &["some"], None)), "it has no policies and no roles"),
        (put(token(1, management, &[], None)), "cannot be changed"),
        (put(same_secret), "another token has this secret"),
        (ChangeAcl::DeletePolicy("none".to_owned()), "policy \"none\" does not exist"),
        (ChangeAcl::DeleteRole(AclRoleId(7)), "does not exist"),
        (ChangeAcl::DeleteToken(AclTokenId(7)), "does not exist"),
    ] {
        let refused = change(&mut store, wrong.clone()).expect_err("it cannot be").to_string();
        assert!(refused.contains(says), "{wrong:?}: {refused}");
    }
    assert_eq!(store.acl().modify_index(), before);
}

/// Somebody changes what somebody else deletes: the later change would bring the secret back that was revoked.
#[test]
fn what_was_deleted_meanwhile_is_not_changed() {
    let mut store = Store::default();
    assert_eq!(change(&mut store, policy("some")), Ok(()));
    assert_eq!(change(&mut store, role(1, "ops", &["some"])), Ok(()));
    assert_eq!(change(&mut store, put(token(1, TokenType::Client, &["some"], None))), Ok(()));
    let read = AclToken::clone(store.acl().token(AclTokenId(1)).expect("it is there"));
    let read_role = AclRole::clone(store.acl().role(AclRoleId(1)).expect("it is there"));
    assert_eq!(change(&mut store, put(read.clone())), Ok(()), "it is there");
    assert_eq!(change(&mut store, ChangeAcl::DeleteToken(AclTokenId(1))), Ok(()));
    assert_eq!(change(&mut store, ChangeAcl::DeleteRole(AclRoleId(1))), Ok(()));
    for late in [put(read.clone()), ChangeAcl::PutRole(Box::new(read_role))] {
        assert!(matches!(change(&mut store, late), Err(Refusal::NoAclObject(_))));
    }
    assert!(store.acl().token_of(&read.secret).is_none());
    assert!(store.acl().role(AclRoleId(1)).is_none());

    let index = Index(store.index().0 + 1);
    let late = Command::ChangeAcl(Box::new(put(read)));
    let older = Entry::new(index, Timestamp(index.0), vec![late]).of_version(7);
    assert_eq!(store.apply(older).outcomes, [Ok(())], "as it was");
}

#[test]
fn a_token_that_is_changed_keeps_its_secret_and_its_end() {
    let mut store = Store::default();
    assert_eq!(change(&mut store, policy("some")), Ok(()));
    assert_eq!(change(&mut store, put(token(1, TokenType::Client, &["some"], Some(90)))), Ok(()));
    let other = AclToken {
        secret: SecretHash([9; 32]),
        name: "renamed".to_owned(),
        ..token(1, TokenType::Client, &["some"], None)
    };
    assert_eq!(change(&mut store, put(other)), Ok(()));
    let token = store.acl().token_of(&SecretHash([1; 32])).expect("it has the same secret");
    assert_eq!((&*token.name, token.expires_at), ("renamed", Some(Timestamp(90))));
    assert!(store.acl().token_of(&SecretHash([9; 32])).is_none());
}

#[test]
fn tokens_that_have_expired_are_collected_as_others_are_made() {
    let mut store = Store::default();
    assert_eq!(change(&mut store, put(token(1, TokenType::Management, &[], Some(2)))), Ok(()));
    assert_eq!(change(&mut store, put(token(2, TokenType::Management, &[], Some(1_000)))), Ok(()));
    let ids: Vec<_> = store.acl().tokens(..).map(|token| token.id).collect();
    assert_eq!(ids, [AclTokenId(2)]);
}

fn one_time(secret: u8, of: u8, ends: u64) -> ChangeAcl {
    ChangeAcl::PutOneTime(Box::new(OneTimeToken {
        secret: SecretHash([secret; 32]),
        token: AclTokenId(of.into()),
        sealed: vec![1, 2, 3],
        expires_at: Timestamp(ends),
        create_index: Index(0),
    }))
}

#[test]
fn a_one_time_token_stands_for_a_token_that_is_there_and_is_taken_once() {
    let mut store = Store::default();
    assert_eq!(change(&mut store, put(token(1, TokenType::Management, &[], None))), Ok(()));
    assert!(matches!(change(&mut store, one_time(8, 2, 100)), Err(Refusal::NoAclObject(_))));
    assert_eq!(change(&mut store, one_time(8, 1, 100)), Ok(()));
    let again = change(&mut store, one_time(8, 1, 100)).expect_err("its secret is another's").to_string();
    assert!(again.contains("another one has this secret"), "{again}");
    let secret = SecretHash([8; 32]);
    assert_eq!(store.acl().one_time(&secret).map(|token| token.token), Some(AclTokenId(1)));

    let mut bytes = Vec::new();
    snapshot::write(&store, &mut bytes).expect("memory takes it");
    let read = snapshot::read(&mut &bytes[..]).expect("it is whole");
    assert_eq!((read.hash(), read.acl().one_time(&secret)), (store.hash(), store.acl().one_time(&secret)));
    let (rights, all) = (store.acl().rights_index(), store.acl().modify_index());
    assert!(
        rights < all && read.acl().rights_index() == all,
        "a snapshot does not say what the last change was"
    );

    assert_eq!(change(&mut store, ChangeAcl::TakeOneTime(secret)), Ok(()));
    let exchanged = change(&mut store, ChangeAcl::TakeOneTime(secret));
    assert!(matches!(exchanged, Err(Refusal::NoAclObject(_))), "{exchanged:?}");

    assert_eq!(change(&mut store, one_time(9, 1, 0)), Ok(()), "it ends before it begins");
    assert_eq!(change(&mut store, one_time(10, 1, 100)), Ok(()));
    assert_eq!(store.acl().one_time_tokens().len(), 1, "those that have expired are collected");
    let more = (11..100).find_map(|secret| change(&mut store, one_time(secret, 1, 1_000)).err());
    let refused = more.expect("one token has no more than its share").to_string();
    assert!(refused.contains("as many as it may have"), "{refused}");
}

/// Ids of more tokens than a byte counts.
fn numbered(number: u32) -> AclToken {
    let mut secret = [7; 32];
    secret[..4].copy_from_slice(&number.to_be_bytes());
    AclToken {
        id: AclTokenId(1_000 + u128::from(number)),
        secret: SecretHash(secret),
        ..token(1, TokenType::Management, &[], None)
    }
}

fn one_time_numbered(number: u32, of: u32) -> OneTimeToken {
    let of = numbered(of);
    let mut secret = [8; 32];
    secret[..4].copy_from_slice(&number.to_be_bytes());
    let (secret, expires_at) = (SecretHash(secret), Timestamp(u64::MAX));
    OneTimeToken { secret, token: of.id, sealed: vec![1; SEALED_MAX], expires_at, create_index: Index(0) }
}

#[test]
fn there_are_so_many_one_time_tokens_and_no_more() {
    let mut store = Store::default();
    let put_one_time =
        |store: &mut Store, token: OneTimeToken| change(store, ChangeAcl::PutOneTime(Box::new(token)));
    let of_each = ONE_TIME_OF_TOKEN_MAX as u32;
    let tokens = (ONE_TIME_TOKENS_MAX as u32).div_ceil(of_each);
    (0..tokens).for_each(|number| assert_eq!(change(&mut store, put(numbered(number))), Ok(())));
    for number in 0..of_each {
        assert_eq!(put_one_time(&mut store, one_time_numbered(number, 0)), Ok(()));
    }
    let refused = put_one_time(&mut store, one_time_numbered(u32::MAX, 0)).expect_err("it is one too many");
    assert!(refused.to_string().contains("as many as it may have"), "{refused}");
    let long = OneTimeToken { sealed: vec![1; SEALED_MAX + 1], ..one_time_numbered(u32::MAX, 1) };
    let refused = put_one_time(&mut store, long).expect_err("it is too long");
    assert!(refused.to_string().contains("secret is too long"), "{refused}");
    for number in of_each..ONE_TIME_TOKENS_MAX as u32 {
        assert_eq!(put_one_time(&mut store, one_time_numbered(number, number / of_each)), Ok(()));
    }
    let refused =
        put_one_time(&mut store, one_time_numbered(u32::MAX, tokens - 1)).expect_err("one too many");
    assert!(refused.to_string().contains("as many as there may be"), "{refused}");
}

/// Makes so many changes, many to an entry.
fn change_many(store: &mut Store, count: usize, made: impl Fn(u32) -> ChangeAcl) {
    let numbers: Vec<u32> = (0..count as u32).collect();
    for some in numbers.chunks(10_000) {
        let index = Index(store.index().0 + 1);
        let commands = some.iter().map(|number| Command::ChangeAcl(Box::new(made(*number)))).collect();
        let applied = store.apply(Entry::new(index, Timestamp(index.0), commands));
        assert!(applied.outcomes.iter().all(Result::is_ok));
    }
}

#[test]
fn there_are_so_many_tokens_and_no_more() {
    let mut store = Store::default();
    change_many(&mut store, TOKENS_MAX - 1, |number| put(numbered(number)));
    let (last, more) = (TOKENS_MAX as u32 - 1, TOKENS_MAX as u32);
    assert_eq!(change(&mut store, put(numbered(last))), Ok(()));
    let refused = change(&mut store, put(numbered(more))).expect_err("it is one too many").to_string();
    assert!(refused.contains("there are 1000000 tokens, no more may be: delete some first"), "{refused}");
    let renamed = AclToken { name: "renamed".to_owned(), ..numbered(last) };
    assert_eq!(change(&mut store, put(renamed)), Ok(()), "one that is there is written again");
    assert_eq!(change(&mut store, ChangeAcl::DeleteToken(numbered(0).id)), Ok(()));
    assert_eq!(change(&mut store, put(numbered(more))), Ok(()), "one was deleted");
}

#[test]
fn there_are_so_many_join_tokens_and_no_more() {
    let mut store = Store::default();
    let numbered = |number: u32, ends: u64| {
        let mut secret = [7; 32];
        secret[..4].copy_from_slice(&number.to_be_bytes());
        let token = JoinToken {
            secret: SecretHash(secret),
            node: None,
            expires_at: Timestamp(ends),
            joined: None,
            create_index: Index(0),
        };
        ChangeAcl::PutJoinToken(Box::new(token))
    };
    change_many(&mut store, JOIN_TOKENS_MAX - 1, |number| numbered(number, u64::MAX));
    let (last, more) = (JOIN_TOKENS_MAX as u32 - 1, JOIN_TOKENS_MAX as u32);
    let expires = store.index().0 + 3;
    assert_eq!(change(&mut store, numbered(last, expires)), Ok(()));
    let refused = change(&mut store, numbered(more, u64::MAX)).expect_err("it is one too many").to_string();
    assert!(refused.contains("there are 10000, no more may be: wait until some have expired"), "{refused}");
    assert_eq!(change(&mut store, numbered(more, u64::MAX)), Ok(()), "one has expired");
}

#[test]
fn so_many_nodes_are_revoked_and_no_more() {
    let mut store = Store::default();
    let revoke = |number: u32| ChangeAcl::RevokeNode(NodeId(number.into()));
    change_many(&mut store, REVOKED_NODES_MAX, revoke);
    let more = REVOKED_NODES_MAX as u32;
    let refused = change(&mut store, revoke(more)).expect_err("it is one too many").to_string();
    assert!(refused.contains("1000000 nodes are revoked, no more may be"), "{refused}");
    assert_eq!(change(&mut store, revoke(0)), Ok(()), "one that is revoked already is revoked again");
}

#[test]
fn there_are_so_many_policies_and_a_token_has_so_many_of_them_and_no_more() {
    let mut store = Store::default();
    let names: Vec<String> = (0..POLICIES_MAX).map(|number| format!("p{number}")).collect();
    names.iter().for_each(|name| assert_eq!(change(&mut store, policy(name)), Ok(())));
    let refused = change(&mut store, policy("more")).expect_err("it is one too many").to_string();
    assert!(refused.contains("there are 10000 policies"), "{refused}");
    assert_eq!(change(&mut store, policy("p1")), Ok(()), "one that is there is written again");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (most, more) = (&names[..ACL_LINKS_MAX], &names[..=ACL_LINKS_MAX]);
    assert_eq!(change(&mut store, role(1, "most", most)), Ok(()));
    assert_eq!(change(&mut store, put(token(1, TokenType::Client, most, None))), Ok(()));
    let refused = change(&mut store, role(2, "more", more)).expect_err("it is one too many").to_string();
    assert!(refused.contains("1 to 64 policies"), "{refused}");
    let refused = change(&mut store, put(token(2, TokenType::Client, more, None))).expect_err("one too many");
    assert!(refused.to_string().contains("more than 64"), "{refused}");
}

fn join_token(secret: u8, node: Option<NodeId>, ends: u64) -> ChangeAcl {
    ChangeAcl::PutJoinToken(Box::new(JoinToken {
        secret: SecretHash([secret; 32]),
        node,
        expires_at: Timestamp(ends),
        joined: None,
        create_index: Index(0),
    }))
}

fn join(secret: u8, node: u128, key: u8) -> ChangeAcl {
    let joined = JoinedNode { node: NodeId(node), key: SecretHash([key; 32]) };
    ChangeAcl::Join(Box::new(Join { secret: SecretHash([secret; 32]), joined }))
}

#[test]
fn a_join_token_is_good_for_one_agent_that_may_ask_again() {
    let mut store = Store::default();
    assert_eq!(change(&mut store, join_token(8, None, 100)), Ok(()));
    assert_eq!(change(&mut store, join(8, 1, 5)), Ok(()));
    assert_eq!(change(&mut store, join(8, 1, 5)), Ok(()), "the answer may have been lost");
    for (other, why) in [
        (join(8, 1, 6), "has joined with it"),
        (join(8, 2, 5), "has joined with it"),
        (join(9, 1, 5), "never made"),
    ] {
        let refused = change(&mut store, other).expect_err("it is another's").to_string();
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(change(&mut store, join_token(10, Some(NodeId(3)), 100)), Ok(()));
    let refused = change(&mut store, join(10, 4, 5)).expect_err("it is for another node").to_string();
    assert!(refused.contains("for node"), "{refused}");
    assert_eq!(change(&mut store, join(10, 3, 5)), Ok(()));
    assert_eq!(change(&mut store, join_token(11, None, 0)), Ok(()), "it ends before it begins");
    let refused = change(&mut store, join(11, 6, 5)).expect_err("it is over").to_string();
    assert!(refused.contains("expired"), "{refused}");
}

#[test]
fn so_many_servers_are_revoked_and_no_more() {
    let mut store = Store::default();
    let revoke = |name: &str| ChangeAcl::RevokeServer(name.to_owned());
    change_many(&mut store, REVOKED_SERVERS_MAX, |number| revoke(&format!("s{number}")));
    let refused = change(&mut store, revoke("another")).expect_err("it is one too many").to_string();
    assert!(refused.contains("256 servers are revoked, no more may be: replace the authority"), "{refused}");
    assert_eq!(change(&mut store, revoke("S0")), Ok(()), "one that is revoked already is revoked again");
    assert_eq!(store.acl().joins().server_revoked_at("s0"), Some(store.at()));
    let mut store = Store::default();
    assert_eq!(change(&mut store, revoke(&"x".repeat(REVOKED_SERVER_NAME_MAX))), Ok(()));
    for name in [String::new(), "x".repeat(REVOKED_SERVER_NAME_MAX + 1)] {
        assert!(change(&mut store, revoke(&name)).is_err(), "{name:?}");
    }
}

#[test]
fn revoked_nodes_and_join_tokens_are_in_snapshots() {
    let mut store = Store::default();
    assert_eq!(change(&mut store, join_token(8, None, 100)), Ok(()));
    assert_eq!(change(&mut store, join(8, 1, 5)), Ok(()));
    assert_eq!(change(&mut store, ChangeAcl::RevokeNode(NodeId(1))), Ok(()));
    assert!(store.acl().joins().revoked_index() > Index(0));
    let mut bytes = Vec::new();
    snapshot::write(&store, &mut bytes).expect("memory takes it");
    let read = snapshot::read(&mut &bytes[..]).expect("it is whole");
    assert_eq!(read.hash(), store.hash());
    let (before, after) = (store.acl().joins(), read.acl().joins());
    assert_eq!(after.revoked_at(NodeId(1)), before.revoked_at(NodeId(1)));
    assert_eq!(after.token(&SecretHash([8; 32])), before.token(&SecretHash([8; 32])));
}

/// Brings another state in the place of this one.
fn restore(store: &mut Store, saved: &Store) {
    let mut bytes = Vec::new();
    snapshot::write_records(saved, &mut bytes).expect("memory takes it");
    let index = Index(store.index().0 + 1);
    let part = Command::RestorePart(RestorePart {
        number: 0,
        bytes,
        granted: saved.granted(),
        revives_tokens: None,
    });
    assert_eq!(store.apply(Entry::new(index, Timestamp(index.0), vec![part])).outcomes, [Ok(())]);
}

#[test]
fn a_restored_state_has_its_own_tokens_and_indexes_that_were_never_seen() {
    let (mut saved, mut store) = (Store::default(), Store::default());
    assert_eq!(change(&mut saved, bootstrap(1, None)), Ok(()));
    assert_eq!(change(&mut store, bootstrap(2, None)), Ok(()));
    assert_eq!(saved.acl().modify_index(), store.acl().modify_index(), "which is why it must be a new one");
    restore(&mut store, &saved);
    let acl = store.acl();
    assert_eq!((acl.modify_index(), acl.bootstrapped_at()), (Index(2), Index(2)));
    assert!(acl.token_of(&SecretHash([1; 32])).is_some() && acl.token_of(&SecretHash([2; 32])).is_none());

    let mut bytes = Vec::new();
    snapshot::write(&store, &mut bytes).expect("memory takes it");
    assert_eq!(snapshot::read(&mut &bytes[..]).expect("it is whole").hash(), store.hash());

    restore(&mut store, &Store::default());
    assert_eq!((store.acl().tokens_len(), store.acl().modify_index()), (0, Index(3)), "nothing is kept");
}

/// Brings another state in the place of this one, and has tokens of it be good again or not.
fn restore_with(store: &mut Store, saved: &Store, revives: bool, version: u8) {
    let revives_tokens = revives.then_some(true);
    let mut bytes = Vec::new();
    snapshot::write_records(saved, &mut bytes).expect("memory takes it");
    let index = Index(store.index().0 + 1);
    let part =
        Command::RestorePart(RestorePart { number: 0, bytes, granted: saved.granted(), revives_tokens });
    let entry = Entry::new(index, Timestamp(index.0), vec![part]).of_version(version);
    assert_eq!(store.apply(entry).outcomes, [Ok(())]);
}

#[test]
fn a_token_that_was_revoked_since_does_not_come_back_with_an_older_state_unless_it_is_asked_for() {
    let mut store = Store::default();
    let put_token = |id, ends| ChangeAcl::PutToken(Box::new(token(id, TokenType::Management, &[], ends)));
    for (id, ends) in [(1, None), (2, None), (3, Some(1_000_000)), (4, Some(12))] {
        assert_eq!(change(&mut store, put_token(id, ends)), Ok(()));
    }
    let saved = store.clone();
    for id in [2, 3, 4] {
        assert_eq!(change(&mut store, ChangeAcl::DeleteToken(AclTokenId(id))), Ok(()));
    }
    assert_eq!(store.acl().revoked_tokens().len(), 3);
    let tokens = |store: &Store| store.acl().tokens(..).map(|token| token.id.0).collect::<Vec<_>>();
    let read_back = |store: &Store| {
        let mut bytes = Vec::new();
        snapshot::write(store, &mut bytes).expect("memory takes it");
        let read = snapshot::read(&mut &bytes[..]).expect("it is whole");
        assert_eq!(read.hash(), store.hash());
        read
    };
    // What is remembered outlives a snapshot of it, and restores.
    let mut twice = read_back(&store);
    while twice.index() < Index(12) {
        assert_eq!(change(&mut twice, policy("p")), Ok(()));
    }
    for _ in 0..2 {
        restore_with(&mut twice, &saved, false, berth_model::command::ENTRY_VERSION);
        assert_eq!(tokens(&twice), [1, 4], "4 has expired by itself by index 13");
        assert!(twice.acl().token_of(&SecretHash([2; 32])).is_none());
        assert!(twice.acl().is_revoked(AclTokenId(2)) && twice.acl().is_revoked(AclTokenId(3)));
        read_back(&twice);
    }
    let mut revived = store.clone();
    restore_with(&mut revived, &saved, true, berth_model::command::ENTRY_VERSION);
    assert_eq!(tokens(&revived), [1, 2, 3, 4]);
    assert!(!revived.acl().is_revoked(AclTokenId(2)), "it is good again, and can be revoked again");
    read_back(&revived);

    // Servers that know no better do as they did before.
    let mut older = store.clone();
    restore_with(&mut older, &saved, false, 5);
    assert_eq!(tokens(&older), [1, 2, 3, 4]);
    let mut fresh = Store::default();
    restore_with(&mut fresh, &saved, false, berth_model::command::ENTRY_VERSION);
    assert_eq!(tokens(&fresh), [1, 2, 3, 4], "a cluster that knows of none lets all of them in");
}

#[test]
fn so_many_revoked_tokens_are_remembered_and_the_oldest_are_dropped_first() {
    let mut store = Store::default();
    let id = |number: usize| AclTokenId(number as u128 + 1);
    for number in 0..REVOKED_TOKENS_MAX + 2 {
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&(number as u64).to_be_bytes());
        let token = AclToken {
            id: id(number),
            secret: SecretHash(secret),
            ..token(1, TokenType::Management, &[], None)
        };
        let commands = [ChangeAcl::PutToken(Box::new(token)), ChangeAcl::DeleteToken(id(number))];
        let commands = commands.map(|change| Command::ChangeAcl(Box::new(change))).into();
        let index = Index(store.index().0 + 1);
        store.apply(Entry::new(index, Timestamp(index.0), commands));
    }
    let acl = store.acl();
    assert_eq!(acl.revoked_tokens().len(), REVOKED_TOKENS_MAX);
    let is_revoked = [0, 1, 2, REVOKED_TOKENS_MAX + 1].map(|number| acl.is_revoked(id(number)));
    assert_eq!(is_revoked, [false, false, true, true]);
}
