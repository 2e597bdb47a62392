//! Compressed responses, for clients that accept them. Streams are not compressed: their lines must not be buffered.

use std::{
    io::Write,
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use hyper::{
    HeaderMap,
    body::Frame,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue, VARY},
};

/// Shorter responses are not compressed.
const BODY_BYTES_MIN: u64 = 1 << 10;

/// Marks the answer of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streaming;

/// Whether a client takes compressed answers.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let encodings = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    encodings.flat_map(|value| value.split(',')).any(|encoding| {
        let (name, weight) = encoding.split_once(';').unwrap_or((encoding, ""));
        let is_refused = weight.trim().strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
        matches!(name.trim(), "gzip" | "*") && !is_refused
    })
}

/// Compresses an answer if that is worth it.
pub(crate) fn compress(response: Response) -> Response {
    let is_stream = response.extensions().get::<Streaming>().is_some();
    if is_stream || response.body().size_hint().exact().is_some_and(|bytes| bytes < BODY_BYTES_MIN) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    // Higher levels save too little for the time that they take.
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    Response::from_parts(head, Body::new(Gzipped { body, encoder: Some(encoder) }))
}

struct Gzipped {
    body: Body,
    /// None once its end has been sent.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl HttpBody for Gzipped {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        loop {
            if self.encoder.is_none() {
                return Poll::Ready(None);
            }
            let compressed = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => frame.into_data().map_or_else(|_| Vec::new(), |data| self.write(&data)),
                None => self.finish(),
            };
            if !compressed.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(compressed.into()))));
            }
        }
    }
}

impl Gzipped {
    /// What compressing some more bytes gives; the encoder may keep it back until there is more.
    fn write(&mut self, data: &[u8]) -> Vec<u8> {
        let Some(encoder) = &mut self.encoder else { return Vec::new() };
        // Writing to memory does not fail.
        let _ = encoder.write_all(data);
        std::mem::take(encoder.get_mut())
    }

    fn finish(&mut self) -> Vec<u8> {
        self.encoder.take().and_then(|encoder| encoder.finish().ok()).unwrap_or_default()
    }
}
