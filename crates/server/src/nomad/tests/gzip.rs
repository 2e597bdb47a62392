//! Compressed responses.

use std::io::Read;

use axum::body::Body;
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue};

use super::{
    exchange::{api, get, request, send},
    world::{register, small_job, world},
};
use berth_model::EvalId;

#[tokio::test]
async fn long_answers_are_compressed_for_clients_that_take_them() {
    let world = world();
    world.apply((0..1000).map(|at| register(small_job(&format!("job-{at}")), EvalId(at))).collect());
    let router = api(&world);
    let fetch = async |target: &str, accepted: &'static str| {
        let mut request = request("GET", target, Body::empty());
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static(accepted));
        let answer = send(&router, request).await;
        let encoding = answer.headers().get(CONTENT_ENCODING).cloned();
        (encoding, answer.into_body().collect().await.expect("it ends well").to_bytes())
    };
    for target in ["/v1/jobs", "/v1/job/web"] {
        let plain = get(&router, target).await.body;
        let (encoding, compressed) = fetch(target, "deflate, gzip;q=0.5").await;
        assert_eq!(encoding, Some(HeaderValue::from_static("gzip")));
        assert!(compressed.len() * 3 < plain.len() * 2, "{} of {}", compressed.len(), plain.len());
        let mut text = String::new();
        GzDecoder::new(&compressed[..]).read_to_string(&mut text).expect("it is whole");
        assert_eq!(text, plain);
        assert_eq!(fetch(target, "gzip;q=0").await, (None, plain.into()));
    }
    assert_eq!(fetch("/v1/regions", "gzip").await, (None, "[\"global\"]".into()), "not worth it");
    let request = {
        let mut request = request("GET", "/v1/event/stream?index=4", Body::empty());
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        request
    };
    assert_eq!(send(&router, request).await.headers().get(CONTENT_ENCODING), None, "lines must not wait");
}
