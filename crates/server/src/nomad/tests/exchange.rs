//! Requests to the router, and their answers as text that tests compare.

use std::{fmt::Write, sync::Arc};

use axum::{Router, body::Body, extract::Request, response::Response};
use berth_api::LogFeed;
use expect_test::ExpectFile;
use http_body_util::BodyExt;
use hyper::StatusCode;
use serde_json::Value;
use tower::ServiceExt;

use super::fake_engine::FakeEngine;
use crate::{
    access::Policy,
    audit::AuditLog,
    http::{Limits, api::Api, lease, router::router},
    nomad::table,
    shared::{MetricsNames, ServerInfo},
};

/// Headers that tests look at.
const HEADERS_SHOWN: &[&str] = &[
    "allow",
    "connection",
    "content-type",
    "retry-after",
    "x-berth-ignored",
    "x-berth-unconfirmed",
    "x-nomad-index",
    "x-nomad-knownleader",
    "x-nomad-lastcontact",
    "x-nomad-nexttoken",
];

/// A router over an engine, as if it listened on loopback.
pub fn api(engine: &Arc<FakeEngine>) -> Router {
    limited(engine, Limits::default())
}

pub fn limited(engine: &Arc<FakeEngine>, limits: Limits) -> Router {
    router(&Api::new(table(), engine.state(), limits, ([127, 0, 0, 1], 4646).into()))
}

/// A router over an engine where callers may do what a policy says.
pub fn governed(engine: &Arc<FakeEngine>, policy: impl Policy + 'static) -> Router {
    let mut api = Api::new(table(), engine.state(), Limits::default(), ([127, 0, 0, 1], 4646).into());
    api.policy = Arc::new(policy);
    router(&api)
}

/// The same, and what was allowed ends with the rights that allowed it. To be called within a runtime.
pub fn watched(engine: &Arc<FakeEngine>, policy: impl Policy + 'static) -> Router {
    let mut api = Api::new(table(), engine.state(), Limits::default(), ([127, 0, 0, 1], 4646).into());
    api.policy = Arc::new(policy);
    tokio::spawn(lease::watch(api.clone()));
    router(&api)
}

/// The same, and what is asked is recorded.
pub fn recorded(engine: &Arc<FakeEngine>, policy: impl Policy + 'static, log: AuditLog) -> Router {
    let mut state = engine.state();
    state.server = Arc::new(ServerInfo { audit: Some(log), ..ServerInfo::clone(&state.server) });
    let mut api = Api::new(table(), state, Limits::default(), ([127, 0, 0, 1], 4646).into());
    api.policy = Arc::new(policy);
    router(&api)
}

/// A router over an engine whose measurements have these names.
pub fn named(engine: &Arc<FakeEngine>, metrics_names: MetricsNames) -> Router {
    let mut state = engine.state();
    state.server = Arc::new(ServerInfo { metrics_names, ..ServerInfo::clone(&state.server) });
    router(&Api::new(table(), state, Limits::default(), ([127, 0, 0, 1], 4646).into()))
}

/// A router over an engine whose log can be watched.
pub fn logged(engine: &Arc<FakeEngine>, log_feed: LogFeed) -> Router {
    let mut state = engine.state();
    state.server = Arc::new(ServerInfo { log_feed, ..ServerInfo::clone(&state.server) });
    router(&Api::new(table(), state, Limits::default(), ([127, 0, 0, 1], 4646).into()))
}

/// Sends a request and returns the answer, its body still to come.
pub async fn send(router: &Router, request: Request) -> Response {
    let answer = router.clone().oneshot(request).await;
    answer.unwrap_or_else(|never| match never {})
}

pub fn request(method: &str, target: &str, body: impl Into<Body>) -> Request {
    Request::builder().method(method).uri(target).body(body.into()).expect("it is a request")
}

/// Status, headers and body of an answer.
pub struct Answer {
    pub status: StatusCode,
    pub headers: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }

    /// As it is compared: JSON indented, with keys in order.
    pub fn show(&self) -> String {
        let json = serde_json::from_str(&self.body).map(|json| format!("{:#}", sorted(json)));
        format!(
            "{}\n{}\n{}\n",
            self.status,
            self.headers,
            json.unwrap_or_else(|_| self.body.clone()).trim_end()
        )
    }
}

/// The answer to whoever shows a token.
pub async fn answer_with(
    router: &Router,
    method: &str,
    target: &str,
    (secret, body): (&str, impl Into<Body>),
) -> Answer {
    let mut request = request(method, target, body);
    request.headers_mut().insert("x-nomad-token", secret.parse().expect("it is text"));
    answered(send(router, request).await).await
}

pub async fn answer(router: &Router, method: &str, target: &str, body: impl Into<Body>) -> Answer {
    answered(send(router, request(method, target, body)).await).await
}

async fn answered(response: Response) -> Answer {
    let mut headers = String::new();
    for name in HEADERS_SHOWN {
        if let Some(value) = response.headers().get(*name) {
            let _ = writeln!(headers, "{name}: {}", value.to_str().expect("it is text"));
        }
    }
    let status = response.status();
    let body = response.into_body().collect().await.expect("it ends well").to_bytes();
    Answer { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
}

pub async fn get(router: &Router, target: &str) -> Answer {
    answer(router, "GET", target, Body::empty()).await
}

/// Compares the answer to a read with a file.
pub async fn check_get(engine: &Arc<FakeEngine>, target: &str, expected: ExpectFile) {
    expected.assert_eq(&get(&api(engine), target).await.show());
}

/// The same value with all keys in order, however its map keeps them.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            members.into_iter().map(|(key, value)| (key, sorted(value))).collect()
        }
        other => other,
    }
}
