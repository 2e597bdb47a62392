//! Streams: plain bytes, and JSON objects one a line.

use std::{marker::PhantomData, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::{Deserialize, de::DeserializeOwned};

use super::ApiError;

/// Servers send something at least every ten seconds; after this long a stream is given up.
const SILENCE_MAX_MS: u64 = 30_000;
/// Longest line.
const LINE_BYTES_MAX: usize = 64 << 20;
/// What servers send to say that they still live.
const HEARTBEAT: &[u8] = b"{}";
/// How the line begins that reports why nothing more follows.
const ERROR: &[u8] = b"{\"Error\":";

/// Why a server ends a stream that has no end.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct StreamEnd {
    error: String,
}

/// A stream of plain bytes.
#[derive(Debug)]
pub struct ByteStream {
    body: Incoming,
    url: String,
}

impl ByteStream {
    pub(super) fn new(body: Incoming, url: String) -> Self {
        Self { body, url }
    }

    /// The next piece; none at the end. May wait forever: plain bytes have no heartbeat.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| self.broken(error.to_string()))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    fn broken(&self, reason: String) -> ApiError {
        ApiError::Broken { url: self.url.clone(), reason }
    }
}

/// A stream of JSON objects, one a line.
#[derive(Debug)]
pub struct JsonLines<T> {
    bytes: ByteStream,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no end of line.
    searched: usize,
    objects: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> JsonLines<T> {
    pub(super) fn new(bytes: ByteStream) -> Self {
        Self { bytes, buffer: BytesMut::new(), searched: 0, objects: PhantomData }
    }

    /// The next object; none at the end. Heartbeats are left out.
    ///
    /// # Errors
    /// When the connection breaks, the server falls silent or says why it ends the stream, or a line is not a `T`.
    pub async fn next(&mut self) -> Result<Option<T>, ApiError> {
        while let Some(line) = self.next_line().await? {
            let line = line.trim_ascii();
            if line.starts_with(ERROR)
                && let Ok(StreamEnd { error }) = serde_json::from_slice(line)
            {
                return Err(self.bytes.broken(error));
            }
            if !line.is_empty() && line != HEARTBEAT {
                let decode = |reason| ApiError::Decode { url: self.bytes.url.clone(), reason };
                return serde_json::from_slice(line).map(Some).map_err(|error| decode(error.to_string()));
            }
        }
        Ok(None)
    }

    async fn next_line(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + at).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.searched > LINE_BYTES_MAX {
                return Err(self.bytes.broken(format!("a line has more than {LINE_BYTES_MAX} bytes")));
            }
            match self.next_piece().await? {
                Some(piece) => self.buffer.extend_from_slice(&piece),
                None => return Ok(None),
            }
        }
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, ApiError> {
        let patience = Duration::from_millis(SILENCE_MAX_MS);
        match tokio::time::timeout(patience, self.bytes.next()).await {
            Ok(piece) => piece,
            Err(_) => Err(ApiError::TimedOut { url: self.bytes.url.clone(), after: patience }),
        }
    }
}
