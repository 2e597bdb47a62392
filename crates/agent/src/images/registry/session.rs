//! Requests to one registry for one repository, with the credentials of one caller.

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::challenge::{self, Challenge};
use super::credentials::{RegistryAuth, RegistryCredentials};
use super::error::{PullError, RetryAfter, plain};
use super::retry::{Retries, RetryPolicy, WaitReason, retried};
use super::transport::{FetchRequest, Transport, read};
use crate::images::digest::Digest;
use crate::images::manifest::{ACCEPTED, Descriptor, MANIFEST_BYTES_MAX};

/// The largest answer of a token service that is read.
const TOKEN_BYTES_MAX: u64 = 64 << 10;
/// How much of a registry's refusal is read.
const COMPLAINT_BYTES_MAX: u64 = 4 << 10;

/// The longest that a registry's `Retry-After` is kept to, in seconds.
const RETRY_AFTER_S_MAX: u64 = 60;

/// One registry, or a mirror of it.
pub(crate) struct Session<'a> {
    transport: &'a Transport,
    /// Who is asked, as HOST or HOST:PORT.
    host: String,
    repository: String,
    credentials: RegistryAuth,
    retry_policy: RetryPolicy,
    /// Where the reason for a pause is published, for those that wait for the image.
    wait_reason: Arc<WaitReason>,
    /// What the registry knows us by, once it has asked who we are.
    authorization: Mutex<Option<HeaderValue>>,
}

#[derive(Deserialize)]
struct WireToken {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
}

#[derive(Deserialize)]
struct WireErrors {
    #[serde(default)]
    errors: Vec<WireError>,
}

#[derive(Deserialize)]
struct WireError {
    #[serde(default)]
    message: String,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        transport: &'a Transport,
        host: &str,
        repository: &str,
        credentials: RegistryAuth,
        retry_policy: RetryPolicy,
        wait_reason: Arc<WaitReason>,
    ) -> Self {
        let (host, repository) = (host.to_owned(), repository.to_owned());
        Self {
            transport,
            host,
            repository,
            credentials,
            retry_policy,
            wait_reason,
            authorization: Mutex::default(),
        }
    }

    /// The host that requests go to.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Counts tries of a part of the image.
    pub(crate) fn tries(&self) -> Retries<'_> {
        Retries::of(RetryPolicy::Last, &self.wait_reason)
    }

    /// The manifest, or list of them, that a tag or digest names, and its own digest.
    pub(crate) async fn manifest(&self, pointer: &str) -> Result<(Digest, Vec<u8>), PullError> {
        let bytes = retried(self.retry_policy, &self.wait_reason, || async {
            let answer = self.get(&format!("manifests/{pointer}"), ACCEPTED, 0).await?;
            read(answer.into_body(), MANIFEST_BYTES_MAX).await
        });
        let bytes = bytes.await?;
        let found = Digest::of(&bytes);
        match pointer.parse::<Digest>() {
            Ok(expected) if expected != found => Err(self.wrong("a manifest", expected, found)),
            _ => Ok((found, bytes)),
        }
    }

    /// A blob that is small enough for memory.
    pub(crate) async fn blob(&self, descriptor: &Descriptor) -> Result<Vec<u8>, PullError> {
        let bytes = retried(self.retry_policy, &self.wait_reason, || async {
            let answer = self.get(&format!("blobs/{}", descriptor.digest), "", 0).await?;
            read(answer.into_body(), descriptor.size).await
        });
        let bytes = bytes.await?;
        let found = Digest::of(&bytes);
        if found == descriptor.digest {
            Ok(bytes)
        } else {
            Err(self.wrong("a config", descriptor.digest, found))
        }
    }

    /// A blob from a byte on; whether the answer begins there, and not at its beginning.
    pub(crate) async fn blob_from(&self, digest: Digest, from: u64) -> Result<(Incoming, bool), PullError> {
        let answer = self.get(&format!("blobs/{digest}"), "", from).await?;
        let begins_there = answer.status() == StatusCode::PARTIAL_CONTENT;
        Ok((answer.into_body(), begins_there))
    }

    pub(crate) fn wrong(&self, what: &str, expected: Digest, found: Digest) -> PullError {
        PullError::permanent(format!(
            "{} sent {what} that is not what it should be: its digest is {found}, and {expected} was asked for",
            self.host
        ))
    }

    async fn get(
        &self,
        path: &str,
        accept: &'static str,
        from: u64,
    ) -> Result<Response<Incoming>, PullError> {
        let scheme = self.transport.scheme(&self.host);
        let uri = format!("{scheme}://{}/v2/{}/{path}", self.host, self.repository);
        let uri: Uri = uri.parse().map_err(|_| PullError::permanent(format!("{uri} is not an address")))?;
        let mut has_authorized = false;
        loop {
            let authorization = self.authorization.lock().await.clone();
            let request = FetchRequest {
                accept,
                authorization: authorization.clone(),
                from,
                ..FetchRequest::default()
            };
            let answer = self.transport.send(&uri, &request).await?;
            match answer.status() {
                status if status.is_success() => return Ok(answer),
                StatusCode::UNAUTHORIZED if !has_authorized => {
                    has_authorized = true;
                    self.authorize(&answer, authorization).await?;
                }
                _ => return Err(self.refusal(answer).await),
            }
        }
    }

    /// Gets what the registry asks for; nothing is to be done if that has happened since `before`.
    async fn authorize(
        &self,
        answer: &Response<Incoming>,
        before: Option<HeaderValue>,
    ) -> Result<(), PullError> {
        let mut authorization = self.authorization.lock().await;
        if *authorization != before {
            return Ok(());
        }
        let headers = answer.headers().get_all(WWW_AUTHENTICATE).into_iter();
        let value = match challenge::parse(headers.filter_map(|header| header.to_str().ok())) {
            Some(Challenge::Bearer { realm, service, scope }) => {
                let scope =
                    if scope.is_empty() { format!("repository:{}:pull", self.repository) } else { scope };
                format!("Bearer {}", self.token(&realm, &service, &scope).await?)
            }
            Some(Challenge::Basic) => {
                match self.credentials.own.as_ref().and_then(RegistryCredentials::basic) {
                    Some(basic) => basic,
                    None => return Err(self.unauthorized("")),
                }
            }
            None => return Err(self.unauthorized("it asks for a kind of login that is not known here")),
        };
        let value = HeaderValue::from_str(&value);
        let mut value = value.map_err(|_| self.unauthorized("its token is not one"))?;
        value.set_sensitive(true);
        *authorization = Some(value);
        Ok(())
    }

    async fn token(&self, realm: &str, service: &str, scope: &str) -> Result<String, PullError> {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let query = format!("service={}&scope={}", encode(service), encode(scope));
        let (uri, mut request) = match &self.credentials.own {
            Some(RegistryCredentials::IdentityToken(token)) => {
                let form = format!(
                    "grant_type=refresh_token&client_id=berth&{query}&refresh_token={}",
                    encode(token)
                );
                (realm.to_owned(), FetchRequest { form: Some(form), ..FetchRequest::default() })
            }
            _ => {
                let mark = if realm.contains('?') { '&' } else { '?' };
                (format!("{realm}{mark}{query}"), FetchRequest::default())
            }
        };
        let basic = self.credentials.own.as_ref().and_then(RegistryCredentials::basic);
        request.authorization = basic.and_then(|basic| HeaderValue::from_str(&basic).ok());
        let uri: Uri = uri.parse().map_err(|_| self.unauthorized("it names no address to log in at"))?;
        let bytes = retried(self.retry_policy, &self.wait_reason, || async {
            let answer = self.transport.send(&uri, &request).await?;
            if !answer.status().is_success() {
                return Err(self.refusal(answer).await);
            }
            read(answer.into_body(), TOKEN_BYTES_MAX).await
        });
        // What it answers is a secret: none of it is repeated.
        let token: WireToken = serde_json::from_slice(&bytes.await?)
            .map_err(|_| self.unauthorized("where to log in answers with no token"))?;
        let token = if token.token.is_empty() { token.access_token } else { token.token };
        if token.is_empty() {
            Err(self.unauthorized("where to log in answers with no token"))
        } else {
            Ok(token)
        }
    }

    async fn refusal(&self, answer: Response<Incoming>) -> PullError {
        let (status, host) = (answer.status(), &self.host);
        let after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let message = read(answer.into_body(), COMPLAINT_BYTES_MAX).await.unwrap_or_default();
        let message = complaint(&message);
        let detail = if message.is_empty() { String::new() } else { format!(" ({message})") };
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => self.unauthorized(&message),
            StatusCode::NOT_FOUND => PullError::permanent(format!(
                "{host} has no such image{detail}: is its name right, and its tag?"
            )),
            StatusCode::TOO_MANY_REQUESTS => PullError {
                retry_after: RetryAfter::Soon(after.map(|seconds: u64| seconds.min(RETRY_AFTER_S_MAX))),
                reason: format!(
                    "{host} has had too many requests{detail}: log in there (--registry-auth-file), or have the agent ask a \
                     mirror (--registry-mirrors)"
                ),
            },
            status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => PullError {
                retry_after: RetryAfter::Soon(after.map(|seconds: u64| seconds.min(RETRY_AFTER_S_MAX))),
                reason: format!("{host} answers {status}{detail}"),
            },
            status => PullError::permanent(format!("{host} answers {status}{detail}")),
        }
    }

    fn unauthorized(&self, message: &str) -> PullError {
        let (host, detail) =
            (&self.host, if message.is_empty() { String::new() } else { format!(" ({message})") });
        PullError::permanent(match (&self.credentials.own, &self.credentials.helper) {
            (None, Some(helper)) => format!(
                "unauthorized: {host} has no such image, or shows it only to those who log in{detail}; the file of \
                 --registry-auth-file leaves it to the credential helper {helper:?}, which agents do not run: put the \
                 credentials into the file itself"
            ),
            (Some(_), _) => format!(
                "{host} refuses the credentials that it was given, or has no such image for them{detail}: are the name \
                 and the password right?"
            ),
            (None, None) => format!(
                "unauthorized: {host} has no such image, or shows it only to those who log in{detail}: is its name \
                 right? If so, give the task an `auth` block, or the agent --registry-auth-file"
            ),
        })
    }
}

/// The message of a registry's own form of errors, else nothing.
fn complaint(bytes: &[u8]) -> String {
    let bytes = Bytes::copy_from_slice(bytes);
    let known = serde_json::from_slice::<WireErrors>(&bytes).ok();
    known
        .and_then(|known| known.errors.into_iter().next())
        .map(|first| plain(&first.message))
        .unwrap_or_default()
}
