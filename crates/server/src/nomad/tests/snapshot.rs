//! Saving and restoring the whole state.

use std::sync::atomic::Ordering;

use axum::body::Body;
use base64::{Engine, engine::general_purpose::STANDARD};
use berth_model::{AclTokenId, EvalId, acl::ChangeAcl};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    acl::{change, token},
    exchange::{answer, api, get, request, send},
    fake_engine::FakeEngine,
    world::{register, small_job, world},
};

/// Of a snapshot that is restored.
const PART_BYTES: usize = 512 << 10;
const PATH: &str = "/v1/operator/snapshot";

/// A snapshot of the usual world, and what it is to be checked against.
async fn saved() -> (Bytes, String) {
    let expected = send(&api(&world()), request("GET", PATH, Body::empty())).await;
    let digest = expected.headers()["digest"].to_str().expect("it is text").to_owned();
    (expected.into_body().collect().await.expect("it ends well").to_bytes(), digest)
}

#[tokio::test]
async fn what_was_saved_is_there_again_on_a_server_that_had_nothing() {
    let (snapshot, digest) = saved().await;
    assert_eq!(digest, format!("sha-256={}", STANDARD.encode(Sha256::digest(&snapshot))));
    let empty = std::sync::Arc::new(FakeEngine::default());
    // A cluster is founded by an entry of the version that it writes.
    empty.apply(Vec::new());
    let restored = answer(&api(&empty), "PUT", PATH, snapshot).await;
    let expected = json!({ "TokensReturned": [], "TokensReturnedCount": 0, "TokensStillRevoked": 0 });
    assert_eq!((restored.status.as_u16(), restored.json()), (200, expected));
    for path in ["/v1/jobs", "/v1/allocations", "/v1/evaluations", "/v1/nodes", "/v1/job/web/versions"] {
        let (there, here) = (get(&api(&world()), path).await, get(&api(&empty), path).await);
        let logged = |answer: &super::exchange::Answer| answer.json().as_array().map(Vec::len);
        assert_eq!(logged(&there), logged(&here), "{path}");
    }
}

/// A snapshot that is restored in several parts.
async fn large() -> Bytes {
    let world = world();
    for number in 0..8 {
        let mut job = small_job(&format!("large-{number}"));
        job.meta = [("text".to_owned(), "x".repeat(200 << 10))].into_iter().collect();
        world.apply(vec![register(job, EvalId(0xf0 + number))]);
    }
    let expected = send(&api(&world), request("GET", PATH, Body::empty())).await;
    expected.into_body().collect().await.expect("it ends well").to_bytes()
}

/// Whoever leads next abandons what its predecessor was about to restore.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_leader_beside_a_restore_is_named_and_nothing_is_half_restored() {
    let (snapshot, world) = (large().await, world());
    let router = api(&world);
    let last = snapshot.len() / PART_BYTES;
    assert!(last > 1);
    for part in [1, last] {
        world.deposed_at_part.store(u32::try_from(part).expect("few"), Ordering::Relaxed);
        let refused = answer(&router, "PUT", PATH, snapshot.clone()).await;
        assert_eq!(refused.status, 409, "{}", refused.body);
        assert!(refused.body.contains("leadership"), "{}", refused.body);
        assert!(refused.body.ends_with("nothing was restored, try again"), "{}", refused.body);
        assert!(!world.view.load().store.is_restoring(), "snapshots would never be written again");
        assert_eq!(get(&router, "/v1/job/large-0").await.status, 404);
    }
    world.deposed_at_part.store(0, Ordering::Relaxed);
    assert_eq!(answer(&router, "PUT", PATH, snapshot).await.status, 200);
    assert_eq!(get(&router, "/v1/job/large-0").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_whose_leader_is_lost_on_the_way_leaves_no_parts_behind() {
    let (snapshot, world) = (large().await, world());
    let router = api(&world);
    world.unknown_at_part.store(1, Ordering::Relaxed);
    let refused = answer(&router, "PUT", PATH, snapshot).await;
    assert!(refused.body.contains("no answer") && refused.body.ends_with("nothing was restored, try again"));
    assert!(!world.view.load().store.is_restoring());
}

#[tokio::test]
async fn a_damaged_snapshot_changes_nothing() {
    let (snapshot, _) = saved().await;
    let world = world();
    let before = world.view.load().store.hash();
    let mut shown = String::new();
    let flipped = |at: usize| {
        let mut bytes = snapshot.to_vec();
        bytes[at] ^= 1;
        Bytes::from(bytes)
    };
    for (what, bytes) in [
        ("nothing", Bytes::new()),
        ("no snapshot", Bytes::from_static(b"a letter to a friend")),
        ("cut", snapshot.slice(..snapshot.len() - 1)),
        ("flipped at the end", flipped(snapshot.len() - 1)),
        ("too long", Bytes::from([&snapshot[..], b"x"].concat())),
    ] {
        let refused = answer(&api(&world), "PUT", PATH, bytes).await;
        // The hash is another one with every change of the world.
        let reason = refused.body.split(" has hash").next().unwrap_or_default();
        shown += &format!("{what} -> {} {reason}\n", refused.status.as_u16());
    }
    for at in (10..snapshot.len()).step_by(97) {
        assert_eq!(answer(&api(&world), "PUT", PATH, flipped(at)).await.status, 400, "byte {at}");
    }
    expect_test::expect![[r#"
        nothing -> 400 snapshot is cut short: nothing was changed
        no snapshot -> 400 this is not a snapshot of Berth's state: nothing was changed
        cut -> 400 snapshot is cut short: nothing was changed
        flipped at the end -> 400 snapshot is damaged: its content
        too long -> 400 snapshot goes on where it should end: nothing was changed
    "#]]
    .assert_eq(&shown);
    assert_eq!(world.view.load().store.hash(), before);
}

#[tokio::test]
async fn tokens_that_were_revoked_since_stay_so_unless_they_are_asked_back() {
    let world = world();
    for number in [1, 2] {
        change(&world, ChangeAcl::PutToken(Box::new(token(number, &format!("secret {number}"), None))));
    }
    let router = api(&world);
    let taken = send(&router, request("GET", PATH, Body::empty())).await;
    let snapshot = taken.into_body().collect().await.expect("it ends well").to_bytes();
    change(&world, ChangeAcl::DeleteToken(AclTokenId(2)));
    let is_there = |number| world.view.load().store.acl().token(AclTokenId(number)).is_some();
    let restored = answer(&router, "PUT", PATH, snapshot.clone()).await.json();
    assert_eq!(restored["TokensStillRevoked"], 1);
    assert_eq!(restored["TokensReturned"], json!([]));
    assert!(is_there(1) && !is_there(2));
    let restored =
        answer(&router, "PUT", &format!("{PATH}?revive_tokens=true"), snapshot.clone()).await.json();
    assert_eq!(restored["TokensReturned"], json!([AclTokenId(2).to_string()]));
    assert_eq!((&restored["TokensReturnedCount"], &restored["TokensStillRevoked"]), (&json!(1), &json!(0)));
    assert!(is_there(1) && is_there(2));
    // Another cluster knows of none that was revoked: all are named.
    let fresh = std::sync::Arc::new(FakeEngine::default());
    fresh.apply(Vec::new());
    let restored = answer(&api(&fresh), "PUT", PATH, snapshot).await.json();
    assert_eq!(restored["TokensReturnedCount"], 2);
}
