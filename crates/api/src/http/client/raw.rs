//! Raw requests: sent as the user wrote them; the response is returned as it is, whatever its status.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, header::CONTENT_TYPE};

use super::{ApiError, ByteStream, Client, TOKEN_HEADER, Target};

/// A request as somebody has written it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRequest {
    /// As `POST`.
    pub method: String,
    /// Path and parameters.
    pub target: Target,
    /// Names and values; one of a name that the client would send itself replaces it.
    pub headers: Vec<(String, String)>,
    /// Sent as JSON unless a header says otherwise; empty for none.
    pub body: Bytes,
}

/// The answer to an [`RawRequest`].
#[derive(Debug)]
pub struct RawResponse {
    /// As `HTTP/1.1 200 OK`.
    pub status_line: String,
    /// The status.
    pub status: u16,
    /// Names and values, in the order in which they came.
    pub headers: Vec<(String, String)>,
    /// What follows them.
    pub body: ByteStream,
}

impl RawRequest {
    /// Whether a header of that name is given.
    pub fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name))
    }

    /// Whether the token of the client is sent with it.
    pub fn takes_token(&self) -> bool {
        !self.has_header(TOKEN_HEADER)
    }
}

impl Client {
    /// Sends a request as it is written. The answer may take as long as it does: the request may ask the server to wait.
    ///
    /// # Errors
    /// When the request cannot be written, or nobody answers.
    pub async fn exchange(&self, requested: RawRequest) -> Result<RawResponse, ApiError> {
        let written = |error: &dyn std::error::Error| ApiError::Encode(error.to_string());
        let url = self.url(&requested.target);
        let method = Method::from_bytes(requested.method.as_bytes()).map_err(|error| written(&error))?;
        let mut request = hyper::Request::builder().method(method.clone()).uri(&url);
        for (name, value) in self.said_of_itself().filter(|(name, _)| !requested.has_header(name)) {
            request = request.header(name, value);
        }
        if !requested.body.is_empty() && !requested.has_header(CONTENT_TYPE.as_str()) {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in &requested.headers {
            request = request.header(name, value);
        }
        let body = Full::new(requested.body).map_err(|never| match never {}).boxed();
        let request = request.body(body).map_err(|error| written(&error))?;
        let response = self.connections.request(request).await;
        let response = response
            .map_err(|error| ApiError::without_answer(&self.address, (&method, url.clone()), &error))?;
        let (head, body) = response.into_parts();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes())));
        Ok(RawResponse {
            status_line: format!("{:?} {}", head.version, head.status),
            status: head.status.as_u16(),
            headers: headers.collect(),
            body: ByteStream::new(body, url),
        })
    }
}
