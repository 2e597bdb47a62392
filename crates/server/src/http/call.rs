//! One request, as handlers see it.

use std::sync::Mutex;

use axum::{body::Body, response::Response};
use hyper::HeaderMap;
use serde::de::DeserializeOwned;

use super::{api::Api, body, depth, failure::Failure, query::Query};

/// What a handler answers.
pub(super) type Reply = Result<Response, Failure>;

/// One request.
pub(super) struct Call {
    pub api: Api,
    pub query: Query,
    params: Vec<(String, String)>,
    headers: HeaderMap,
    /// Never locked: a body is not `Sync`, and what handlers hold while they wait must be.
    body: Mutex<Body>,
}

impl Call {
    pub fn new(
        api: Api,
        query: Query,
        params: Vec<(String, String)>,
        headers: HeaderMap,
        body: Body,
    ) -> Self {
        Self { api, query, params, headers, body: Mutex::new(body) }
    }

    /// A part of the path, decoded. Empty when the route's template does not name it.
    pub fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The namespace that the request is about, `*` for all.
    pub fn namespace(&self) -> &str {
        self.query.text("namespace").unwrap_or(super::namespaces::DEFAULT)
    }

    /// Reads the body as JSON text.
    pub async fn text(&mut self, bytes_max: usize) -> Result<Vec<u8>, Failure> {
        let body = self.body.get_mut().map(std::mem::take).unwrap_or_default();
        let bytes = body::read(&self.api, &self.headers, body, bytes_max).await?;
        let max = self.api.limits.json_depth_max;
        if depth::exceeds(&bytes, max) {
            return Err(Failure::bad_request(format!(
                "the request's body is nested more than {max} levels deep"
            )));
        }
        if depth::values(&bytes) > depth::VALUES_MAX {
            return Err(Failure::bad_request(format!(
                "the request's body has more than {} values: a job needs far fewer",
                depth::VALUES_MAX
            )));
        }
        Ok(bytes)
    }

    /// Reads the body.
    pub async fn json<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let max = self.api.limits.body_bytes_max;
        parse(&self.text(max).await?)
    }

    /// Reads the body, which may be empty.
    pub async fn json_or_default<T: DeserializeOwned + Default>(&mut self) -> Result<T, Failure> {
        let max = self.api.limits.body_bytes_max;
        let text = self.text(max).await?;
        if text.trim_ascii().is_empty() { Ok(T::default()) } else { parse(&text) }
    }
}

/// Reads JSON that came in a body.
pub(super) fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(text)
        .map_err(|error| Failure::bad_request(format!("decode the request's body: {error}")))
}
