//! Error responses: plain text and a status, as Nomad's clients expect, or JSON for those who accept it.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use berth_api::http::ErrorBody;
use berth_model::Index;
use hyper::{
    HeaderMap, StatusCode,
    header::{ACCEPT, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER},
};

use super::reply;
use crate::shared::{AgentError, ProposeError};

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub status: StatusCode,
    pub text: String,
    /// Of an object that was not found: the index after which a client waits for it.
    pub index: Option<Index>,
}

impl Failure {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), index: None }
    }

    pub fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    pub fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// The same, of a read that looked at the state at that index.
    pub fn at(self, index: Index) -> Self {
        Self { index: Some(index), ..self }
    }

    /// Too much is going on: the client should come back.
    pub fn busy(text: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, text)
    }

    /// A write that failed through no fault of the client.
    pub fn unwritten(error: &std::io::Error) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, format!("write the snapshot: {error}"))
    }

    /// A parameter's value that makes no sense.
    pub fn value(name: &str, value: &str, expected: &str) -> Self {
        let cut: String = value.chars().take(64).collect();
        Self::bad_request(format!("query parameter {name}: `{cut}` is not {expected}"))
    }
}

impl Failure {
    /// The response, in the format that a request with these headers accepts.
    pub fn answer(self, request: &HeaderMap) -> Response {
        self.in_form(asks_for_json(request))
    }

    /// The answer, as JSON or as text.
    pub fn in_form(self, is_json: bool) -> Response {
        if !is_json {
            return self.into_response();
        }
        let body = ErrorBody { error: self.text.clone(), status: self.status.as_u16() };
        let Ok(body) = serde_json::to_vec(&body) else { return self.into_response() };
        let mut response = self.into_response();
        *response.body_mut() = Body::from(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// Whether a request accepts JSON by name. `*/*` gets text, which Nomad's clients show as it is.
pub(crate) fn asks_for_json(request: &HeaderMap) -> bool {
    let accepted = request.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| {
        let mut parts = kind.split(';').map(str::trim);
        let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        is_json && weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|weight| weight > 0.0))
    })
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.text));
        *response.status_mut() = self.status;
        set_headers(self.status, response.headers_mut());
        if let Some(index) = self.index {
            reply::stamp_index(response.headers_mut(), index);
        }
        response
    }
}

fn set_headers(status: StatusCode, headers: &mut HeaderMap) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    // The rest of the unread body would be parsed as the next request.
    if matches!(status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT) {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

impl From<ProposeError> for Failure {
    fn from(error: ProposeError) -> Self {
        let status = match error {
            ProposeError::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
            ProposeError::Stopping
            | ProposeError::NoLeader
            | ProposeError::TooNew(_)
            | ProposeError::NotWritten(_) => StatusCode::SERVICE_UNAVAILABLE,
            ProposeError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            ProposeError::Unknown(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        let status = match error {
            AgentError::NotFound(_) => StatusCode::NOT_FOUND,
            AgentError::Invalid(_) => StatusCode::BAD_REQUEST,
            AgentError::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
            AgentError::NotConnected(_) => StatusCode::SERVICE_UNAVAILABLE,
            AgentError::Silent(_) => StatusCode::GATEWAY_TIMEOUT,
            AgentError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}
