//! Query parameters. Invalid values are refused. Names that a route does not read are accepted, since clients of Nomad send some that
//! mean nothing here; the response names them, so that misspelt ones are noticed.

use std::{sync::Arc, time::Duration};

use axum::extract::Query as Extracted;
use hyper::Uri;

use super::{
    failure::Failure,
    ignored::{NAMES_MAX, plain},
    routes::Contract,
};

/// Parameters that clients send with any request.
const EVERYWHERE: &[&str] =
    &["region", "namespace", "token", "stale", "consistent", "pretty", "index", "wait"];

/// A request's parameters, in order.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
    /// The contract of the route.
    contract: Arc<Contract>,
}

impl Query {
    pub fn of(uri: &Uri, contract: Arc<Contract>) -> Result<Self, Failure> {
        let query = Extracted::try_from_uri(uri).map_err(|error| Failure::bad_request(error.body_text()))?;
        Ok(Self { pairs: query.0, contract })
    }

    /// The contract of the route.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// All names and values, in order.
    pub fn pairs(&self) -> impl Iterator<Item = &(String, String)> {
        self.pairs.iter()
    }

    /// The names of those that have a value and that the route does not read, as a header can hold them.
    pub fn ignored(&self) -> impl Iterator<Item = String> {
        let is_read =
            move |name: &str| EVERYWHERE.contains(&name) || self.contract.parameters.contains(&name);
        let asks = |value: &str| !matches!(value, "" | "false" | "0");
        let unread = self.pairs.iter().filter(move |(name, value)| !is_read(name) && asks(value));
        unread.take(NAMES_MAX).map(|(name, _)| plain(name))
    }

    /// The region of the request; none for the server's own.
    pub fn region(&self) -> Option<&str> {
        let region = self.pairs.iter().find(|(name, _)| name == "region");
        region.map(|(_, value)| value.as_str()).filter(|region| !region.is_empty())
    }

    /// Whether the request waits for a change, or follows a stream.
    pub fn waits(&self) -> bool {
        self.pairs.iter().any(|(name, value)| name == "index" && !value.is_empty())
    }

    /// Whether any server may answer, with a state that may be old.
    pub fn is_stale(&self) -> bool {
        self.contract.parameters.contains(&"stale") && self.flag("stale", false).unwrap_or(false)
    }

    /// The first value of that name; none when there is none or it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.first(name).filter(|value| !value.is_empty())
    }

    /// All values of that name.
    pub fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        self.check_declared(name);
        self.pairs.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn first(&self, name: &str) -> Option<&str> {
        self.check_declared(name);
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The table of routes names every parameter that is read; the description of the API comes from there.
    fn check_declared(&self, name: &str) {
        debug_assert!(
            self.contract.parameters.contains(&name),
            "parameter {name} is not in the table of routes"
        );
    }

    /// Whether a flag is set: by `name`, `name=` or `name=true`.
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
            berth_duration::parse(text)
                .ok_or_else(|| Failure::value(name, text, "a duration, as in 30s or 1m30s"))
        };
        self.text(name).map(parse).transpose()
    }

    /// One of a few words.
    pub fn word<T: Copy>(&self, name: &str, words: &[(&str, T)], default: T) -> Result<T, Failure> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let value = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        value.ok_or_else(|| {
            let accepted: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            Failure::value(name, text, &accepted.join(" or "))
        })
    }
}
