//! The parameters after the question mark. Names that nobody knows are left alone, as clients send many; values that
//! make no sense are refused.

use std::time::Duration;

use axum::extract::Query as Extracted;
use hyper::Uri;

use super::{duration, failure::Failure};

/// A request's parameters, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub fn of(uri: &Uri) -> Result<Self, Failure> {
        let query = Extracted::try_from_uri(uri).map_err(|error| Failure::bad_request(error.body_text()))?;
        Ok(Self(query.0))
    }

    /// The first value of that name; none when there is none or it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.first(name).filter(|value| !value.is_empty())
    }

    /// All values of that name.
    pub fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether something is asked for: `name`, `name=` and `name=true` all do.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Failure> {
        match self.first(name) {
            None => Ok(default),
            Some("" | "1" | "t" | "T" | "true" | "True" | "TRUE") => Ok(true),
            Some("0" | "f" | "F" | "false" | "False" | "FALSE") => Ok(false),
            Some(other) => Err(Failure::value(name, other, "true or false")),
        }
    }

    /// A whole number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        let parse = |text: &str| text.parse().map_err(|_| Failure::value(name, text, "a whole number"));
        self.text(name).map(parse).transpose()
    }

    /// A span of time as Go writes it.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>, Failure> {
        let parse = |text: &str| {
            duration::parse(text).ok_or_else(|| Failure::value(name, text, "a duration, as in 30s or 1m30s"))
        };
        self.text(name).map(parse).transpose()
    }

    /// One of a few words.
    pub fn word<T: Copy>(&self, name: &str, words: &[(&str, T)], default: T) -> Result<T, Failure> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meant)| *meant);
        found.ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            Failure::value(name, text, &known.join(" or "))
        })
    }

    /// Refuses what would change an answer if it were honoured, and is not.
    pub fn refuse_unsupported(&self) -> Result<(), Failure> {
        if self.text("filter").is_some() {
            return Err(Failure::bad_request(
                "query parameter filter is not supported yet: filter the answer instead",
            ));
        }
        if self.flag("reverse", false)? {
            return Err(Failure::bad_request(
                "query parameter reverse is not supported yet: reverse the answer instead",
            ));
        }
        Ok(())
    }
}
