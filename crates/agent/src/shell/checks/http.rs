//! HTTP checks: one request on a connection of its own; of the answer, only the beginning is read.

use std::pin::pin;

use berth_api::agent::{CheckState, HttpCheckSpec, StatusRange};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use super::tls::{Protocol, wrap};
use super::{CheckReply, CheckRun};
use crate::lifecycle::OUTPUT_BYTES_MAX;

/// The largest head of an answer that is read: bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// From this status on an answer is a bad one.
const BAD: u16 = 400;

/// Too many requests: the service lives, and would rather not be asked.
const BUSY: u16 = 429;

impl CheckRun {
    pub(super) async fn http(&self) -> Result<CheckReply, String> {
        let request = self.request()?;
        let host = (&*self.context.host_ip, Protocol::Http1);
        let stream = wrap(self.port().await?, self.spec.tls.as_ref(), host).await?;
        let mut connection = hyper::client::conn::http1::Builder::new();
        connection.max_buf_size(HEAD_BYTES_MAX);
        let (mut sender, connection) =
            connection.handshake(TokioIo::new(stream)).await.map_err(|error| describe(&error))?;
        let success = self.spec.http.as_ref().map_or(&[][..], |http| &http.success);
        let answer = async {
            let response = sender.send_request(request).await.map_err(|error| describe(&error))?;
            read_reply(response, success).await
        };
        let mut answer = pin!(answer);
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            // Whoever answers and hangs up has answered all the same.
            _ = connection => answer.await,
        }
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, String> {
        let HttpCheckSpec { path, method, headers, body, .. } = self.spec.http.clone().unwrap_or_default();
        let mut texts = vec![&*path, &*body];
        texts.extend(headers.iter().map(|header| &*header.value));
        let replaced = self.replace(&texts);
        let mut texts = replaced?.into_iter();
        let (path, body) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
        let mut request = Request::builder().method(&*method).uri(path);
        let names_host = headers.iter().any(|header| header.name.eq_ignore_ascii_case("host"));
        if !names_host {
            request = request.header("Host", &self.context.host_ip);
        }
        request = request.header("User-Agent", "berth-check").header("Connection", "close");
        for (header, value) in headers.iter().zip(texts) {
            request = request.header(&header.name, value);
        }
        request.body(Full::new(body.into())).map_err(|error| format!("make the request: {error}"))
    }
}

/// What a status says, where the check passes on these, or on all below 400 when there are none.
fn state_of(status: u16, success: &[StatusRange]) -> CheckState {
    let passes = match success {
        [] => status < BAD,
        ranges => ranges.iter().any(|range| (range.first..=range.last).contains(&status.into())),
    };
    match status {
        _ if passes => CheckState::Passing,
        BUSY => CheckState::Warning,
        _ => CheckState::Critical,
    }
}

async fn read_reply(response: Response<Incoming>, success: &[StatusRange]) -> Result<CheckReply, String> {
    let status = response.status();
    let state = state_of(status.as_u16(), success);
    let mut body = response.into_body();
    let mut read = Vec::new();
    while read.len() < OUTPUT_BYTES_MAX
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Ok(data) = frame.into_data() {
            read.extend_from_slice(&data[..data.len().min(OUTPUT_BYTES_MAX - read.len())]);
        }
    }
    let text = String::from_utf8_lossy(&read);
    Ok(CheckReply { state, code: status.as_u16().into(), output: format!("{status}: {}", text.trim()) })
}

/// An error of HTTP and what is behind it.
pub(super) fn describe(error: &hyper::Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_passes_on_the_statuses_that_it_names_alone() {
        use CheckState::{Critical, Passing, Warning};
        let range = |first, last| StatusRange { first, last };
        let named = [range(401, 401), range(500, 503)];
        for (status, by_itself, by_name) in [
            (200, Passing, Critical),
            (399, Passing, Critical),
            (401, Critical, Passing),
            (429, Warning, Warning),
            (503, Critical, Passing),
            (504, Critical, Critical),
        ] {
            assert_eq!(state_of(status, &[]), by_itself, "{status}");
            assert_eq!(state_of(status, &named), by_name, "{status}");
        }
        assert_eq!(state_of(429, &[range(429, 429)]), Passing);
    }
}
