//! HTTP to registries: TLS with the host's root certificates. A redirect to another host is sent no credentials, and none leads to
//! what listens on this host alone.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RANGE, USER_AGENT,
};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;
use tower::Service;

use super::error::PullError;

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Until it is known where a host is.
const RESOLVE_MAX: Duration = Duration::from_secs(5);
/// How long the head of an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Until the next piece of an answer.
pub(crate) const PIECE_MAX: Duration = Duration::from_secs(30);

const REDIRECTS_MAX: usize = 5;

const AGENT: &str = concat!("berth/", env!("CARGO_PKG_VERSION"));

/// A request to a registry or another server.
#[derive(Debug, Clone, Default)]
pub(crate) struct FetchRequest {
    pub(crate) accept: &'static str,
    /// Goes to the host that is asked first, and to no other.
    pub(crate) authorization: Option<HeaderValue>,
    /// Further lines of the head, which go where the authorization goes.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// The first byte that is requested.
    pub(crate) from: u64,
    /// A form that is posted.
    pub(crate) form: Option<String>,
}

/// The HTTP client for registries and for the sources of artifacts.
pub(crate) struct Transport {
    client: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    operators: NamedHosts,
}

/// The hosts, with their ports, that the operator has configured: those without TLS, and those that may be this very host.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamedHosts {
    plain: BTreeSet<String>,
    named: BTreeSet<String>,
    /// Any host may be asked without TLS: the job says what it expects of what comes.
    plain_anywhere: bool,
    /// The setting that names hosts.
    setting: &'static str,
}

impl NamedHosts {
    /// Registries without TLS, and mirrors.
    pub(crate) fn of_registries(plain: BTreeSet<String>, named: BTreeSet<String>) -> Self {
        Self { plain, named, plain_anywhere: false, setting: "--insecure-registries" }
    }

    /// Hosts that artifacts come from, although they are this node.
    pub(crate) fn of_artifacts(named: BTreeSet<String>) -> Self {
        Self { plain: BTreeSet::new(), named, plain_anywhere: true, setting: "--artifact-hosts" }
    }

    /// Whether the operator named this port of the host, or the host alone.
    fn names_port(&self, uri: &Uri, host: &str) -> bool {
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        self.named.contains(host) || self.named.contains(&format!("{host}:{port}"))
    }

    /// Whether the operator named this host, whatever its port.
    fn names(&self, host: &str) -> bool {
        let is_of =
            |known: &String| known == host || known.rsplit_once(':').is_some_and(|(name, _)| name == host);
        self.plain.iter().chain(&self.named).any(is_of)
    }
}

impl Transport {
    /// # Errors
    /// When the host has no root certificates.
    pub(crate) fn new(operators: NamedHosts) -> Result<Self, PullError> {
        let mut http = HttpConnector::new_with_resolver(Resolver {
            system: GaiResolver::new(),
            operators: operators.clone(),
        });
        http.set_connect_timeout(Some(CONNECT_MAX));
        http.set_nodelay(true);
        http.enforce_http(false);
        let tls = hyper_rustls::HttpsConnectorBuilder::new().with_native_roots().map_err(|error| {
            PullError::permanent(format!(
                "this host has no root certificates, by which servers prove who they are ({error}): install the \
                 package ca-certificates"
            ))
        })?;
        let connector = tls.https_or_http().enable_http1().wrap_connector(http);
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector), operators })
    }

    /// `https`, or `http` where the operator allows that.
    pub(crate) fn scheme(&self, host: &str) -> &'static str {
        if self.operators.plain.contains(host) { "http" } else { "https" }
    }

    /// The answer, whatever its status, after all redirects.
    pub(crate) async fn send(&self, uri: &Uri, send: &FetchRequest) -> Result<Response<Incoming>, PullError> {
        let (mut uri, mut send) = (uri.clone(), send.clone());
        for _ in 0..=REDIRECTS_MAX {
            let host = self.allowed(&uri)?;
            let request = request(&uri, &send);
            let response = match timeout(ANSWER_MAX, self.client.request(request)).await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => return Err(failed(&host, &error)),
                Err(_) => return Err(PullError::temporary(no_way(&host, "it does not answer"))),
            };
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let target = target.and_then(|target| join(&uri, target));
            let target =
                target.ok_or_else(|| PullError::permanent(format!("{host} redirects to nowhere")))?;
            if uri.scheme_str() == Some("https") && target.scheme_str() != Some("https") {
                let target = target.host().unwrap_or_default();
                return Err(PullError::permanent(format!("{host} redirects to {target} without TLS")));
            }
            if (target.scheme(), target.authority()) != (uri.scheme(), uri.authority()) {
                send.authorization = None;
                send.headers.clear();
            }
            send.form = None;
            uri = target;
        }
        Err(PullError::permanent(format!("it is redirected more than {REDIRECTS_MAX} times")))
    }

    /// The host of an address that may be asked.
    fn allowed(&self, uri: &Uri) -> Result<String, PullError> {
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.is_empty() || authority.contains('@') {
            return Err(PullError::permanent("it leads to an address without a host, or with a user"));
        }
        let is_plain = uri.scheme_str() != Some("https");
        let setting = self.operators.setting;
        if is_plain && !self.operators.plain_anywhere && !self.operators.plain.contains(authority) {
            return Err(PullError::permanent(format!(
                "{authority} would be asked without TLS, which this node does not do: if it is meant to be so, start \
                 the agent with {setting} {authority}"
            )));
        }
        let host = uri.host().unwrap_or_default();
        if self.operators.plain_anywhere
            && self.operators.names(host)
            && !self.operators.names_port(uri, host)
        {
            return Err(PullError::permanent(local(host, setting)));
        }
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        if literal.is_ok_and(is_local) && !self.operators.names(host) {
            return Err(PullError::permanent(local(host, setting)));
        }
        Ok(authority.to_owned())
    }
}

fn local(host: &str, setting: &str) -> String {
    format!(
        "{host} is an address of this very node: if that is meant, start the agent with {setting} {host}:PORT"
    )
}

fn no_way(host: &str, why: &str) -> String {
    format!("cannot reach {host}: {why}; is its name right, and has this node a way there?")
}

/// What is known at once is not asked for as long as what may be a hiccup.
fn failed(host: &str, error: &(dyn std::error::Error + 'static)) -> PullError {
    let reason = no_way(host, &innermost(error));
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    if causes.any(is_at_once) { PullError::unreachable(reason) } else { PullError::temporary(reason) }
}

/// Nobody listens there, there is no way, or nobody knows the name.
fn is_at_once(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    matches!(kind, Some(ConnectionRefused | HostUnreachable | NetworkUnreachable))
        || error.is::<ResolveError>()
}

/// Why a name has no address that may be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ResolveError(String);

fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

fn request(uri: &Uri, send: &FetchRequest) -> Request<Full<Bytes>> {
    let method = if send.form.is_some() { Method::POST } else { Method::GET };
    let mut request = Request::new(Full::from(send.form.clone().unwrap_or_default()));
    *request.method_mut() = method;
    *request.uri_mut() = uri.clone();
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    headers
        .insert(ACCEPT, HeaderValue::from_static(if send.accept.is_empty() { "*/*" } else { send.accept }));
    for (name, value) in &send.headers {
        headers.append(name, value.clone());
    }
    if let Some(authorization) = &send.authorization {
        headers.insert(AUTHORIZATION, authorization.clone());
    }
    if send.form.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    }
    if send.from > 0
        && let Ok(range) = HeaderValue::from_str(&format!("bytes={}-", send.from))
    {
        headers.insert(RANGE, range);
    }
    request
}

/// Absolute, or with the host of `from`; paths relative to another are not understood.
fn join(from: &Uri, target: &str) -> Option<Uri> {
    let target = target.split_once('#').map_or(target, |(before, _)| before);
    let scheme = from.scheme_str()?;
    let text = if target.starts_with("//") {
        format!("{scheme}:{target}")
    } else if target.starts_with('/') {
        format!("{scheme}://{}{target}", from.authority()?)
    } else {
        target.to_owned()
    };
    text.parse::<Uri>().ok().filter(|uri| uri.authority().is_some() && uri.scheme().is_some())
}

/// The body, which is at most `bytes_max` long.
pub(crate) async fn read(mut body: Incoming, bytes_max: u64) -> Result<Vec<u8>, PullError> {
    let mut bytes = Vec::new();
    while let Some(piece) = piece(&mut body).await? {
        if bytes.len() as u64 + piece.len() as u64 > bytes_max {
            return Err(PullError::permanent(format!(
                "the registry answers with more than {bytes_max} bytes"
            )));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// The next piece of a body; none at its end.
pub(crate) async fn piece(body: &mut Incoming) -> Result<Option<Bytes>, PullError> {
    loop {
        let frame = timeout(PIECE_MAX, body.frame()).await;
        match frame.map_err(|_| PullError::temporary("the server stopped sending"))? {
            None => return Ok(None),
            Some(Err(error)) => {
                return Err(PullError::temporary(format!("the server broke off: {}", innermost(&error))));
            }
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Where only this host listens, and where clouds keep their machines' secrets.
fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local() || v4.is_unspecified() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unspecified() || v6.is_unicast_link_local(),
    }
}

/// Resolves names, and leaves addresses of this host out.
#[derive(Clone)]
struct Resolver {
    system: GaiResolver,
    operators: NamedHosts,
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.system.poll_ready(context).map_err(|error| ResolveError(error.to_string()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let host = name.as_str().to_owned();
        let (allowed, setting) = (self.operators.names(&host), self.operators.setting);
        let found = self.system.call(name);
        Box::pin(async move {
            let found = timeout(RESOLVE_MAX, found).await.map_err(|_| {
                ResolveError(format!("no name server says where it is, after {} s", RESOLVE_MAX.as_secs()))
            })?;
            let found: Vec<SocketAddr> = found.map_err(|error| ResolveError(error.to_string()))?.collect();
            let addresses: Vec<SocketAddr> =
                found.iter().copied().filter(|found| allowed || !is_local(found.ip())).collect();
            if addresses.is_empty() && !found.is_empty() {
                return Err(ResolveError(local(&host, setting)));
            }
            Ok(addresses.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::RetryAfter;
    use super::*;

    #[test]
    fn redirects_are_joined() {
        let from: Uri = "https://a.b:5/v2/x?y=1".parse().expect("an address");
        let joined = |target: &str| join(&from, target).map(|uri| uri.to_string());
        assert_eq!(joined("https://c.d/e?f#g").as_deref(), Some("https://c.d/e?f"));
        assert_eq!(joined("//c.d/e").as_deref(), Some("https://c.d/e"));
        assert_eq!(joined("/e").as_deref(), Some("https://a.b:5/e"));
        assert_eq!((joined("e"), joined(""), joined("file:///etc/passwd")), (None, None, None));
    }

    #[test]
    fn errors_that_last_are_distinguished_from_those_that_may_pass() {
        use std::io::{Error, ErrorKind};
        let retry_after = |error: &(dyn std::error::Error + 'static)| failed("a.b", error).retry_after;
        let wrapped = |kind| Error::other(Error::from(kind));
        for kind in [ErrorKind::ConnectionRefused, ErrorKind::NetworkUnreachable, ErrorKind::HostUnreachable]
        {
            assert_eq!(retry_after(&Error::from(kind)), RetryAfter::Unreachable);
        }
        assert_eq!(retry_after(&ResolveError("no such name".into())), RetryAfter::Unreachable);
        for kind in [ErrorKind::TimedOut, ErrorKind::ConnectionReset] {
            assert_eq!(
                [retry_after(&Error::from(kind)), retry_after(&wrapped(kind))],
                [RetryAfter::Soon(None); 2]
            );
        }
    }

    #[test]
    fn this_host_is_asked_only_where_the_operator_named_it() {
        let named = NamedHosts::of_registries(["127.0.0.1:5000".to_owned()].into(), BTreeSet::new());
        let transport = |operators| Transport { client: client(), operators };
        let allowed =
            |transport: &Transport, uri: &str| transport.allowed(&uri.parse().expect("an address")).is_ok();
        let (open, closed) = (transport(named), transport(NamedHosts::default()));
        assert!(allowed(&open, "http://127.0.0.1:5000/v2/") && allowed(&closed, "https://a.b/v2/"));
        for refused in [
            "http://a.b/v2/",
            "http://127.0.0.1:5000/v2/",
            "https://127.0.0.1/v2/",
            "https://169.254.169.254/latest",
            "https://[::1]/v2/",
            "https://[::ffff:127.0.0.1]/v2/",
            "https://0.0.0.0/v2/",
            "https://user@a.b/v2/",
        ] {
            assert!(!allowed(&closed, refused), "{refused}");
        }
        let hosts = ["127.0.0.1:5000", "localhost:80"].map(str::to_owned).into();
        let artifacts = transport(NamedHosts::of_artifacts(hosts));
        for (uri, may) in [
            ("http://a.b/x", true),
            ("http://127.0.0.1:5000/x", true),
            ("http://127.0.0.1:5001/x", false),
            ("http://localhost/x", true),
            ("https://localhost/x", false),
            ("http://localhost:4646/x", false),
        ] {
            assert_eq!(allowed(&artifacts, uri), may, "{uri}");
        }
    }

    /// A client that is never used.
    fn client() -> Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>> {
        Transport::new(NamedHosts::default()).expect("root certificates").client
    }
}
