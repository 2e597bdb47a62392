//! The target of a request: a path whose segments may hold any character, and query parameters.

use std::{fmt::Write, time::Duration};

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

/// Longest time that a server waits for a change.
pub const BLOCKING_MAX: Duration = Duration::from_secs(300);
/// A server adds up to this part of the time to it, so that not all of its readers come back at once.
const BLOCKING_JITTER_PART: u32 = 16;
/// What needs no encoding in any part of a URL.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What no URL may hold as it is. A percent sign is left: it begins what is encoded already.
const UNWRITABLE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A path and parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    path: String,
    query: String,
    wait: Duration,
}

impl Target {
    /// A fixed path, as `/v1/jobs`.
    pub fn new(path: &str) -> Self {
        Self { path: path.to_owned(), query: String::new(), wait: Duration::ZERO }
    }

    /// A path with parameters as somebody has written them, as `/v1/jobs?prefix=web`; what no URL may hold is encoded.
    pub fn written(text: &str) -> Self {
        let (path, query) = text.split_at(text.find('?').unwrap_or(text.len()));
        let encoded = |part: &str| utf8_percent_encode(part, UNWRITABLE).to_string();
        // A question mark alone would part nothing from nothing.
        let query = if query == "?" { String::new() } else { encoded(query) };
        Self { path: encoded(path), query, wait: Duration::ZERO }
    }

    /// Whether it has a parameter of that name.
    pub fn has_param(&self, name: &str) -> bool {
        let mut params = self.query.trim_start_matches('?').split('&');
        params.any(|param| param.split('=').next() == Some(name))
    }

    /// Adds a part to the path; slashes in it do not part it.
    #[must_use]
    pub fn part(mut self, part: &str) -> Self {
        let _ = write!(self.path, "/{}", utf8_percent_encode(part, ENCODED));
        self
    }

    /// Adds a parameter.
    #[must_use]
    pub fn param(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        let separator = if self.query.is_empty() { '?' } else { '&' };
        let value = value.to_string();
        let (name, value) = (utf8_percent_encode(name, ENCODED), utf8_percent_encode(&value, ENCODED));
        let _ = write!(self.query, "{separator}{name}={value}");
        self
    }

    /// Answer once there is a change after `index`, or after `wait`, at most [`BLOCKING_MAX`].
    #[must_use]
    pub fn after(self, index: u64, wait: Duration) -> Self {
        let wait = wait.min(BLOCKING_MAX);
        let mut target = self.param("index", index).param("wait", format!("{}ms", wait.as_millis()));
        target.wait = wait + wait / BLOCKING_JITTER_PART;
        target
    }

    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    /// As it stands in a URL.
    pub fn path_and_query(&self) -> String {
        format!("{}{}", self.path, self.query)
    }
}
