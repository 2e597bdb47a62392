//! Saving the whole state to a file, and restoring it.

mod receive;
mod replace;
mod send;

pub(super) use replace::restore;
pub(super) use send::save;

use hyper::header::HeaderValue;

/// The type of a snapshot.
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");
