//! The whole state, taken out and put in again.

use axum::body::Body;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::BodyExt;
use sha2::{Digest, Sha256};

use super::{
    exchange::{answer, api, get, request, send},
    fake_engine::FakeEngine,
    world::world,
};

const PATH: &str = "/v1/operator/snapshot";

/// A snapshot of the usual world, and what it is to be checked against.
async fn saved() -> (Bytes, String) {
    let response = send(&api(&world()), request("GET", PATH, Body::empty())).await;
    let digest = response.headers()["digest"].to_str().expect("it is text").to_owned();
    (response.into_body().collect().await.expect("it ends well").to_bytes(), digest)
}

#[tokio::test]
async fn what_was_saved_is_there_again_on_a_server_that_had_nothing() {
    let (snapshot, digest) = saved().await;
    assert_eq!(digest, format!("sha-256={}", STANDARD.encode(Sha256::digest(&snapshot))));
    let empty = std::sync::Arc::new(FakeEngine::default());
    // A cluster is founded by an entry of the version that it writes.
    empty.apply(Vec::new());
    let restored = answer(&api(&empty), "PUT", PATH, snapshot).await;
    assert_eq!((restored.status.as_u16(), restored.body.as_str()), (200, ""));
    for path in ["/v1/jobs", "/v1/allocations", "/v1/evaluations", "/v1/nodes", "/v1/job/web/versions"] {
        let (there, here) = (get(&api(&world()), path).await, get(&api(&empty), path).await);
        let logged = |answer: &super::exchange::Answer| answer.json().as_array().map(Vec::len);
        assert_eq!(logged(&there), logged(&here), "{path}");
    }
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
