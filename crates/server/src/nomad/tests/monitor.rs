//! The log of a server, followed by others.

use std::sync::Arc;

use axum::{Router, body::Body};
use berth_api::{LogDetail, LogFeed, LogFormat, http::StreamFrame};
use expect_test::expect;
use http_body_util::BodyExt;
use serde_json::Value;
use tracing::Level;

use super::{
    acl::tokens,
    exchange::{get, governed, logged, request, send},
    fake_agents::held,
    fake_engine::FakeEngine,
    world::world,
};
use crate::{
    access::Acls,
    shared::{AgentError, ReadPiece, ReadSource},
};

/// The body of a watch that has begun, and the type of its content.
async fn watch(router: &Router, query: &str) -> (Body, String) {
    let response = send(router, request("GET", &format!("/v1/agent/monitor?{query}"), Body::empty())).await;
    assert_eq!(response.status(), 200, "{query}");
    let content_type = response.headers()["content-type"].to_str().expect("it is text").to_owned();
    (response.into_body(), content_type)
}

async fn piece(body: &mut Body) -> String {
    let frame = body.frame().await.expect("it goes on").expect("it does not break");
    String::from_utf8(frame.into_data().expect("data").into()).expect("it is text")
}

/// What the next frame carries.
async fn line(body: &mut Body) -> String {
    let frame: StreamFrame = serde_json::from_str(&piece(body).await).expect("an object");
    String::from_utf8(frame.data).expect("it is text")
}

#[tokio::test]
async fn a_watcher_is_sent_lines_of_its_level_and_format_in_frames_or_plain() {
    let feed = LogFeed::default();
    let router = logged(&world(), feed.clone());
    let (mut framed, framed_type) = watch(&router, "").await;
    assert_eq!((&*framed_type, &*piece(&mut framed).await), ("application/json", "{}\n"));
    let (mut debug, _) = watch(&router, "log_level=DEBUG").await;
    assert_eq!(piece(&mut debug).await, "{}\n");
    let (mut plain, plain_type) = watch(&router, "log_level=error&plain=true").await;
    assert_eq!(plain_type, "text/plain; charset=utf-8");
    let (mut json, _) = watch(&router, "log_json=true&plain=true&server_id=leader").await;
    feed.send(LogFormat::Text, Level::DEBUG, b"details\n");
    feed.send(LogFormat::Text, Level::INFO, b"a job was registered\n");
    feed.send(LogFormat::Json, Level::INFO, b"{\"message\":\"a job was registered\"}\n");
    feed.send(LogFormat::Text, Level::ERROR, b"a disk is gone\n");
    assert_eq!(line(&mut framed).await, "a job was registered\n");
    assert_eq!(line(&mut framed).await, "a disk is gone\n");
    assert_eq!(line(&mut debug).await, "details\n");
    assert_eq!(piece(&mut plain).await, "a disk is gone\n");
    let object: Value = serde_json::from_str(&piece(&mut json).await).expect("an object");
    assert_eq!(object["message"], "a job was registered");
}

#[tokio::test]
async fn the_log_is_quiet_again_once_a_watcher_has_gone() {
    let (sender, mut set) = tokio::sync::mpsc::unbounded_channel();
    let feed = LogFeed::new(move |_, level| sender.send(level.to_string()).expect("it is read"));
    let router = logged(&world(), feed);
    let (mut body, _) = watch(&router, "log_level=trace").await;
    piece(&mut body).await;
    assert_eq!(set.recv().await.as_deref(), Some("trace"));
    drop(body);
    assert_eq!(set.recv().await.as_deref(), Some("off"));
}

#[tokio::test]
async fn a_watcher_that_does_not_read_holds_a_bounded_part_and_hears_what_it_missed() {
    let feed = LogFeed::default();
    let router = logged(&world(), feed.clone());
    let (mut body, _) = watch(&router, "plain=true").await;
    // It waits for the first line before others come.
    tokio::task::yield_now().await;
    for number in 0..5_000 {
        feed.send(LogFormat::Text, Level::INFO, format!("{number}\n").as_bytes());
    }
    let mut seen = 0;
    let mut missed = 0;
    let last = loop {
        let piece = piece(&mut body).await;
        match piece.strip_prefix(" WARN berth monitor: up to ") {
            Some(notice) => {
                missed += notice.split(' ').next().expect("a number").parse::<u32>().expect("a number")
            }
            None => seen += 1,
        }
        if piece == "4999\n" {
            break seen;
        }
    };
    assert_eq!(last + missed, 5_000);
    assert!(missed >= 3_900, "{missed}");
}

#[tokio::test]
async fn what_this_server_cannot_show_is_refused_by_name() {
    let router = logged(&world(), LogFeed::default());
    let mut response = String::new();
    for query in [
        "log_level=loud",
        "log_json=perhaps",
        "node_id=33333333",
        "node_id=00000000&server_id=leader",
        "server_id=elsewhere",
    ] {
        let answer = get(&router, &format!("/v1/agent/monitor?{query}")).await;
        response += &format!("{query} -> {} {}\n", answer.status.as_u16(), answer.body);
    }
    expect![[r#"
        log_level=loud -> 400 query parameter log_level: `loud` is not trace or debug or info or warn or error
        log_json=perhaps -> 400 query parameter log_json: `perhaps` is not true or false
        node_id=33333333 -> 404 node not found
        node_id=00000000&server_id=leader -> 400 query parameters node_id and server_id: each names whose log is followed; give one of them
        server_id=elsewhere -> 404 no server has the id, the name or the address `elsewhere`
    "#]].assert_eq(&response);
}

/// The world, whose agents answer with these pieces and then go on.
fn agents_that_say(pieces: Vec<Result<ReadPiece, AgentError>>) -> (Arc<FakeEngine>, Router) {
    let world = world();
    *held(&world.agents.log) = (pieces, true);
    let router = logged(&world, LogFeed::default());
    (world, router)
}

fn of_agent(text: &'static str) -> Result<ReadPiece, AgentError> {
    Ok(ReadPiece { offset: 0, data: text.as_bytes().into(), file: String::new(), event: String::new() })
}

#[tokio::test]
async fn the_log_of_an_agent_is_followed_in_frames_or_plain() {
    let pieces = vec![of_agent(""), of_agent("a task was started\n"), of_agent("it has ended\n")];
    let (world, router) = agents_that_say(pieces);
    let (mut framed, _) = watch(&router, "node_id=11111111&log_level=WARN&log_json=true").await;
    assert_eq!(line(&mut framed).await, "a task was started\n");
    assert_eq!(line(&mut framed).await, "it has ended\n");
    let request = held(&world.agents.read_request).take().expect("it was asked").source;
    let detail = LogDetail { level: Level::WARN, format: LogFormat::Json };
    assert_eq!(request, ReadSource::AgentLog(detail));
    let (mut plain, _) = watch(&router, "node_id=11111111&plain=true").await;
    assert_eq!(piece(&mut plain).await, "a task was started\n");
}

#[tokio::test]
async fn an_agent_that_does_not_send_its_log_is_no_empty_stream() {
    let older = AgentError::NotFound("no task has the log .".to_owned());
    let (_, router) = agents_that_say(vec![Err(older)]);
    let answer = get(&router, "/v1/agent/monitor?node_id=11111111").await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("11111111-0000") && answer.body.contains("journalctl"), "{}", answer.body);
    let (_, router) = agents_that_say(vec![Err(AgentError::Failed("too many readers".to_owned()))]);
    let answer = get(&router, "/v1/agent/monitor?node_id=11111111").await;
    assert_eq!((answer.status.as_u16(), &*answer.body), (500, "too many readers"));
}

#[tokio::test]
async fn the_log_of_an_agent_needs_the_right_to_read_the_agent() {
    let router = governed(&tokens(), Acls::default());
    let status = async |secret: &str| {
        let mut request = request("GET", "/v1/agent/monitor", Body::empty());
        request.headers_mut().insert("x-nomad-token", secret.parse().expect("it is text"));
        send(&router, request).await.status().as_u16()
    };
    assert_eq!(status("writer").await, 403);
    assert_eq!(status("denied").await, 403);
    assert_eq!(status("operator").await, 200);
}
