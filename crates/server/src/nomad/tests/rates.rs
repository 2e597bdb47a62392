//! Rate limits of clients on other machines: by address, and by token.

use axum::{Router, body::Body, http::Request};
use http_body_util::BodyExt;

use super::{acl::tokens, exchange::send};
use crate::{
    http::{Limits, RequestRates, api::Api, caller::Caller, router::router},
    nomad::table,
};

/// Far more than any bucket holds.
const MANY: usize = 1_000;

fn metered(address: u32, token: u32) -> Router {
    let rates = RequestRates { address, token, loopback: 0 };
    let limits = Limits { rates, ..Limits::default() };
    router(&Api::new(table(), tokens().state().guarded(), limits, ([10, 0, 0, 9], 4646).into()))
}

/// Asks once from an address, with a token unless it is empty.
async fn status_of(router: &Router, host: u8, secret: &str, target: &str) -> (u16, String) {
    let mut request = Request::builder().uri(target).body(Body::empty()).expect("it is a request");
    if !secret.is_empty() {
        request.headers_mut().insert("x-nomad-token", secret.parse().expect("a value"));
    }
    request.extensions_mut().insert(Caller::new(([10, 0, 0, host], 5).into(), None, false));
    let response = send(router, request).await;
    let status = response.status().as_u16();
    let waits = response.headers().get("retry-after").is_some_and(|seconds| seconds == "1");
    assert_eq!(waits, status == 429, "{target}: {status}");
    let body = response.into_body().collect().await.expect("it ends well").to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// Asks until it is too often; why. A bucket may have got one back meanwhile.
async fn until_too_often(router: &Router, host: u8, (secret, target): (&str, &str), expected: u16) -> String {
    for _ in 0..MANY {
        match status_of(router, host, secret, target).await {
            (429, why) => return why,
            (status, text) => assert_eq!(status, expected, "{text}"),
        }
    }
    panic!("{MANY} requests with {secret:?} for {target} are not too often");
}

#[tokio::test]
async fn a_token_over_its_rate_takes_nothing_from_others() {
    let router = metered(0, 1);
    let why = until_too_often(&router, 1, ("reader", "/v1/jobs"), 200).await;
    assert!(why.contains("of this token: request-rate-token is 1 a second"), "{why}");
    until_too_often(&router, 2, ("reader", "/v1/jobs"), 200).await;
    assert_eq!(status_of(&router, 1, "writer", "/v1/jobs").await.0, 200);
    assert_eq!(status_of(&router, 1, "", "/v1/jobs").await.0, 403);
}

#[tokio::test]
async fn clients_without_a_token_cannot_lock_out_those_with_one() {
    let router = metered(1, 0);
    let why = until_too_often(&router, 1, ("", "/v1/jobs"), 403).await;
    assert!(why.contains("of your address: request-rate-address is 1 a second"), "{why}");
    for secret in ["never made", "expired", "revoked"] {
        until_too_often(&router, 1, (secret, "/v1/jobs"), 403).await;
    }
    until_too_often(&router, 1, ("", "/no/such/path"), 404).await;
    for _ in 0..MANY {
        assert_eq!(status_of(&router, 1, "reader", "/v1/jobs").await.0, 200);
    }
    assert_eq!(status_of(&router, 2, "", "/v1/jobs").await.0, 403, "another address is another's");
}
