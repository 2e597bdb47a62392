//! Allocations, combined from their logged and their observed state.

use std::sync::{Arc, atomic::Ordering};

use axum::body::Body;
use berth_controller::NodeRecovery;
use berth_model::{
    Timestamp,
    alloc::{AllocEnd, ClientStatus},
    command::Command,
    observed::ObservedAlloc,
    store::snapshot,
};
use expect_test::{expect, expect_file};

use super::{
    exchange::{answer, api, check_get, get},
    fake_engine::FakeEngine,
    world::{FAILED, RUNNING, end, observed, world},
};
use crate::{
    access::Capability,
    http::reply::{stamp_contact_of, stamp_moment},
    shared::View,
};

#[tokio::test]
async fn allocations_are_read() {
    let world = world();
    check_get(&world, "/v1/allocations?resources=true", expect_file!["golden/allocations.txt"]).await;
    check_get(
        &world,
        "/v1/job/web/allocations?task_states=false",
        expect_file!["golden/job_allocations.txt"],
    )
    .await;
    check_get(&world, &format!("/v1/allocation/{RUNNING}"), expect_file!["golden/allocation.txt"]).await;
}

#[tokio::test]
async fn the_logged_end_wins_over_what_was_observed() {
    let world = world();
    let target = format!("/v1/allocation/{RUNNING}");
    let status = async || get(&api(&world), &target).await.json()["ClientStatus"].clone();
    assert_eq!(status().await, "running");
    let modified_at = Timestamp(2_000_000_000_000_000_000);
    world.observe(ObservedAlloc { modified_at, ..observed(RUNNING, ClientStatus::Complete) });
    assert_eq!(status().await, "complete");
    let observed_at = Some(modified_at);
    world.apply(vec![Command::EndAllocs(vec![AllocEnd { observed_at, ..end(RUNNING) }])]);
    let ended = get(&api(&world), &target).await.json();
    assert_eq!(ended["ClientStatus"], "failed");
    let task = &ended["TaskStates"]["server"];
    assert_eq!(
        (&task["State"], &task["Failed"], &task["Restarts"]),
        (&"dead".into(), &true.into(), &2.into())
    );
    assert_eq!(task["Events"][0]["Type"], "Started", "events are those that were observed");
    assert_eq!(ended["ModifyTime"], modified_at.0);
    let stubs = get(&api(&world), "/v1/allocations?task_states=false").await.json();
    let listed = stubs.as_array().unwrap().iter().find(|stub| stub["ID"] == ended["ID"]);
    assert_eq!(listed.unwrap()["ModifyTime"], modified_at.0);
    // A server that has the state of a snapshot, and nothing that was observed.
    let mut bytes = Vec::new();
    snapshot::write(&world.view.load().store, &mut bytes).unwrap();
    let store = snapshot::read(&mut &bytes[..]).unwrap();
    let other = Arc::new(FakeEngine::default());
    other.view.store(Arc::new(View { index: store.index(), store, ..View::default() }));
    let restarted = get(&api(&other), &target).await.json();
    let fields = ["ClientStatus", "ModifyTime", "ModifyIndex", "CreateTime", "DesiredStatus"];
    assert_eq!(fields.map(|field| &restarted[field]), fields.map(|field| &ended[field]));
}

#[tokio::test]
async fn an_allocation_is_found_by_the_beginning_of_its_id() {
    let router = api(&world());
    let by = async |id: &str| get(&router, &format!("/v1/allocation/{id}")).await;
    assert_eq!(by("aaaab").await.json()["ID"], FAILED.to_string());
    assert_eq!(by(&RUNNING.to_string().replace('-', "")).await.json()["ID"], RUNNING.to_string());
    expect![[r#"
        400 Bad Request
        content-type: text/plain; charset=utf-8

        alloc id `aaaa` is ambiguous: write more of its digits
    "#]]
    .assert_eq(&by("aaaa").await.show());
    expect![[r#"
        400 Bad Request
        content-type: text/plain; charset=utf-8

        `aaa` is no alloc id: expected 32 hexadecimal digits, or at least the first 4
    "#]]
    .assert_eq(&by("aaa").await.show());
    expect![[r#"
        400 Bad Request
        content-type: text/plain; charset=utf-8

        `zzzz` is no alloc id: expected 32 hexadecimal digits, or at least the first 4
    "#]]
    .assert_eq(&by("zzzz").await.show());
    expect![[r#"
        404 Not Found
        content-type: text/plain; charset=utf-8

        alloc not found
    "#]]
    .assert_eq(&by("abcd").await.show());
    expect![[r#"
        404 Not Found
        content-type: text/plain; charset=utf-8
        x-nomad-index: 6

        alloc not found
    "#]]
    .assert_eq(&by("abcdabcd-0000-4000-8000-000000000001").await.show());
}

#[tokio::test]
async fn an_allocation_is_stopped() {
    let world = world();
    let stopped = answer(&api(&world), "PUT", &format!("/v1/allocation/{RUNNING}/stop"), Body::empty()).await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-index: 7
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "EvalID": "e0000000-0000-0000-0000-000000000000",
          "Index": 7
        }
    "#]]
    .assert_eq(&stopped.show());
    let read = get(&api(&world), &format!("/v1/allocation/{RUNNING}")).await.json();
    assert_eq!(read["DesiredStatus"], "stop");
    assert_eq!(read["DesiredDescription"], "alloc was stopped by request");
}

#[tokio::test]
async fn unconfirmed_nodes_are_counted_in_a_header() {
    let world = world();
    let mut view = crate::shared::View::clone(&world.view.load());
    view.recovery = Arc::new(NodeRecovery { unconfirmed: 2, held: 1, ..NodeRecovery::default() });
    world.view.store(view.into());
    let read = get(&api(&world), "/v1/allocations?prefix=ff").await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-berth-unconfirmed: 2
        x-nomad-index: 6
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        []
    "#]]
    .assert_eq(&read.show());
}

/// A server that catches up while an answer is made does not call it fresh for that.
#[tokio::test]
async fn what_was_read_while_a_server_was_cut_off_stays_old() {
    let world = world();
    let shown = |is_cut_off: bool| {
        world.is_cut_off.store(is_cut_off, Ordering::Relaxed);
        let view = world.seen_with(Capability::ReadJob);
        world.is_cut_off.store(!is_cut_off, Ordering::Relaxed);
        let mut headers = hyper::HeaderMap::new();
        stamp_moment(&mut headers, &view);
        stamp_contact_of(&mut headers, world.as_ref());
        headers["x-nomad-lastcontact"].to_str().unwrap_or_default().len()
    };
    assert_eq!([shown(true), shown(false)], [5, 1], "60,000 ms and a little, and nothing");
}

/// An answer that was made for another reader is told with what is true for this one.
#[tokio::test]
async fn a_cached_answer_has_the_current_number_of_unconfirmed_nodes() {
    let world = world();
    let mut headers = hyper::HeaderMap::new();
    let mut header = |nodes: u64| {
        let mut view = View::clone(&world.view.load());
        view.recovery = NodeRecovery::of(nodes).into();
        world.view.store(view.into());
        stamp_moment(&mut headers, &world.seen_with(Capability::ReadJob));
        headers.get("x-berth-unconfirmed").map(|value| value.to_str().unwrap_or_default().to_owned())
    };
    assert_eq!([header(2), header(1), header(0)], [Some("2".to_owned()), Some("1".to_owned()), None]);
}
