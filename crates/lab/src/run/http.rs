//! One connection of our own to an HTTP server: cheaper than a pool of connections, and their number is known.

use berth_tls::Stream;
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    client::conn::http1::{self, SendRequest},
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use super::{Target, error::RunError};

/// Items in a page of a list.
const PAGE: usize = 5_000;
/// Longest line of a stream.
const LINE_BYTES_MAX: usize = 64 << 20;
/// Longest part of a refusal that is shown.
const REFUSAL_CHARS_MAX: usize = 500;

/// One connection; one request at a time. Where the server has closed it between two, as servers do with what is idle, the next
/// request dials again.
pub(super) struct Connection {
    host: String,
    token: String,
    sender: SendRequest<Full<Bytes>>,
    /// Where to dial again; none over a stream that somebody else has opened.
    target: Option<Target>,
}

impl Connection {
    /// Opens a connection to the target.
    pub async fn open(target: &Target) -> Result<Self, RunError> {
        let host = target.address.host_and_port();
        let failed = |reason: String| RunError::Http { doing: format!("connect to {host}"), reason };
        let stream = TcpStream::connect(&host).await.map_err(|error| failed(error.to_string()))?;
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let stream = match &target.tls {
            Some(tls) => tls.connect(stream, &host).await.map_err(|error| failed(error.to_string()))?,
            None => Stream::Plain(stream),
        };
        let connection = Self::over(target, stream).await?;
        Ok(Self { target: Some(target.clone()), ..connection })
    }

    /// Over a stream that is there, of bytes as they are.
    pub async fn over(
        target: &Target,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Self, RunError> {
        let host = target.address.host_and_port();
        let failed = |error: hyper::Error| RunError::Http {
            doing: format!("connect to {host}"),
            reason: error.to_string(),
        };
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        tokio::spawn(connection);
        Ok(Self { host, token: target.token.clone(), sender, target: None })
    }

    /// Whether the server has hung up.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Reads a JSON value, and the headers that came with it.
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<(T, HeaderMap), RunError> {
        let (head, body) = self.send(Method::GET, path, Bytes::new()).await?.into_parts();
        let body = collect(path, body).await?;
        let value = serde_json::from_slice(&body).map_err(|error| failed(path, error))?;
        Ok((value, head.headers))
    }

    /// Reads all pages of a list. `path` ends where parameters may follow.
    pub async fn list<T: DeserializeOwned>(&mut self, path: &str) -> Result<Vec<T>, RunError> {
        let first = format!("{path}per_page={PAGE}");
        let (mut items, mut headers): (Vec<T>, _) = self.get(&first).await?;
        while let Some(token) = text(&headers, "x-nomad-nexttoken") {
            let (page, next): (Vec<T>, _) = self.get(&format!("{first}&next_token={token}")).await?;
            items.extend(page);
            headers = next;
        }
        Ok(items)
    }

    /// Reads a body as text.
    pub async fn text(&mut self, path: &str) -> Result<String, RunError> {
        let body = self.send(Method::GET, path, Bytes::new()).await?.into_body();
        Ok(String::from_utf8_lossy(&collect(path, body).await?).into_owned())
    }

    /// Asks, and reads whatever is answered, refusals included.
    pub async fn exchange(&mut self, method: Method, path: &str, body: Bytes) -> Result<HttpReply, RunError> {
        let (head, body) = self.send_any(method, path, body).await?.into_parts();
        Ok(HttpReply { status: head.status, headers: head.headers, body: collect(path, body).await? })
    }

    /// Asks, and reads what is answered; a refusal is an error.
    pub async fn request(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes, RunError> {
        let body = self.send(method, path, body).await?.into_body();
        collect(path, body).await
    }

    /// Writes, and reads an answer that is of no interest.
    pub async fn write(&mut self, method: Method, path: &str, body: Bytes) -> Result<(), RunError> {
        let mut answer = self.send(method, path, body).await?.into_body();
        while let Some(frame) = answer.frame().await {
            frame.map_err(|error| failed(path, error))?;
        }
        Ok(())
    }

    /// Asks, and hands on what is answered piece by piece, as it comes and unkept; a refusal is an error.
    pub async fn read(&mut self, path: &str, mut piece: impl FnMut(&[u8])) -> Result<(), RunError> {
        let mut body = self.send(Method::GET, path, Bytes::new()).await?.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| failed(path, error))?;
            frame.data_ref().into_iter().for_each(|data| piece(data));
        }
        Ok(())
    }

    /// Follows a stream of JSON objects, one a line, and gives the connection up for it.
    pub async fn lines(mut self, path: &str) -> Result<LineStream, RunError> {
        let body = self.send(Method::GET, path, Bytes::new()).await?.into_body();
        Ok(LineStream {
            path: path.to_owned(),
            body,
            buffer: BytesMut::new(),
            searched: 0,
            _connection: self,
        })
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, RunError> {
        let response = self.send_any(method, path, body).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        let body = collect(path, body).await?;
        let reply = HttpReply { status, headers: head.headers, body };
        Err(failed(path, format!("{status}: {}", reply.text())))
    }

    async fn send_any(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, RunError> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.host);
        if !self.token.is_empty() {
            request = request.header("X-Nomad-Token", &self.token);
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(body)).map_err(|error| failed(path, error))?;
        if let Err(closed) = self.sender.ready().await {
            // Nothing of the request has been sent.
            let target = self.target.clone().ok_or_else(|| failed(path, closed))?;
            *self = Self::open(&target).await?;
        }
        self.sender.send_request(request).await.map_err(|error| failed(path, error))
    }
}

/// An answer, whatever its status.
pub(super) struct HttpReply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl HttpReply {
    /// Its body as text for messages; cut where it gets long.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().chars().take(REFUSAL_CHARS_MAX).collect()
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().filter(|text| !text.is_empty())
}

async fn collect(path: &str, body: Incoming) -> Result<Bytes, RunError> {
    Ok(body.collect().await.map_err(|error| failed(path, error))?.to_bytes())
}

fn failed(path: &str, reason: impl std::fmt::Display) -> RunError {
    RunError::Http { doing: format!("ask for {path}"), reason: reason.to_string() }
}
pub(super) struct LineStream {
    path: String,
    body: Incoming,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no end of line.
    searched: usize,
    /// It lives as long as it is read from.
    _connection: Connection,
}

impl LineStream {
    /// The next line. It may be called off without a loss.
    pub async fn next(&mut self) -> Result<Bytes, RunError> {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + at).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                return Ok(line);
            }
            self.searched = self.buffer.len();
            if self.searched > LINE_BYTES_MAX {
                return Err(failed(&self.path, format!("a line has more than {LINE_BYTES_MAX} bytes")));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.buffer.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
                Some(Err(error)) => return Err(failed(&self.path, error)),
                None => return Err(failed(&self.path, "the stream ended")),
            }
        }
    }
}
