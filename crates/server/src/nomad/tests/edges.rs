//! Limits of single requests: at the limit one is accepted, and refused beyond it.

use std::sync::Arc;

use axum::body::Body;
use base64::{Engine, engine::general_purpose::STANDARD};
use berth_model::{
    EvalId, Timestamp,
    job::{Job, Parameterized, PayloadRule},
    store::Acl,
};
use serde_json::json;

use super::{
    exchange::{answer, api, governed, request, send},
    world::{NODE_1, register, small_job, world},
};
use crate::access::{BadToken, Identity, Policy, Rights, open};

/// A request's method, its target, and its body.
type Asked = (&'static str, String, String);

/// Asks with the last size that is taken, and with one more.
async fn check(ask: impl Fn(usize) -> Asked, most: usize, refused: u16) {
    let world = world();
    let rule = Parameterized { payload: PayloadRule::Optional, ..Parameterized::default() };
    let template = Job { parameterized: Some(rule.into()), ..small_job("template") };
    world.apply(vec![register(template, EvalId(1))]);
    let router = api(&world);
    for (size, expected) in [(most, 200), (most + 1, refused)] {
        let (method, target, body) = ask(size);
        let answer = send(&router, request(method, &target, Body::from(body))).await;
        assert_eq!(answer.status().as_u16(), expected, "{size} in {method} {target}");
    }
}

#[tokio::test]
async fn texts_of_requests_are_taken_up_to_their_limits() {
    let drain = |bytes: usize| {
        let body = json!({ "DrainSpec": {}, "Meta": { "m": "x".repeat(bytes - 1) } });
        ("PUT", format!("/v1/node/{NODE_1}/drain"), body.to_string())
    };
    check(drain, 4 << 10, 400).await;
    let scale = |bytes: usize| {
        let body = json!({ "Count": 1, "Target": { "Group": "app" }, "Message": "x".repeat(bytes) });
        ("PUT", "/v1/job/web/scale".to_owned(), body.to_string())
    };
    check(scale, 4 << 10, 400).await;
    let statuses = |bytes: usize| {
        let body = json!({ "Jobs": [{ "ID": "j".repeat(bytes) }] });
        ("PUT", "/v1/jobs/statuses".to_owned(), body.to_string())
    };
    check(statuses, 256, 400).await;
    let namespace = |bytes: usize| {
        let body = json!({ "Name": "team", "Description": "d".repeat(bytes) });
        ("PUT", "/v1/namespace".to_owned(), body.to_string())
    };
    check(namespace, 4 << 10, 400).await;
    let quota = |bytes: usize| {
        let body = json!({ "Name": "most", "Description": "d".repeat(bytes) });
        ("PUT", "/v1/quota".to_owned(), body.to_string())
    };
    check(quota, 4 << 10, 400).await;
}

#[tokio::test]
async fn a_dispatch_carries_so_much_and_no_more() {
    let dispatch = |bytes: usize| {
        let body = json!({ "Payload": STANDARD.encode(vec![b'x'; bytes]) });
        ("PUT", "/v1/job/template/dispatch".to_owned(), body.to_string())
    };
    check(dispatch, 16 << 10, 400).await;
}

#[tokio::test]
async fn so_many_are_named_in_one_request_and_no_more() {
    let topics = |count: usize| {
        let topics: Vec<String> = (0..count).map(|number| format!("topic=Job:j{number}")).collect();
        ("GET", format!("/v1/event/stream?{}", topics.join("&")), String::new())
    };
    check(topics, 64, 400).await;
    let join = |count: usize| {
        let all: Vec<String> = (0..count).map(|number| format!("address=10.0.0.{number}:4648")).collect();
        ("PUT", format!("/v1/agent/join?{}", all.join("&")), String::new())
    };
    check(join, 16, 400).await;
}

#[tokio::test]
async fn rules_that_are_too_long_are_refused_before_they_are_read() {
    let router = governed(&world(), Managing);
    let put = async |bytes: usize| {
        let rule = r#"node { policy = "read" }"#;
        let rules = format!("{rule}{}", " ".repeat(bytes - rule.len()));
        let body = json!({ "Name": "p", "Rules": rules });
        let answer = answer(&router, "PUT", "/v1/acl/policy/p", body.to_string()).await;
        (answer.status.as_u16(), answer.body)
    };
    assert_eq!(put(64 << 10).await.0, 200);
    let expected = "Rules has 65537 bytes, a policy may have 65536: write several policies".to_owned();
    assert_eq!(put((64 << 10) + 1).await, (400, expected));
}

/// Everybody may do everything, and policies are written all the same.
#[derive(Debug)]
struct Managing;

impl Policy for Managing {
    fn rights(&self, _: &Identity, _: &Acl, _: Timestamp) -> Result<Arc<Rights>, BadToken> {
        Ok(open())
    }

    fn is_open(&self) -> bool {
        false
    }
}
