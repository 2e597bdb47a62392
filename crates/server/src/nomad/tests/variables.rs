//! Variables and root keys over HTTP: writes, read rights, conflicts and limits.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use axum::{Router, body::Body};
use berth_model::{
    Index, RootKeyId,
    command::Command,
    keyring::{ChangeKeyring, RootKeyState},
    namespace::Namespace,
    variable::{ChangeVariable, VARIABLE_BYTES_MAX, VARIABLE_PATH_MAX, Variable, VariableKey},
};
use expect_test::expect;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{
    exchange::{Answer, answer, api, get, governed, request, send},
    fake_engine::FakeEngine,
    world::world,
};
use crate::{
    Keyring,
    access::{Capabilities, Capability, Rights},
    shared::ProposeError,
};

/// A world with a root key.
fn keyed() -> Arc<FakeEngine> {
    with_root_key(world())
}

fn with_root_key(engine: Arc<FakeEngine>) -> Arc<FakeEngine> {
    let key = Box::new(engine.keyring.new_root_key());
    let put = ChangeKeyring::PutKey { key, replaces: None, full: false };
    let committed = engine.apply(vec![Command::ChangeKeyring(Box::new(put))]);
    assert_eq!(committed.outcomes, [Ok(())]);
    engine
}

async fn put(router: &Router, target: &str, items: Value) -> Answer {
    answer(router, "PUT", target, json!({ "Items": items }).to_string()).await
}

fn stored(engine: &FakeEngine, path: &str) -> Variable {
    let view = engine.view.load();
    let variable = view.store.variables().get(&VariableKey::new("default", path));
    Variable::clone(variable.expect("it is there"))
}

#[tokio::test]
async fn a_variable_is_written_read_listed_and_deleted() {
    let engine = keyed();
    let router = api(&engine);
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-index: 8
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "CreateIndex": 8,
          "CreateTime": 1700000008000000000,
          "Items": {
            "password": "canary"
          },
          "ModifyIndex": 8,
          "ModifyTime": 1700000008000000000,
          "Namespace": "default",
          "Path": "app/db"
        }
    "#]]
    .assert_eq(&put(&router, "/v1/var/app/db", json!({ "password": "canary" })).await.show());
    let read = get(&router, "/v1/var/app/db").await;
    assert_eq!((read.status.as_u16(), &read.json()["Items"]), (200, &json!({ "password": "canary" })));
    assert_eq!(get(&router, "/v1/var/app%2Fdb").await.body, read.body, "a client may encode the slashes");
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-index: 8
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        [
          {
            "CreateIndex": 8,
            "CreateTime": 1700000008000000000,
            "ModifyIndex": 8,
            "ModifyTime": 1700000008000000000,
            "Namespace": "default",
            "Path": "app/db"
          }
        ]
    "#]]
    .assert_eq(&get(&router, "/v1/vars").await.show());
    for (query, found) in [
        ("prefix=app", 1),
        ("prefix=b", 0),
        ("namespace=*", 1),
        ("namespace=other", 0),
        ("filter=Path+matches+%22db%22", 1),
        ("filter=Path+matches+%22other%22", 0),
        ("per_page=1", 1),
    ] {
        let listed = get(&router, &format!("/v1/vars?{query}")).await.json();
        assert_eq!(listed.as_array().map(Vec::len), Some(found), "{query}: {listed}");
    }
    let deleted = answer(&router, "DELETE", "/v1/var/app/db", Body::empty()).await;
    assert_eq!((deleted.status.as_u16(), deleted.body.as_str()), (204, ""));
    assert_eq!(get(&router, "/v1/var/app/db").await.status, 404);
    assert_eq!(answer(&router, "DELETE", "/v1/var/app/db", Body::empty()).await.status, 204);
}

#[tokio::test]
async fn an_overtaken_write_is_answered_with_its_own_index() {
    let engine = keyed();
    let router = api(&engine);
    let delete = || {
        let key = VariableKey::new("default", "a");
        Command::ChangeVariable(Box::new(ChangeVariable::Delete(key, None)))
    };
    for round in 0..2 {
        let known = if round == 0 { None } else { Some(stored(&engine, "a").create_index.0) };
        engine.overtaken_by.lock().expect("no test panics here").push_back(vec![delete()]);
        let response = put(&router, "/v1/var/a", json!({ "password": "canary" })).await.json();
        let index = engine.view.load().index.0 - 1;
        assert_eq!(
            (&response["ModifyIndex"], response["CreateIndex"].as_u64()),
            (&json!(index), known.or(Some(index)))
        );
        assert_eq!(put(&router, "/v1/var/a", json!({ "password": "other" })).await.status, 200);
    }
}

#[tokio::test]
async fn what_is_kept_is_encrypted_for_its_variable_alone() {
    let engine = keyed();
    let router = api(&engine);
    assert_eq!(put(&router, "/v1/var/a", json!({ "password": "the canary" })).await.status, 200);
    let kept = stored(&engine, "a");
    assert!(!kept.sealed.windows(6).any(|part| part == b"canary" || part == b"passwo"));

    // Another variable with the same encrypted items, and one with a byte that has flipped.
    let what = |path: &str, sealed: Vec<u8>| {
        let key = VariableKey::new("default", path);
        let variable = Box::new(Variable { key, sealed, ..kept.clone() });
        engine.apply(vec![Command::ChangeVariable(Box::new(ChangeVariable::Put(variable, None)))]);
    };
    what("moved", kept.sealed.clone());
    what("empty", Vec::new());
    for at in [0, 11, 12, kept.sealed.len() - 1] {
        let mut flipped = kept.sealed.clone();
        flipped[at] ^= 1;
        what(&format!("flipped{at}"), flipped);
    }
    let damaged = ["moved", "empty", "flipped0", "flipped11", "flipped12"];
    for path in damaged {
        let read = get(&router, &format!("/v1/var/{path}")).await;
        assert_eq!(read.status, 500, "{path}: {}", read.body);
        let names =
            read.body.starts_with(&format!("variable {path:?} in namespace \"default\" cannot be decrypted"));
        assert!(names, "{}", read.body);
    }
    assert_eq!(get(&router, "/v1/var/a").await.status, 200);
}

#[tokio::test]
async fn of_several_writers_one_wins_and_the_others_get_the_current_variable() {
    let engine = keyed();
    let router = api(&engine);
    assert_eq!(put(&router, "/v1/var/a?cas=0", json!({ "n": "1" })).await.status, 200);
    let first = stored(&engine, "a").modify_index.0;
    let lost = put(&router, "/v1/var/a?cas=0", json!({ "n": "2" })).await;
    assert_eq!(lost.status, 409);
    let response = lost.json();
    assert_eq!((&response["Items"], &response["ModifyIndex"]), (&json!({ "n": "1" }), &json!(first)));
    assert_eq!(put(&router, &format!("/v1/var/a?cas={first}"), json!({ "n": "2" })).await.status, 200);
    let late = answer(&router, "DELETE", &format!("/v1/var/a?cas={first}"), Body::empty()).await;
    assert_eq!((late.status.as_u16(), &late.json()["Items"]), (409, &json!({ "n": "2" })));
    let absent = put(&router, "/v1/var/b?cas=7", json!({ "n": "1" })).await;
    assert_eq!((absent.status.as_u16(), &absent.json()["ModifyIndex"]), (409, &json!(0)));
    assert_eq!(absent.json().get("Items"), None);
}

/// Who may do this with the variables of `app/`.
fn only(capabilities: impl Into<Capabilities>) -> Arc<Rights> {
    let mut rights = Rights::default();
    rights.variables.add("default", "app/*", capabilities.into());
    Arc::new(rights)
}

#[tokio::test]
async fn many_invisible_variables_are_skipped_in_pieces_and_no_page_token_names_one() {
    let engine = keyed();
    assert_eq!(put(&api(&engine), "/v1/var/app/z", json!({ "n": "v" })).await.status, 200);
    let own = stored(&engine, "app/z");
    for path in (0..1_000).map(|number| format!("aa/{number}")) {
        let variable = Box::new(Variable { key: VariableKey::new("default", &path), ..own.clone() });
        engine.apply(vec![Command::ChangeVariable(Box::new(ChangeVariable::Put(variable, None)))]);
    }
    let router = governed(&engine, only([Capability::VariablesList]));
    let response = send(&router, request("GET", "/v1/vars", Body::empty())).await;
    let length = axum::body::HttpBody::size_hint(response.body()).exact();
    assert_eq!(length, None, "it begins before all of them have been looked at");
    for query in ["per_page=1", "per_page=1&reverse=true", "", "reverse=true"] {
        let message = get(&router, &format!("/v1/vars?{query}")).await;
        let listed = message.json();
        assert_eq!((listed[0]["Path"].as_str(), listed.as_array().map(Vec::len)), (Some("app/z"), Some(1)));
        assert!(!message.headers.contains("nexttoken"), "{query}: {}", message.headers);
    }
}

#[tokio::test]
async fn each_capability_opens_its_own_and_nothing_elsewhere() {
    use Capability::*;
    for (granted, allowed) in [
        (VariablesList, [true, false, false, false]),
        (VariablesRead, [false, true, false, false]),
        (VariablesWrite, [false, false, true, false]),
        (VariablesDestroy, [false, false, false, true]),
    ] {
        let engine = keyed();
        for path in ["app/a", "other"] {
            assert_eq!(put(&api(&engine), &format!("/v1/var/{path}"), json!({ "n": "v" })).await.status, 200);
        }
        let router = governed(&engine, only([granted]));
        let requests = [
            ("GET", "/v1/vars"),
            ("GET", "/v1/var/app/a"),
            ("PUT", "/v1/var/app/a"),
            ("DELETE", "/v1/var/app/a"),
        ];
        for ((method, target), allowed) in requests.into_iter().zip(allowed) {
            let body = if method == "PUT" { r#"{"Items":{"n":"w"}}"# } else { "" };
            let message = answer(&router, method, target, body).await;
            assert_eq!(
                message.status.is_success(),
                allowed,
                "{granted:?}: {method} {target}: {}",
                message.body
            );
            assert!(allowed || message.status == 403, "{}", message.body);
            if target == "/v1/vars" && allowed {
                let paths: Vec<_> =
                    message.json().as_array().expect("a list").iter().map(|v| v["Path"].clone()).collect();
                assert_eq!(paths, [json!("app/a")], "each item is looked at");
                continue;
            }
            let elsewhere = answer(&router, method, "/v1/var/other", body).await;
            assert!(target == "/v1/vars" || elsewhere.status == 403, "{}", elsewhere.body);
        }
    }
}

#[tokio::test]
async fn a_writer_without_read_rights_gets_a_conflict_without_items() {
    let engine = keyed();
    assert_eq!(put(&api(&engine), "/v1/var/app/a", json!({ "n": "canary" })).await.status, 200);
    let router = governed(&engine, only([Capability::VariablesWrite]));
    let lost = put(&router, "/v1/var/app/a?cas=1", json!({ "n": "mine" })).await;
    assert_eq!((lost.status.as_u16(), lost.body.contains("canary")), (409, false), "{}", lost.body);
    assert_eq!(lost.json()["ModifyIndex"], json!(stored(&engine, "app/a").modify_index.0));
}

#[tokio::test]
async fn limits_stand_where_variables_enter() {
    let engine = keyed();
    engine.apply(vec![Command::PutNamespace(Box::new(Namespace::new("team")))]);
    let router = api(&engine);
    let longest = "p".repeat(VARIABLE_PATH_MAX);
    let whole = "v".repeat(VARIABLE_BYTES_MAX - 1);
    assert_eq!(put(&router, &format!("/v1/var/{longest}"), json!({ "n": whole })).await.status, 200);
    let many: BTreeMap<String, String> =
        (0..VARIABLE_BYTES_MAX / 4).map(|n| (format!("{n:04x}"), String::new())).collect();
    assert_eq!(put(&router, "/v1/var/many", json!(many)).await.status, 200, "as many items as there can be");
    for (target, body, why) in [
        (format!("/v1/var/{longest}p"), json!({ "Items": { "n": "v" } }), "at most 128 characters"),
        ("/v1/var/a".to_owned(), json!({ "Items": { "n": format!("{whole}v") } }), "at most 65536"),
        ("/v1/var/a".to_owned(), json!({ "Items": {} }), "needs items"),
        ("/v1/var/a".to_owned(), json!({}), "needs items"),
        ("/v1/var/a".to_owned(), json!({ "Items": { "": "v" } }), "has no name"),
        ("/v1/var/a".to_owned(), json!({ "Items": { "n": 1 } }), "decode the request's body"),
        ("/v1/var/a".to_owned(), json!({ "Path": "b", "Items": { "n": "v" } }), "names path"),
        (
            "/v1/var/a?namespace=team".to_owned(),
            json!({ "Namespace": "default", "Items": { "n": "v" } }),
            "leave one",
        ),
        ("/v1/var/a?namespace=*".to_owned(), json!({ "Items": { "n": "v" } }), "in one namespace"),
        ("/v1/var/a?namespace=none".to_owned(), json!({ "Items": { "n": "v" } }), "does not exist"),
        ("/v1/var/nomad/secret".to_owned(), json!({ "Items": { "n": "v" } }), "nomad/jobs"),
        ("/v1/var/a%20b".to_owned(), json!({ "Items": { "n": "v" } }), "not ' '"),
        ("/v1/var/a//b".to_owned(), json!({ "Items": { "n": "v" } }), "needs a name"),
        ("/v1/var/a?cas=x".to_owned(), json!({ "Items": { "n": "v" } }), "a whole number"),
    ] {
        let refused = answer(&router, "PUT", &target, body.to_string()).await;
        assert_eq!(refused.status, 400, "{target}: {}", refused.body);
        assert!(refused.body.contains(why), "{target}: {}", refused.body);
    }
    let of_team = json!({ "Namespace": "team", "Items": { "n": "v" } }).to_string();
    assert_eq!(answer(&router, "PUT", "/v1/var/nomad/jobs/web", of_team).await.status, 200);
    assert_eq!(get(&router, "/v1/var/nomad/jobs/web?namespace=team").await.status, 200);
    // Clients send the name alone, as Nomad's package for Go does.
    for request in ["lock-operation=acquire", "lock-acquire", "lock-release", "lock-renew="] {
        for method in ["PUT", "DELETE"] {
            let item = json!({ "Items": { "n": "v" } }).to_string();
            let locked = answer(&router, method, &format!("/v1/var/locked?{request}"), item).await;
            let is_named = locked.body.contains("no locks") && locked.body.starts_with("lock-");
            assert_eq!((locked.status.as_u16(), is_named), (501, true), "{request}: {}", locked.body);
        }
    }
    assert_eq!(get(&router, "/v1/var/locked").await.status, 404);
}

#[tokio::test]
async fn without_a_usable_root_key_the_error_says_what_to_do() {
    let engine = world();
    let none = put(&api(&engine), "/v1/var/a", json!({ "n": "v" })).await;
    assert_eq!((none.status.as_u16(), none.body.contains("no root key yet")), (503, true), "{}", none.body);
    let engine = keyed();
    assert_eq!(put(&api(&engine), "/v1/var/a", json!({ "n": "v" })).await.status, 200);
    let other = Arc::new(FakeEngine::default());
    other.view.store(engine.view.load_full());
    for locked in
        [get(&api(&other), "/v1/var/a").await, put(&api(&other), "/v1/var/a", json!({ "n": "w" })).await]
    {
        assert_eq!(locked.status, 503, "{}", locked.body);
        assert!(
            locked.body.contains("key-encryption key") && locked.body.contains(".key"),
            "{}",
            locked.body
        );
    }
    let keys = get(&api(&other), "/v1/operator/keyring/keys").await.json();
    assert_eq!(keys[0]["Readable"], json!(false));
}

#[tokio::test]
async fn root_keys_are_listed_rotated_and_taken_away() {
    let engine = keyed();
    let router = api(&engine);
    assert_eq!(put(&router, "/v1/var/a", json!({ "n": "v" })).await.status, 200);
    let first = get(&router, "/v1/operator/keyring/keys").await.json()[0].clone();
    assert_eq!(
        (&first["State"], &first["Variables"], &first["Readable"]),
        (&json!("active"), &json!(1), &json!(true))
    );
    let rotated = answer(&router, "PUT", "/v1/operator/keyring/rotate", "").await;
    assert_eq!((rotated.status.as_u16(), &rotated.json()["Key"]["State"]), (200, &json!("active")));
    assert_eq!(get(&router, "/v1/var/a").await.json()["Items"], json!({ "n": "v" }), "an older key decrypts");
    let first_id = first["KeyID"].as_str().expect("it has an id").to_owned();
    let remove = async |id: &str| {
        answer(&router, "DELETE", &format!("/v1/operator/keyring/key/{id}"), Body::empty()).await
    };
    let refused = remove(&first_id).await;
    assert_eq!(
        (refused.status.as_u16(), refused.body.contains("1 variables")),
        (409, true),
        "{}",
        refused.body
    );
    assert_eq!(answer(&router, "PUT", "/v1/operator/keyring/rotate?full=true", "").await.status, 200);
    let states: Vec<_> = engine.view.load().store.keyring().keys().map(|key| key.state).collect();
    assert_eq!(states, [RootKeyState::Rekeying, RootKeyState::Inactive, RootKeyState::Active]);
    assert_eq!(put(&router, "/v1/var/a", json!({ "n": "w" })).await.status, 200);
    assert_eq!(remove(&first_id).await.status, 200);
    assert_eq!(remove(&first_id).await.status, 404);
    assert_eq!(remove("web").await.status, 400);
    let active = engine.view.load().store.keyring().active().map_or(RootKeyId(0), |key| key.id);
    assert_eq!(remove(&active.to_string()).await.status, 409);
}

#[tokio::test]
async fn the_event_stream_has_changes_of_variables_without_their_items() {
    let engine = keyed();
    let router = api(&engine);
    let begin = engine.view.load().index;
    assert_eq!(put(&router, "/v1/var/app/a", json!({ "name": "canary" })).await.status, 200);
    assert_eq!(answer(&router, "DELETE", "/v1/var/app/a", Body::empty()).await.status, 204);
    let target = format!("/v1/event/stream?topic=Variable&index={}", begin.0);
    let follow = async |router: &Router, lines: usize| {
        let response = send(router, request("GET", &target, Body::empty())).await;
        let mut body = response.into_body().into_data_stream();
        let mut text = String::new();
        while text.lines().filter(|line| line.contains("Events")).count() < lines {
            let piece = body.next().await.expect("it has no end").expect("it goes on");
            text += &String::from_utf8_lossy(&piece);
        }
        text
    };
    let text = follow(&router, 2).await;
    assert!(text.contains("VariableUpserted") && text.contains("VariableDeleted"), "{text}");
    assert!(text.contains(r#""Path":"app/a""#) && !text.contains("canary"), "{text}");

    let mut rights =
        Rights { namespaces: [("default".to_owned(), Capabilities::ALL)].into(), ..Rights::default() };
    rights.variables.add("default", "other", [Capability::VariablesList].into());
    let stranger = governed(&engine, Arc::new(rights));
    let other = api(&engine);
    assert_eq!(put(&other, "/v1/var/other", json!({ "name": "canary" })).await.status, 200);
    let text = follow(&stranger, 1).await;
    assert!(text.contains(r#""Key":"other""#) && !text.contains("app/a"), "{text}");
    assert!(engine.view.load().index > Index(0));
}

#[tokio::test]
async fn variables_and_quotas_are_searched_by_those_who_may_list_them() {
    let engine = keyed();
    let all = api(&engine);
    for path in ["app/db", "app/web", "other/app"] {
        assert_eq!(put(&all, &format!("/v1/var/{path}"), json!({ "k": "canary" })).await.status, 200);
    }
    let quota = json!({ "Name": "app-quota" }).to_string();
    assert_eq!(answer(&all, "PUT", "/v1/quota", quota).await.status, 200);
    let lists = |path: &str, cluster: Capabilities| {
        let mut rights = Rights { cluster, ..Rights::default() };
        rights.variables.add("default", path, [Capability::VariablesList].into());
        governed(&engine, Arc::new(rights))
    };
    let search = async |router: &Router, target: &str, body: Value| {
        answer(router, "PUT", target, body.to_string()).await.json()["Matches"].clone()
    };
    let (prefix, fuzzy) = ("/v1/search", "/v1/search/fuzzy");
    let (by_prefix, by_text) =
        (json!({ "Prefix": "app", "Context": "all" }), json!({ "Text": "app", "Context": "all" }));
    let found = search(&all, prefix, by_prefix.clone()).await;
    assert_eq!(found["vars"], json!(["app/db", "app/web"]));
    assert_eq!(found["quotas"], json!(["app-quota"]));
    let some = lists("app/db", Capabilities::default());
    assert_eq!(search(&some, prefix, by_prefix.clone()).await, json!({ "vars": ["app/db"] }));
    let elsewhere = search(&some, "/v1/search?namespace=other", by_prefix.clone()).await;
    assert_eq!(elsewhere, json!({ "vars": [] }));
    let reads_quotas = lists("other/*", [Capability::QuotaRead].into());
    let found = search(&reads_quotas, prefix, by_prefix).await;
    assert_eq!(found, json!({ "quotas": ["app-quota"], "vars": [] }));
    let found = search(&some, fuzzy, by_text.clone()).await;
    assert_eq!(found, json!({ "vars": [{ "ID": "app/db", "Scope": ["default", "app/db"] }] }));
    let found = search(&reads_quotas, fuzzy, by_text).await;
    assert_eq!(found["vars"], json!([{ "ID": "other/app", "Scope": ["default", "other/app"] }]));
    assert_eq!(found["quotas"][0]["ID"], "app-quota");
}

#[tokio::test]
async fn another_key_opens_all_root_keys_and_what_is_encrypted_with_them_is_read_on() {
    let engine = keyed();
    let router = api(&engine);
    assert_eq!(put(&router, "/v1/var/a", json!({ "k": "canary" })).await.status, 200);
    let keys = async || get(&router, "/v1/operator/keyring/keys").await.json();
    let before = keys().await[0]["KeyEncryptionKey"].clone();
    let done = answer(&router, "PUT", "/v1/operator/keyring/rewrap", Body::empty()).await;
    assert_eq!(done.status, 200, "{}", done.body);
    assert_eq!(done.json()["Replaced"], json!([before]));
    let after = keys().await;
    let opened_by: Vec<&Value> =
        after.as_array().expect("a list").iter().map(|key| &key["KeyEncryptionKey"]).collect();
    assert_eq!(opened_by.len(), 2);
    assert!(opened_by[0] == opened_by[1] && *opened_by[0] != before, "{after}");
    assert_eq!(get(&router, "/v1/var/a").await.json()["Items"]["k"], "canary");
    assert!(after.as_array().expect("a list").iter().all(|key| key["Readable"] == true));
}

#[tokio::test]
async fn a_rewrap_that_fails_half_way_leaves_no_keys_behind_however_often_it_is_tried() {
    let dir = tempfile::tempdir().expect("a directory");
    let keyring = Arc::new(Keyring::load(dir.path()).expect("nothing is there"));
    let mut engine = FakeEngine::default();
    engine.keyring = keyring;
    let engine = with_root_key(Arc::new(engine));
    let router = api(&engine);
    let rewrap = async || answer(&router, "PUT", "/v1/operator/keyring/rewrap", Body::empty()).await;
    engine.shares_no_keks.store(true, Relaxed);
    for _ in 0..100 {
        assert_eq!(rewrap().await.status, 503);
    }
    assert_eq!(engine.keyring.kek_ids().len(), 2, "one for the next try");
    engine.shares_no_keks.store(false, Relaxed);
    *engine.failure.lock().unwrap() = Some(ProposeError::Unknown("its leader has gone".into()));
    assert_ne!(rewrap().await.status, 200);
    assert_eq!(rewrap().await.status, 200);
    assert_eq!(engine.keyring.kek_ids().len(), 2);
    assert_eq!(rewrap().await.status, 200);
    assert_eq!(
        engine.keyring.kek_ids().len(),
        3,
        "another one each time it is done; those before are replaced"
    );
}
