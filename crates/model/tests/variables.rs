//! Root keys and variables: what is written when, who wins, how much there may be, and what a rotation leaves.

use berth_model::{
    Index, KekId, RootKeyId, Timestamp,
    command::{Command, Entry, Outcome, Refusal, RestorePart},
    event::StateChange,
    keyring::{
        ChangeKeyring, RETIRED_KEKS_MAX, ROOT_KEYS_MAX, RootKey, RootKeyState, WRAPPED_KEY_MAX, WrappedKey,
    },
    namespace::Namespace,
    store::{Store, snapshot},
    variable::{
        ChangeVariable, NAMESPACE_VARIABLE_BYTES_MAX, NAMESPACE_VARIABLES_MAX, RekeyedVariable,
        SEALED_VARIABLE_MAX, VARIABLE_PATH_MAX, VARIABLES_BYTES_MAX, VARIABLES_MAX, Variable, VariableKey,
    },
};

fn apply(store: &mut Store, command: Command) -> (Outcome, Vec<StateChange>) {
    let index = Index(store.index().0 + 1);
    let mut applied = store.apply(Entry::new(index, Timestamp(index.0 * 1000), vec![command]));
    (applied.outcomes.remove(0), applied.events)
}

fn root_key(id: u128) -> RootKey {
    RootKey {
        id: RootKeyId(id),
        state: RootKeyState::Inactive,
        created_at: Timestamp(0),
        signing_public: vec![4; 65],
        wrapped_by: KekId(1),
        wrapped: vec![1; 200],
        create_index: Index(0),
        modify_index: Index(0),
    }
}

fn rotate(store: &mut Store, id: u128, replaces: Option<u128>, full: bool) -> Outcome {
    let (key, replaces) = (Box::new(root_key(id)), replaces.map(RootKeyId));
    let put = ChangeKeyring::PutKey { key, replaces, full };
    apply(store, Command::ChangeKeyring(Box::new(put))).0
}

fn remove(store: &mut Store, id: u128) -> Outcome {
    apply(store, Command::ChangeKeyring(Box::new(ChangeKeyring::RemoveKey(RootKeyId(id))))).0
}

fn change(store: &mut Store, what: ChangeVariable) -> Outcome {
    apply(store, Command::ChangeVariable(Box::new(what))).0
}

fn key(path: &str) -> VariableKey {
    VariableKey::new("default", path)
}

fn variable(key: VariableKey, root_key: u128, sealed: Vec<u8>) -> Box<Variable> {
    let (at, index) = (Timestamp(0), Index(0));
    let root_key = RootKeyId(root_key);
    Box::new(Variable {
        key,
        root_key,
        sealed,
        created_at: at,
        modified_at: at,
        create_index: index,
        modify_index: index,
    })
}

fn put(path: &str, root_key: u128, only_if: Option<u64>) -> ChangeVariable {
    ChangeVariable::Put(variable(key(path), root_key, vec![1; 30]), only_if.map(Index))
}

fn state(store: &Store, id: u128) -> RootKeyState {
    store.keyring().key(RootKeyId(id)).expect("it is there").state
}

/// A state with one root key, 1, at index 1.
fn with_root_key() -> Store {
    let mut store = Store::default();
    assert_eq!(rotate(&mut store, 1, None, false), Ok(()));
    store
}

#[test]
fn exactly_one_writer_wins_each_index() {
    let mut store = with_root_key();
    assert_eq!(change(&mut store, put("a", 1, Some(0))), Ok(()));
    let refused = change(&mut store, put("a", 1, Some(0)));
    assert_eq!(refused, Err(Refusal::VariableChanged(key("a"), Index(2))));
    assert_eq!(change(&mut store, put("a", 1, Some(2))), Ok(()));
    let refused = change(&mut store, put("a", 1, Some(2)));
    assert_eq!(refused, Err(Refusal::VariableChanged(key("a"), Index(4))));
    let written = store.variables().get(&key("a")).expect("it is there");
    assert_eq!((written.create_index, written.modify_index), (Index(2), Index(4)));
    assert_eq!((written.created_at, written.modified_at), (Timestamp(2000), Timestamp(4000)));

    let delete = |store: &mut Store, only_if: Option<u64>| {
        change(store, ChangeVariable::Delete(key("a"), only_if.map(Index)))
    };
    assert_eq!(delete(&mut store, Some(2)), Err(Refusal::VariableChanged(key("a"), Index(4))));
    assert_eq!(delete(&mut store, Some(4)), Ok(()));
    assert_eq!(delete(&mut store, Some(4)), Err(Refusal::VariableChanged(key("a"), Index(0))));
    let before = store.variables().modify_index();
    assert_eq!(
        (delete(&mut store, None), delete(&mut store, Some(0))),
        (Ok(()), Ok(())),
        "nothing is there to delete"
    );
    assert_eq!(store.variables().modify_index(), before, "nothing has changed");
    assert_eq!(store.variables().held().count, 0);
}

#[test]
fn nothing_is_written_with_a_key_that_is_not_active_or_not_there() {
    let mut store = Store::default();
    assert_eq!(change(&mut store, put("a", 1, None)), Err(Refusal::RootKeyNotActive(RootKeyId(1))));
    assert_eq!(rotate(&mut store, 1, None, false), Ok(()));
    assert_eq!(change(&mut store, put("a", 1, None)), Ok(()));
    assert_eq!(rotate(&mut store, 2, Some(1), false), Ok(()));
    assert_eq!(change(&mut store, put("b", 1, None)), Err(Refusal::RootKeyNotActive(RootKeyId(1))));
    assert_eq!(change(&mut store, put("b", 2, None)), Ok(()));
    let elsewhere = ChangeVariable::Put(variable(VariableKey::new("none", "a"), 2, vec![1]), None);
    assert_eq!(change(&mut store, elsewhere), Err(Refusal::NoNamespace("none".to_owned())));
    let long = "a".repeat(VARIABLE_PATH_MAX + 1);
    for path in ["nomad/other", "a b", &*long] {
        let refused = change(&mut store, put(path, 2, None));
        assert!(matches!(refused, Err(Refusal::BadVariable(..))), "{path}: {refused:?}");
    }
}

#[test]
fn two_rotations_at_once_are_one() {
    let mut store = with_root_key();
    assert_eq!(
        rotate(&mut store, 2, None, false),
        Err(Refusal::RootKeyChanged),
        "there is a first key already"
    );
    assert_eq!(rotate(&mut store, 2, Some(1), false), Ok(()));
    assert_eq!(rotate(&mut store, 3, Some(1), false), Err(Refusal::RootKeyChanged));
    assert!(matches!(rotate(&mut store, 1, Some(2), false), Err(Refusal::BadRootKey(..))));
    assert_eq!((state(&store, 1), state(&store, 2)), (RootKeyState::Inactive, RootKeyState::Active));
    assert_eq!(store.keyring().active().map(|key| key.id), Some(RootKeyId(2)));
}

#[test]
fn a_full_rotation_ends_with_the_last_variable_and_its_key_can_go_then() {
    let mut store = with_root_key();
    for path in ["a", "b", "c"] {
        assert_eq!(change(&mut store, put(path, 1, None)), Ok(()));
    }
    assert_eq!(rotate(&mut store, 2, Some(1), false), Ok(()));
    assert_eq!(change(&mut store, put("d", 2, None)), Ok(()));
    let refused = remove(&mut store, 1).expect_err("it is in use").to_string();
    assert!(refused.contains("3 variables"), "{refused}");
    let refused = remove(&mut store, 2).expect_err("it is active").to_string();
    assert!(refused.contains("it is active"), "{refused}");
    assert_eq!(remove(&mut store, 9), Err(Refusal::NoRootKey(RootKeyId(9))));

    assert_eq!(rotate(&mut store, 3, Some(2), true), Ok(()));
    let states = [1, 2, 3].map(|id| state(&store, id));
    assert_eq!(states, [RootKeyState::Rekeying, RootKeyState::Rekeying, RootKeyState::Active]);
    let read: Vec<_> = store.variables().of_root_key(RootKeyId(1)).cloned().collect();
    assert_eq!(read.len(), 3);
    // One is written again before it is encrypted again, one is deleted.
    assert_eq!(change(&mut store, put("a", 3, None)), Ok(()));
    assert_eq!(change(&mut store, ChangeVariable::Delete(key("b"), None)), Ok(()));
    let anew = |variable: &Variable| RekeyedVariable {
        key: variable.key.clone(),
        modify_index: variable.modify_index,
        root_key: RootKeyId(3),
        sealed: vec![7; 30],
    };
    let before = store.variables().get(&key("a")).cloned();
    let changed = store.variables().modify_index();
    let batch: Vec<_> = read.iter().map(|variable| anew(variable)).collect();
    assert_eq!(change(&mut store, ChangeVariable::Rekey(batch)), Ok(()));
    assert_eq!(store.variables().get(&key("a")).cloned(), before, "what was written meanwhile stays");
    assert_eq!(store.variables().get(&key("b")), None, "what was deleted meanwhile stays so");
    let c = store.variables().get(&key("c")).expect("it is there");
    assert_eq!((c.root_key, c.modify_index, c.sealed.len()), (RootKeyId(3), Index(4), 30));
    assert_eq!(store.variables().modify_index(), changed, "nothing that people read has changed");
    assert_eq!((state(&store, 1), state(&store, 2)), (RootKeyState::Inactive, RootKeyState::Rekeying));
    assert_eq!(remove(&mut store, 1), Ok(()));
    assert_eq!(change(&mut store, put("d", 3, None)), Ok(()));
    assert_eq!((state(&store, 2), remove(&mut store, 2)), (RootKeyState::Inactive, Ok(())));
    assert_eq!(store.keyring().keys().len(), 1);
}

/// Whoever asks knows an older state: writes, rotations, and removals meet in any order, and what is decided is decided there.
#[test]
fn no_key_goes_that_a_variable_needs_in_whatever_order_changes_come() {
    let mut store = with_root_key();
    let (mut seed, mut newest, mut stale) = (7_u64, 1_u128, 1_u128);
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let (mut removed, mut refused) = (0, 0);
    for _ in 0..5_000 {
        let path = format!("v/{}", draw(8));
        let known = if draw(2) == 0 { newest } else { stale };
        match draw(6) {
            0 | 1 => drop(change(&mut store, put(&path, known, None))),
            2 => drop(change(&mut store, ChangeVariable::Delete(key(&path), None))),
            3 if rotate(&mut store, newest + 1, Some(known), draw(2) == 0).is_ok() => {
                (stale, newest) = (newest, newest + 1);
            }
            4 => {
                let old = store.variables().get(&key(&path)).cloned();
                let rekeyed = old.map(|old| RekeyedVariable {
                    key: key(&path),
                    modify_index: old.modify_index,
                    root_key: RootKeyId(known),
                    sealed: vec![7; 30],
                });
                assert_eq!(change(&mut store, ChangeVariable::Rekey(rekeyed.into_iter().collect())), Ok(()));
            }
            _ => {
                let id = newest.saturating_sub(u128::from(draw(4)));
                let is_needed = store.variables().iter().any(|variable| variable.root_key == RootKeyId(id));
                match remove(&mut store, id) {
                    Ok(()) => removed += 1,
                    Err(Refusal::BadRootKey(..)) => refused += 1,
                    Err(_) => continue,
                }
                assert!(!is_needed || store.keyring().key(RootKeyId(id)).is_some());
            }
        }
        let has_key = |variable: &Variable| store.keyring().key(variable.root_key).is_some();
        assert!(store.variables().iter().all(|variable| has_key(variable)));
        assert!(store.keyring().active().is_some());
    }
    assert!(removed > 100 && refused > 100, "{removed} keys removed, {refused} refused");
}

#[test]
fn a_namespace_with_variables_stays() {
    let mut store = with_root_key();
    let namespace = Command::PutNamespace(Box::new(Namespace::new("team")));
    assert_eq!(apply(&mut store, namespace).0, Ok(()));
    let of_team = VariableKey::new("team", "a");
    let written = ChangeVariable::Put(variable(of_team.clone(), 1, vec![1]), None);
    assert_eq!(change(&mut store, written), Ok(()));
    let delete = || Command::DeleteNamespace("team".to_owned());
    let refused = apply(&mut store, delete()).0.expect_err("it has a variable").to_string();
    assert!(refused.contains("1 variables"), "{refused}");
    assert_eq!(change(&mut store, ChangeVariable::Delete(of_team, None)), Ok(()));
    assert_eq!(apply(&mut store, delete()).0, Ok(()));
}

/// All that a snapshot holds, read back.
fn read_back(store: &Store) -> Store {
    let mut bytes = Vec::new();
    snapshot::write(store, &mut bytes).expect("memory takes it");
    snapshot::read(&mut &bytes[..]).expect("it is whole")
}

#[test]
fn keys_and_variables_are_in_snapshots_and_take_the_place_of_others() {
    let mut saved = with_root_key();
    assert_eq!(change(&mut saved, put("a", 1, None)), Ok(()));
    assert_eq!(rotate(&mut saved, 2, Some(1), true), Ok(()));
    let read = read_back(&saved);
    assert_eq!(read.hash(), saved.hash());
    assert_eq!(read.variables().encrypted_with(RootKeyId(1)), 1);
    assert_eq!(read.keyring().active().map(|key| key.id), Some(RootKeyId(2)));

    let mut store = with_root_key();
    for path in ["x", "y", "z"] {
        assert_eq!(change(&mut store, put(path, 1, None)), Ok(()));
    }
    let restore = |store: &mut Store, saved: &Store| {
        let mut bytes = Vec::new();
        snapshot::write_records(saved, &mut bytes).expect("memory takes it");
        let part = Command::RestorePart(RestorePart {
            number: 0,
            bytes,
            granted: saved.granted(),
            revives_tokens: None,
        });
        assert_eq!(apply(store, part).0, Ok(()));
    };
    restore(&mut store, &saved);
    assert_eq!(store.variables().held(), saved.variables().held());
    assert_eq!((store.variables().modify_index(), store.keyring().modify_index()), (Index(5), Index(5)));
    assert_eq!(read_back(&store).hash(), store.hash());
    restore(&mut store, &Store::default());
    assert_eq!((store.variables().held().count, store.keyring().keys().len()), (0, 0));
    assert_eq!((store.variables().modify_index(), store.keyring().modify_index()), (Index(6), Index(6)));
}

#[test]
fn there_are_so_many_root_keys_and_no_more() {
    let mut store = with_root_key();
    for id in 2..=ROOT_KEYS_MAX as u128 {
        assert_eq!(rotate(&mut store, id, Some(id - 1), false), Ok(()));
    }
    let last = ROOT_KEYS_MAX as u128;
    let refused = rotate(&mut store, last + 1, Some(last), false).expect_err("one too many").to_string();
    assert!(refused.contains("there are 256 root keys"), "{refused}");
    assert_eq!((remove(&mut store, 1), rotate(&mut store, last + 1, Some(last), false)), (Ok(()), Ok(())));
    assert_eq!(remove(&mut store, 2), Ok(()));
    let mut long = root_key(999);
    long.wrapped = vec![0; WRAPPED_KEY_MAX + 1];
    let put = ChangeKeyring::PutKey { key: Box::new(long), replaces: Some(RootKeyId(last + 1)), full: false };
    let refused = apply(&mut store, Command::ChangeKeyring(Box::new(put))).0;
    assert!(matches!(refused, Err(Refusal::BadRootKey(..))), "{refused:?}");
}

#[test]
fn a_namespace_has_so_many_variables_and_no_more() {
    let mut store = with_root_key();
    for number in 0..NAMESPACE_VARIABLES_MAX {
        assert_eq!(change(&mut store, put(&format!("v{number}"), 1, None)), Ok(()));
    }
    let refused = change(&mut store, put("more", 1, None)).expect_err("one too many").to_string();
    assert!(refused.contains("10000 variables"), "{refused}");
    assert_eq!(change(&mut store, put("v1", 1, None)), Ok(()), "one that is there is written again");
    // The cluster has as many as ten such namespaces.
    assert_eq!(VARIABLES_MAX, 10 * NAMESPACE_VARIABLES_MAX);
    for team in 1..10 {
        let name = format!("team{team}");
        let namespace = Command::PutNamespace(Box::new(Namespace::new(&name)));
        assert_eq!(apply(&mut store, namespace).0, Ok(()));
        for number in 0..NAMESPACE_VARIABLES_MAX {
            let key = VariableKey::new(&name, &format!("v{number}"));
            assert_eq!(change(&mut store, ChangeVariable::Put(variable(key, 1, vec![1]), None)), Ok(()));
        }
    }
    let namespace = Command::PutNamespace(Box::new(Namespace::new("last")));
    assert_eq!(apply(&mut store, namespace).0, Ok(()));
    let more = variable(VariableKey::new("last", "more"), 1, vec![1]);
    let refused = change(&mut store, ChangeVariable::Put(more, None)).expect_err("one too many").to_string();
    assert!(refused.contains("the cluster has 100000 variables"), "{refused}");
}

#[test]
fn variables_are_so_long_and_no_longer() {
    let mut store = with_root_key();
    let sized = |namespace: &str, number: u64, bytes: usize| {
        let key = VariableKey::new(namespace, &format!("v{number}"));
        ChangeVariable::Put(variable(key, 1, vec![1; bytes]), None)
    };
    let refused =
        change(&mut store, sized("default", 0, SEALED_VARIABLE_MAX + 1)).expect_err("it is too long");
    assert!(refused.to_string().contains("encrypted items"), "{refused}");
    let whole = NAMESPACE_VARIABLE_BYTES_MAX / SEALED_VARIABLE_MAX as u64;
    let rest = (NAMESPACE_VARIABLE_BYTES_MAX % SEALED_VARIABLE_MAX as u64) as usize;
    let fill = |store: &mut Store, namespace: &str| {
        (0..whole).for_each(|number| {
            assert_eq!(change(store, sized(namespace, number, SEALED_VARIABLE_MAX)), Ok(()));
        });
        assert_eq!(change(store, sized(namespace, whole, rest)), Ok(()));
    };
    fill(&mut store, "default");
    let refused =
        change(&mut store, sized("default", whole + 1, 1)).expect_err("a byte too many").to_string();
    assert!(refused.contains("more than 64 MiB"), "{refused}");
    assert_eq!(change(&mut store, sized("default", 0, SEALED_VARIABLE_MAX)), Ok(()), "written again");
    assert_eq!(store.variables().held_by("default").bytes, NAMESPACE_VARIABLE_BYTES_MAX);

    let namespaces = VARIABLES_BYTES_MAX / NAMESPACE_VARIABLE_BYTES_MAX;
    for team in 1..=namespaces {
        let namespace = Command::PutNamespace(Box::new(Namespace::new(format!("team{team}"))));
        assert_eq!(apply(&mut store, namespace).0, Ok(()));
    }
    (1..namespaces).for_each(|team| fill(&mut store, &format!("team{team}")));
    let last = format!("team{namespaces}");
    let refused = change(&mut store, sized(&last, 0, 1)).expect_err("a byte too many").to_string();
    assert!(refused.contains("the cluster would have more than 256 MiB"), "{refused}");
}

fn rewrap(store: &mut Store, ids: &[u128], kek: u128, new: u128) -> Outcome {
    let wrapped = |id: &u128| WrappedKey { id: RootKeyId(*id), wrapped: vec![9; 100] };
    let change = ChangeKeyring::Rewrap {
        wrapped: ids.iter().map(wrapped).collect(),
        key: Box::new(RootKey { wrapped_by: KekId(kek), ..root_key(new) }),
        replaces: store.keyring().active().map(|active| active.id),
    };
    apply(store, Command::ChangeKeyring(Box::new(change))).0
}

#[test]
fn another_key_opens_all_root_keys_at_once_and_the_old_one_opens_none_any_more() {
    let mut store = with_root_key();
    assert_eq!(change(&mut store, put("a", 1, None)), Ok(()));
    assert_eq!(rotate(&mut store, 2, Some(1), false), Ok(()));
    let before = store.keyring().keys().cloned().collect::<Vec<_>>();
    for ids in [&[1][..], &[1, 2, 3], &[2, 3], &[]] {
        assert_eq!(rewrap(&mut store, ids, 5, 9), Err(Refusal::RootKeyChanged), "{ids:?}");
    }
    let refused = rewrap(&mut store, &[1, 2], 1, 9);
    assert!(matches!(refused, Err(Refusal::BadRootKey(RootKeyId(9), _))), "{refused:?}");
    assert_eq!(
        store.keyring().keys().cloned().collect::<Vec<_>>(),
        before,
        "what is refused changes nothing"
    );

    assert_eq!(rewrap(&mut store, &[1, 2], 5, 3), Ok(()));
    assert!(store.keyring().keys().all(|key| key.wrapped_by == KekId(5)));
    let states = [1, 2, 3].map(|id| state(&store, id));
    assert_eq!(states, [RootKeyState::Rekeying, RootKeyState::Inactive, RootKeyState::Active]);
    assert!(store.keyring().is_retired(KekId(1)) && !store.keyring().is_retired(KekId(5)));
    // Whoever has not heard of it makes no root key that the old one opens.
    let late = rotate(&mut store, 4, Some(3), false);
    assert!(matches!(late, Err(Refusal::BadRootKey(RootKeyId(4), _))), "{late:?}");

    let mut bytes = Vec::new();
    snapshot::write(&store, &mut bytes).expect("memory takes it");
    let read = snapshot::read(&mut &bytes[..]).expect("it is whole");
    assert_eq!(read.hash(), store.hash());
    assert!(read.keyring().is_retired(KekId(1)));
}

#[test]
fn so_many_replaced_keys_are_remembered_and_the_oldest_are_dropped() {
    let mut store = with_root_key();
    for number in 0..RETIRED_KEKS_MAX as u128 + 2 {
        let active = store.keyring().active().expect("there is one").id.0;
        assert_eq!(rewrap(&mut store, &[active], 100 + number, 1000 + number), Ok(()));
        assert_eq!(remove(&mut store, active), Ok(()));
    }
    assert_eq!(store.keyring().retired().len(), RETIRED_KEKS_MAX);
    assert!(!store.keyring().is_retired(KekId(1)) && store.keyring().is_retired(KekId(110)));
}
