//! gRPC checks: one call of the health protocol (grpc.health.v1) on a connection of its own.

use berth_api::agent::CheckState;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::header::{HeaderMap, HeaderValue};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;

use super::http::describe;
use super::tls::{Protocol, wrap};
use super::{CheckReply, CheckRun};

/// What is asked for, with the service's name in the body.
const PATH: &str = "/grpc.health.v1.Health/Check";
/// Before each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// The largest answer that is read: bytes. One that is well takes seven.
const ANSWER_BYTES_MAX: usize = 4 << 10;
/// The largest head, and window of what may come unasked: bytes.
const WINDOW_BYTES: u32 = 64 << 10;

/// `grpc.health.v1.HealthCheckRequest`
#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

/// `grpc.health.v1.HealthCheckResponse`
#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(enumeration = "ServingStatus", tag = "1")]
    status: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
enum ServingStatus {
    Unknown = 0,
    Serving = 1,
    NotServing = 2,
    ServiceUnknown = 3,
}

impl CheckRun {
    pub(super) async fn grpc(&self) -> Result<CheckReply, String> {
        let host = &self.context.host_ip;
        let scheme = if self.spec.tls.is_some() { "https" } else { "http" };
        let stream = wrap(self.port().await?, self.spec.tls.as_ref(), (host, Protocol::Http2)).await?;
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .initial_connection_window_size(WINDOW_BYTES)
            .initial_stream_window_size(WINDOW_BYTES)
            .max_header_list_size(WINDOW_BYTES);
        let (mut sender, connection) =
            builder.handshake(TokioIo::new(stream)).await.map_err(|error| describe(&error))?;
        let request = request(&format!("{scheme}://{}{PATH}", authority(host)), &self.spec.grpc_service)?;
        let call = async {
            let response = sender.send_request(request).await.map_err(|error| describe(&error))?;
            let (head, body) = response.into_parts();
            if !head.status.is_success() {
                return Err(format!("{}: no gRPC is spoken there", head.status));
            }
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| format!("read the answer: {error}"))?;
            let trailers = body.trailers().cloned().unwrap_or_default();
            parse_reply(&head.headers, &trailers, &body.to_bytes())
        };
        let mut call = std::pin::pin!(call);
        tokio::select! {
            biased;
            reply = &mut call => reply,
            // Whoever answers and hangs up has answered all the same.
            _ = connection => call.await,
        }
    }
}

/// An address as it stands in a URI.
fn authority(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn request(uri: &str, service: &str) -> Result<Request<Full<Bytes>>, String> {
    let execute = HealthCheckRequest { service: service.to_owned() };
    let mut body = vec![0];
    body.extend(u32::try_from(execute.encoded_len()).unwrap_or(u32::MAX).to_be_bytes());
    body.extend(execute.encode_to_vec());
    Request::post(uri)
        .header("Content-Type", "application/grpc")
        .header("TE", "trailers")
        .header("User-Agent", "berth-check")
        .body(Full::new(body.into()))
        .map_err(|error| format!("make the request: {error}"))
}

/// A call that fails says so in what follows its answer, or in its head when there is no answer.
fn parse_reply(
    head: &HeaderMap<HeaderValue>,
    trailers: &HeaderMap<HeaderValue>,
    body: &[u8],
) -> Result<CheckReply, String> {
    let text = |name: &str| trailers.get(name).or(head.get(name)).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        Some("0") => {}
        Some(status) => {
            let message = text("grpc-message").unwrap_or_default();
            return Ok(CheckReply {
                state: CheckState::Critical,
                code: status.parse().unwrap_or(0),
                output: format!("gRPC status {status}: {message}"),
            });
        }
        None => return Err("the answer has no gRPC status".to_owned()),
    }
    let message = body.get(PREFIX_BYTES..).filter(|_| body[0] == 0);
    let answer = message.and_then(|bytes| HealthCheckResponse::decode(bytes).ok());
    let answer = answer.ok_or("the answer is none of the health protocol")?;
    let (state, output) = match answer.status() {
        ServingStatus::Serving => (CheckState::Passing, "SERVING"),
        ServingStatus::NotServing => (CheckState::Critical, "NOT_SERVING"),
        ServingStatus::ServiceUnknown => (CheckState::Critical, "SERVICE_UNKNOWN"),
        ServingStatus::Unknown => (CheckState::Critical, "UNKNOWN"),
    };
    Ok(CheckReply { state, code: 0, output: output.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap<HeaderValue> {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    fn state(status: &'static str, body: &[u8]) -> Result<CheckState, String> {
        parse_reply(&HeaderMap::new(), &headers(&[("grpc-status", status)]), body).map(|reply| reply.state)
    }

    #[test]
    fn only_one_answer_is_a_good_one() {
        assert_eq!(state("0", &[0, 0, 0, 0, 2, 8, 1]), Ok(CheckState::Passing));
        assert_eq!(state("0", &[0, 0, 0, 0, 2, 8, 2]), Ok(CheckState::Critical));
        assert_eq!(state("0", &[0, 0, 0, 0, 2, 8, 99]), Ok(CheckState::Critical));
        assert_eq!(state("0", &[0, 0, 0, 0, 0]), Ok(CheckState::Critical), "nothing is said of it");
        assert_eq!(state("5", &[]), Ok(CheckState::Critical));
    }

    #[test]
    fn an_answer_outside_the_protocol_is_reported() {
        assert!(state("0", &[]).is_err());
        assert!(state("0", &[1, 0, 0, 0, 2, 8, 1]).is_err(), "it is compressed, which was not asked for");
        assert!(state("0", &[0, 0, 0, 0, 2, 0xff, 0xff]).is_err());
        assert!(parse_reply(&HeaderMap::new(), &HeaderMap::new(), &[0, 0, 0, 0, 2, 8, 1]).is_err());
        let refused =
            parse_reply(&headers(&[("grpc-status", "12")]), &HeaderMap::new(), &[]).expect("a status");
        assert_eq!((refused.state, refused.code), (CheckState::Critical, 12), "an answer of a head alone");
    }

    #[test]
    fn an_address_of_version_six_stands_in_brackets() {
        assert_eq!((&*authority("::1"), &*authority("10.0.0.1")), ("[::1]", "10.0.0.1"));
        assert!(request("http://[::1]/x", "shop").is_ok());
    }
}
