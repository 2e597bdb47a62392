//! JSON arrays that are written while they are sent: a list of a million allocations takes no more memory than a piece.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use hyper::body::Frame;
use serde::Serialize;

use super::{
    failure::Failure,
    query::Query,
    reply::{JSON, with_type},
};
use crate::state::View;

/// Items written at once.
pub(super) const PIECE_ITEMS: usize = 256;

/// An array of the items that `next` gives, piece by piece, until it gives none.
pub(super) fn array<T: Serialize + 'static>(
    query: &Query,
    view: &Arc<View>,
    next: impl FnMut(&View) -> Vec<T> + Send + Unpin + 'static,
) -> Result<Response, Failure> {
    let writer =
        Writer { view: view.clone(), next, pretty: query.flag("pretty", false)?, state: Position::Start };
    Ok(with_type(writer.into_body(), JSON))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Start,
    Within,
    End,
}

struct Writer<F> {
    view: Arc<View>,
    next: F,
    pretty: bool,
    state: Position,
}

impl<T: Serialize + 'static, F: FnMut(&View) -> Vec<T> + Send + Unpin + 'static> Writer<F> {
    /// A short array is sent whole, with its length.
    fn into_body(mut self) -> Body {
        let mut first = Vec::new();
        self.write_piece(&mut first);
        if self.state == Position::Within {
            return Body::new(Pieces { first: Some(first.into()), writer: self });
        }
        Body::from(first)
    }

    fn write_piece(&mut self, out: &mut Vec<u8>) {
        let items = (self.next)(&self.view);
        if self.state == Position::Start {
            out.push(b'[');
        }
        for item in &items {
            if self.state == Position::Within {
                out.push(b',');
            }
            self.write_item(out, item);
            self.state = Position::Within;
        }
        if items.len() < PIECE_ITEMS {
            out.push(b']');
            self.state = Position::End;
        }
    }

    fn write_item(&self, out: &mut Vec<u8>, item: &T) {
        let before = out.len();
        let written = if self.pretty {
            serde_json::to_writer_pretty(&mut *out, item)
        } else {
            serde_json::to_writer(&mut *out, item)
        };
        // Only a map whose keys are no text can fail, and no wire type has one.
        if let Err(error) = written {
            tracing::error!(%error, "encode an item of a list");
            out.truncate(before);
            out.extend_from_slice(b"null");
        }
    }
}

struct Pieces<F> {
    first: Option<Bytes>,
    writer: Writer<F>,
}

impl<T: Serialize + 'static, F: FnMut(&View) -> Vec<T> + Send + Unpin + 'static> HttpBody for Pieces<F> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if self.writer.state == Position::End {
            return Poll::Ready(None);
        }
        let mut piece = Vec::new();
        self.writer.write_piece(&mut piece);
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }
}
