//! JSON arrays that are written while they are sent: a list of a million allocations takes no more memory than a piece,
//! and is written on threads where it holds up nobody.

use std::io;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use serde::Serialize;

use super::{
    call::{Call, Reply},
    failure::Failure,
    heavy::Heavy,
    reply::{JSON, check_answer, whole, with_type},
};

/// Rows that are looked at here and now: most lists are short, and going to another thread costs more than these.
pub(super) const ROWS_HERE_MAX: usize = 64;
/// Rows that are looked at for one piece.
pub(super) const ROWS_MAX: usize = 512;

/// Where the items of an array come from.
pub(super) trait Source: Send + 'static {
    /// As it is sent.
    type Item: Serialize;

    /// The items among the next so many rows.
    fn next(&mut self, rows_max: usize) -> Result<Vec<Self::Item>, Failure>;

    /// Whether all rows have been looked at.
    fn is_done(&self) -> bool;
}

/// Answers with an array of all items. A short one is sent whole, with its length.
pub(super) fn array<S: Source>(call: &Call, source: S) -> Reply {
    check_answer::<Vec<S::Item>>(&call.query);
    let mut writer =
        Writer { source, pretty: call.query.flag("pretty", false)?, begun: false, has_items: false };
    let first = writer.piece(ROWS_HERE_MAX)?;
    if writer.source.is_done() {
        return Ok(whole(first.into()));
    }
    Ok(with_type(writer.body(first, call.api.heavy.clone()), JSON))
}

struct Writer<S> {
    source: S,
    pretty: bool,
    begun: bool,
    has_items: bool,
}

impl<S: Source> Writer<S> {
    fn body(self, first: Vec<u8>, heavy: Heavy) -> Body {
        Body::from_stream(stream::try_unfold((Some(first), self), move |(first, mut writer)| {
            let heavy = heavy.clone();
            async move {
                if let Some(first) = first {
                    return Ok(Some((Bytes::from(first), (None, writer))));
                }
                if writer.source.is_done() {
                    return Ok(None);
                }
                let (piece, writer) = heavy.run(move || (writer.piece(ROWS_MAX), writer)).await;
                // The status is sent: all that is left to tell of a mistake is to break the answer off.
                let piece = piece.map_err(|failure| io::Error::other(failure.text))?;
                Ok::<_, io::Error>(Some((Bytes::from(piece), (None, writer))))
            }
        }))
    }

    /// The text of the items among the next rows.
    fn piece(&mut self, rows_max: usize) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        if !self.begun {
            out.push(b'[');
            self.begun = true;
        }
        for item in self.source.next(rows_max)? {
            if self.has_items {
                out.push(b',');
            }
            self.has_items = true;
            write(&mut out, &item, self.pretty);
        }
        if self.source.is_done() {
            out.push(b']');
        }
        Ok(out)
    }
}

fn write(out: &mut Vec<u8>, item: &impl Serialize, pretty: bool) {
    let before = out.len();
    let written = if pretty {
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
