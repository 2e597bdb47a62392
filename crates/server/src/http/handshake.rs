//! The handshake of a WebSocket (RFC 6455, section 4.2).

use axum::{body::Body, response::Response};
use hyper::{
    HeaderMap, StatusCode,
    header::{
        CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
        UPGRADE,
    },
};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::http::failure::Failure;

/// The only version there is.
const VERSION: &str = "13";

/// The response that switches to a WebSocket.
pub fn answer(headers: &HeaderMap) -> Result<Response, Failure> {
    let asks = has_word(headers, &CONNECTION, "upgrade") && has_word(headers, &UPGRADE, "websocket");
    let version = headers.get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == VERSION);
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| asks && version).ok_or_else(not_a_websocket)?;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(|_| not_a_websocket())?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// The request cannot go on as a WebSocket.
pub fn not_a_websocket() -> Failure {
    let text = "commands run on a WebSocket of version 13: use one, or `berth exec`";
    Failure::new(StatusCode::UPGRADE_REQUIRED, text)
}

fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(word))
}
