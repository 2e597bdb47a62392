//! Logs, as frames and as plain bytes.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use expect_test::expect;
use http_body_util::BodyExt;

use super::{
    exchange::{api, get, request, send},
    fake_engine::FakeEngine,
    world::{RUNNING, world},
};
use crate::shared::{AgentError, ReadPiece, ReadSource};

fn chunk(offset: u64, data: &'static str) -> Result<ReadPiece, AgentError> {
    Ok(ReadPiece {
        offset,
        data: Bytes::from_static(data.as_bytes()),
        file: "server.stdout.0".into(),
        event: String::new(),
    })
}

fn with_log(chunks: Vec<Result<ReadPiece, AgentError>>, open: bool) -> Arc<FakeEngine> {
    let world = world();
    *world.agents.log.lock().expect("no test panics here") = (chunks, open);
    world
}

#[tokio::test]
async fn a_log_comes_as_frames_or_plain() {
    let world = with_log(vec![chunk(0, "one\n"), chunk(4, ""), chunk(4, "two\n")], false);
    let target = format!("/v1/client/fs/logs/{RUNNING}?task=server&type=stdout");
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {"Data":"b25lCg==","File":"server.stdout.0"}
        {}
        {"Offset":4,"Data":"dHdvCg==","File":"server.stdout.0"}
    "#]]
    .assert_eq(&get(&api(&world), &target).await.show());
    expect![[r#"
        200 OK
        content-type: text/plain; charset=utf-8
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        one
        two
    "#]]
    .assert_eq(&get(&api(&world), &format!("{target}&plain=true")).await.show());
}

#[tokio::test]
async fn the_parameters_reach_the_agent() {
    let world = with_log(Vec::new(), false);
    let target = "/v1/client/fs/logs/aaaaaaaa?type=stderr&follow&offset=100&origin=end";
    assert_eq!(get(&api(&world), target).await.body, "");
    let request =
        world.agents.read_request.lock().expect("no test panics here").clone().expect("it was asked");
    assert_eq!(request.alloc, RUNNING);
    let source = ReadSource::Log { task: "server".into(), stream: "stderr".into() };
    assert_eq!((request.source, request.offset), (source, 100));
    assert!(request.from_end && request.follow);
}

#[tokio::test]
async fn a_silent_log_sends_heartbeats() {
    let world = with_log(vec![chunk(0, "one\n")], true);
    let target = format!("/v1/client/fs/logs/{RUNNING}?follow=true");
    let mut body = send(&api(&world), request("GET", &target, Body::empty())).await.into_body();
    let mut line = async || body.frame().await.expect("a line").expect("unbroken").into_data().expect("data");
    assert!(line().await.starts_with(b"{\"Data\""));
    assert_eq!(&line().await[..], b"{}\n");
}

#[tokio::test]
async fn a_log_that_breaks_off_ends_with_the_reason() {
    let world = with_log(vec![chunk(0, "one\n"), Err(AgentError::Failed("disk is gone".into()))], false);
    let answer = get(&api(&world), &format!("/v1/client/fs/logs/{RUNNING}")).await;
    expect![[r#"
        {"Data":"b25lCg==","File":"server.stdout.0"}
        {"FileEvent":"error: disk is gone"}
    "#]]
    .assert_eq(&answer.body);
}

#[tokio::test]
async fn unknown_tasks_and_allocations_are_errors() {
    let router = api(&world());
    let body = async |target: &str| {
        let answer = get(&router, target).await;
        format!("{} {}", answer.status.as_u16(), answer.body)
    };
    expect!["404 task `sever` not found, the alloc has server"]
        .assert_eq(&body(&format!("/v1/client/fs/logs/{RUNNING}?task=sever")).await);
    expect!["400 query parameter type: `stdin` is not stdout or stderr"]
        .assert_eq(&body(&format!("/v1/client/fs/logs/{RUNNING}?type=stdin")).await);
    expect!["404 alloc not found"]
        .assert_eq(&body("/v1/client/fs/logs/dddddddd-0000-4000-8000-000000000001").await);
}
