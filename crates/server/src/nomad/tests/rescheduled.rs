//! Allocations that failed and were replaced: their desired status, and the events about them.

use std::sync::Arc;

use axum::body::Body;
use berth_api::http::EventFrame;
use berth_model::{
    AllocId, Index,
    alloc::{AllocEnd, ClientStatus},
    command::Command,
    job::Job,
};
use http_body_util::BodyExt;
use serde_json::Value;

use super::{
    exchange::{api, get, request, send},
    fake_engine::FakeEngine,
    world::{end, small_job, start, world},
};

/// Registers a job, places one allocation, and another one in its stead once it has ended in this way.
fn replaced(world: &FakeEngine, id: &str, first: u128, status: ClientStatus) -> Index {
    let (first, second) = (AllocId(first), AllocId(first + 1));
    let job = small_job(id);
    let newer = Job { priority: job.priority + 1, ..job.clone() };
    start(world, job, first, None);
    world.apply(vec![Command::EndAllocs(vec![AllocEnd { status, ..end(first) }])]);
    start(world, newer, second, Some(first))
}

async fn desired(world: &Arc<FakeEngine>, alloc: u128) -> (Value, Value) {
    let target = format!("/v1/allocation/{}", AllocId(alloc));
    let alloc = get(&api(world), &target).await.json();
    (alloc["DesiredStatus"].clone(), alloc["DesiredDescription"].clone())
}

#[tokio::test]
async fn what_ended_badly_is_desired_to_stop_once_it_is_replaced() {
    let world = world();
    for (first, status) in [(10, ClientStatus::Failed), (20, ClientStatus::Lost)] {
        replaced(&world, &format!("job-{first}"), first, status);
        let (status, why) = desired(&world, first).await;
        assert_eq!((&status, &why), (&"stop".into(), &"alloc was rescheduled because it failed".into()));
        assert_eq!(desired(&world, first + 1).await.0, "run");
    }
    replaced(&world, "job-30", 30, ClientStatus::Complete);
    assert_eq!(desired(&world, 30).await.0, "run", "it has done what it was to do");
    let listed = get(&api(&world), "/v1/job/job-10/allocations").await.json();
    let runs = listed.as_array().expect("a list").iter().filter(|alloc| alloc["DesiredStatus"] == "run");
    assert_eq!(runs.count(), 1, "it wants one: {listed}");
}

#[tokio::test]
async fn the_stream_has_the_replacement_of_an_allocation() {
    let world = world();
    let at = replaced(&world, "job-10", 10, ClientStatus::Failed);
    let target = format!("/v1/event/stream?index={}&topic=Allocation:{}", at.0, AllocId(10));
    let mut body = send(&api(&world), request("GET", &target, Body::empty())).await.into_body();
    let frame = loop {
        let line = body.frame().await.expect("it goes on").expect("it does not break");
        let frame: EventFrame = serde_json::from_slice(&line.into_data().expect("data")).expect("a frame");
        if !frame.events.is_empty() {
            break frame;
        }
    };
    let alloc = &frame.events[0].payload["Allocation"];
    assert_eq!(frame.index, at.0);
    assert_eq!((&alloc["ID"], &alloc["DesiredStatus"]), (&AllocId(10).to_string().into(), &"stop".into()));
    assert_eq!(alloc["NextAllocation"], AllocId(11).to_string());
}
