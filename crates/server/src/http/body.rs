//! Reads a request's body into memory, within limits.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use http_body_util::BodyExt;
use hyper::{HeaderMap, StatusCode, header::CONTENT_LENGTH};
use tokio::sync::OwnedSemaphorePermit;

use super::{api::Api, failure::Failure};

/// A body in memory, and its share of the budget of all bodies.
#[derive(Debug, Default)]
pub(crate) struct BodyText {
    pub bytes: Vec<u8>,
    _budget: Option<OwnedSemaphorePermit>,
}

/// Reads a body of at most `max` bytes. One with a larger content length is refused before its first byte.
pub(crate) async fn read(
    api: &Api,
    headers: &HeaderMap,
    body: Body,
    max: usize,
) -> Result<BodyText, Failure> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let bytes_min = declared.unwrap_or_default().max(body.size_hint().lower());
    if usize::try_from(bytes_min).is_ok_and(|bytes_min| bytes_min <= max) {
        let timeout = Duration::from_millis(api.limits.body_timeout_ms);
        let outcome = tokio::time::timeout(timeout, collect(api, body, max)).await;
        return outcome.unwrap_or_else(|_| {
            let text = format!("the request's body did not arrive within {timeout:?}");
            Err(Failure::new(StatusCode::REQUEST_TIMEOUT, text))
        });
    }
    Err(too_large(max))
}

async fn collect(api: &Api, mut body: Body, max: usize) -> Result<BodyText, Failure> {
    let mut bytes = Vec::new();
    let mut budget: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let broken = |error| Failure::bad_request(format!("read the request's body: {error}"));
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if bytes.len() + data.len() > max {
            return Err(too_large(max));
        }
        let more = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let Ok(permit) = api.body_budget.clone().try_acquire_many_owned(more) else { return Err(busy()) };
        match &mut budget {
            None => budget = Some(permit),
            Some(budget) => budget.merge(permit),
        }
        bytes.extend_from_slice(&data);
    }
    Ok(BodyText { bytes, _budget: budget })
}

fn too_large(max: usize) -> Failure {
    let text = format!("the request's body is larger than the {max} bytes that this path takes");
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, text)
}

fn busy() -> Failure {
    Failure::busy("the server is reading as many requests as it can hold: try again in a moment")
}
