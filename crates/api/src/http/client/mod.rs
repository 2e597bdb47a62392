//! The client: typed requests to one server, with connections kept between them.

mod address;
mod error;
mod lines;
mod liveness;
mod raw;
mod response;
mod socket;
mod target;
mod upload;

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use berth_tls::ClientTls;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited, combinators::BoxBody};
use hyper::{Method, Request, Response, body::Incoming, header::CONTENT_TYPE, http::request::Builder};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as Connections, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use serde::{Serialize, de::DeserializeOwned};

pub use address::{Address, AddressError};
pub use error::{ApiError, ErrorResponse};
pub use lines::{ByteStream, JsonLines};
pub use raw::{RawRequest, RawResponse};
pub use response::ApiResponse;
pub use socket::{SocketReceiver, SocketSender};
pub use target::{BLOCKING_MAX, Target};
use tokio::sync::mpsc;
use upload::Upload;

/// Until a connection must stand.
const CONNECT_TIMEOUT_MS: u64 = 5_000;
/// Until a server must begin to answer, in addition to the time that a request asks it to wait.
pub const REQUEST_TIMEOUT_MS: u64 = 30_000;
/// How long a connection without a request is used again: less than the 10 s after which a server closes it, or a request
/// might be sent just then and be lost.
const IDLE_TIMEOUT_MS: u64 = 5_000;
/// Where a token stands.
const TOKEN_HEADER: &str = "X-Nomad-Token";
/// Where an answer says of which cluster it is, and a request for which it is meant.
const CLUSTER_HEADER: &str = "X-Berth-Cluster";
/// Largest answer read into memory.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// What a request carries.
type RequestBody = BoxBody<Bytes, io::Error>;

/// Talks to one server. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    address: Address,
    /// Sent with each request; none where nobody asks who we are.
    token: Option<String>,
    /// The cluster of the first answer; none where any will do.
    cluster: Option<Arc<OnceLock<String>>>,
    connections: Connections<HttpsConnector<HttpConnector>, RequestBody>,
    /// What it believes and shows; nothing is made of it where the address is not encrypted.
    tls: ClientTls,
}

impl Client {
    /// A client of the server at `address`, which believes nobody if that is encrypted. Nothing is sent yet.
    ///
    /// # Panics
    /// When TLS 1.3 is not compiled in.
    pub fn new(address: Address) -> Self {
        let tls = ClientTls::none().expect("TLS 1.3 is compiled in");
        Self::with_tls(address, tls)
    }

    /// The same for a server that may speak TLS: with the authorities and the certificate of `tls`.
    pub fn with_tls(address: Address, tls: ClientTls) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(Duration::from_millis(CONNECT_TIMEOUT_MS)));
        connector.set_nodelay(true);
        liveness::probe_requests(&mut connector);
        connector.enforce_http(false);
        let encrypting = HttpsConnectorBuilder::new().with_tls_config(tls.config().clone()).https_or_http();
        let encrypting = match tls.server_name() {
            Some(name) => encrypting.with_server_name_resolver(FixedServerNameResolver::new(name.clone())),
            None => encrypting,
        };
        let connector = encrypting.enable_http1().wrap_connector(connector);
        Self {
            address,
            token: None,
            cluster: None,
            connections: Connections::builder(TokioExecutor::new())
                .pool_idle_timeout(Duration::from_millis(IDLE_TIMEOUT_MS))
                .pool_timer(TokioTimer::new())
                .build(connector),
            tls,
        }
    }

    /// The same, with a token in each request.
    #[must_use]
    pub fn with_token(self, token: impl Into<String>) -> Self {
        Self { token: Some(token.into()), ..self }
    }

    /// The same, which keeps to the cluster that answers first: a server of another one, which has the address later, refuses
    /// its requests.
    #[must_use]
    pub fn keeping_to_one_cluster(self) -> Self {
        Self { cluster: Some(Arc::default()), ..self }
    }

    /// The server's address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Reads.
    ///
    /// # Errors
    /// As for each request: when the server cannot be reached, refuses, or answers something else than `T`.
    pub async fn get<T: DeserializeOwned>(&self, target: &Target) -> Result<ApiResponse<T>, ApiError> {
        self.typed(Method::GET, target, Bytes::new()).await
    }

    /// Writes.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn put<T: DeserializeOwned>(
        &self,
        target: &Target,
        body: &impl Serialize,
    ) -> Result<ApiResponse<T>, ApiError> {
        let body = serde_json::to_vec(body).map_err(|error| ApiError::Encode(error.to_string()))?;
        self.typed(Method::PUT, target, body.into()).await
    }

    /// Takes away.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn delete<T: DeserializeOwned>(&self, target: &Target) -> Result<ApiResponse<T>, ApiError> {
        self.typed(Method::DELETE, target, Bytes::new()).await
    }

    /// Follows a stream of JSON objects, one a line.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn lines<T: DeserializeOwned>(&self, target: &Target) -> Result<JsonLines<T>, ApiError> {
        Ok(JsonLines::new(self.bytes(target).await?))
    }

    /// Follows a stream of plain bytes.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn bytes(&self, target: &Target) -> Result<ByteStream, ApiError> {
        let url = self.url(target);
        let response = self.send(Method::GET, target, Bytes::new()).await?;
        Ok(ByteStream::new(response.into_body(), url))
    }

    /// Writes bytes as they come. The server gives up whoever sends nothing for long; its answer may take as long as it does.
    ///
    /// # Errors
    /// As [`Self::get`]; and when the bytes break off.
    pub async fn upload<T: DeserializeOwned>(
        &self,
        target: &Target,
        pieces: mpsc::Receiver<io::Result<Bytes>>,
    ) -> Result<ApiResponse<T>, ApiError> {
        let request = self.request(Method::PUT, target).header(CONTENT_TYPE, "application/octet-stream");
        let request = request.body(Upload(pieces).boxed());
        let request = request.map_err(|error| ApiError::Encode(error.to_string()))?;
        let response = self.connections.request(request).await;
        let response = response.map_err(|error| {
            let requested = (&Method::PUT, self.url(target));
            ApiError::without_answer(&self.address, requested, &error)
        })?;
        let response = self.success(target, response).await?;
        self.read(target, response).await
    }

    async fn typed<T: DeserializeOwned>(
        &self,
        method: Method,
        target: &Target,
        body: Bytes,
    ) -> Result<ApiResponse<T>, ApiError> {
        let response = self.send(method, target, body).await?;
        self.read(target, response).await
    }

    async fn read<T: DeserializeOwned>(
        &self,
        target: &Target,
        response: Response<Incoming>,
    ) -> Result<ApiResponse<T>, ApiError> {
        let (head, body) = response.into_parts();
        let body = self.collect(target, body).await?;
        // Some answers say all by their status, and have no body.
        let body = if body.is_empty() { Bytes::from_static(b"null") } else { body };
        let value = serde_json::from_slice(&body)
            .map_err(|error| ApiError::Decode { url: self.url(target), reason: error.to_string() })?;
        Ok(ApiResponse::new(value, &head.headers))
    }

    /// Sends a request and returns its answer if it is one of success.
    async fn send(
        &self,
        method: Method,
        target: &Target,
        body: Bytes,
    ) -> Result<Response<Incoming>, ApiError> {
        let url = self.url(target);
        let request = self.request(method.clone(), target);
        let request =
            if body.is_empty() { request } else { request.header(CONTENT_TYPE, "application/json") };
        let body = Full::new(body).map_err(|never| match never {}).boxed();
        let request = request.body(body).map_err(|error| ApiError::Encode(error.to_string()))?;
        let patience = target.wait() + Duration::from_millis(REQUEST_TIMEOUT_MS);
        let response = tokio::time::timeout(patience, self.connections.request(request))
            .await
            .map_err(|_| ApiError::TimedOut { url: url.clone(), after: patience })?
            .map_err(|error| ApiError::without_answer(&self.address, (&method, url), &error))?;
        self.success(target, response).await
    }

    fn request(&self, method: Method, target: &Target) -> Builder {
        let request = Request::builder().method(method).uri(self.url(target));
        // Without `Accept`: refusals are text then, which is shown as it is.
        self.said_of_itself().fold(request, |request, (name, value)| request.header(name, value))
    }

    /// Headers of each request.
    fn said_of_itself(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let token = self.token.iter().map(|token| (TOKEN_HEADER, token.as_str()));
        let cluster = self.cluster.iter().filter_map(|cluster| cluster.get());
        token.chain(cluster.map(|cluster| (CLUSTER_HEADER, cluster.as_str())))
    }

    /// The answer, if it is one of success.
    async fn success(
        &self,
        target: &Target,
        response: Response<Incoming>,
    ) -> Result<Response<Incoming>, ApiError> {
        if response.status().is_success() {
            let cluster = response.headers().get(CLUSTER_HEADER).and_then(|id| id.to_str().ok());
            if let (Some(known), Some(cluster)) = (&self.cluster, cluster) {
                known.get_or_init(|| cluster.to_owned());
            }
            return Ok(response);
        }
        let status = response.status().as_u16();
        let text = self.collect(target, response.into_body()).await?;
        let text = String::from_utf8_lossy(&text).trim_end().to_owned();
        Err(ApiError::Refused(ErrorResponse { status, text, url: self.url(target) }))
    }

    async fn collect(&self, target: &Target, body: Incoming) -> Result<Bytes, ApiError> {
        let broken = |reason: String| ApiError::Broken { url: self.url(target), reason };
        let patience = Duration::from_millis(REQUEST_TIMEOUT_MS);
        let mut body = Limited::new(body, ANSWER_BYTES_MAX);
        let mut bytes = Vec::new();
        // Each piece has its own time-out: a large answer may take long, a silent server may not.
        while let Some(frame) = tokio::time::timeout(patience, body.frame())
            .await
            .map_err(|_| ApiError::TimedOut { url: self.url(target), after: patience })?
        {
            if let Ok(data) = frame.map_err(|error| broken(error.to_string()))?.into_data() {
                bytes.extend_from_slice(&data);
            }
        }
        Ok(bytes.into())
    }

    fn url(&self, target: &Target) -> String {
        format!("{}{}", self.address, target.path_and_query())
    }
}
