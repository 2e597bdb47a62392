//! Jobs that do not run themselves but make jobs that do: at set times, or when somebody asks.

use minicbor::{Decode, Encode};

use super::Job;
use crate::{ids::JobKey, time::Timestamp, value::Value};

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Where a run holds the token of its dispatch, among what is kept for those who read it.
const DISPATCH_TOKEN: &str = "DispatchIdempotencyToken";

/// A job that is run again and again, at set times.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Periodic {
    /// Whether it is run at all.
    #[n(0)]
    pub enabled: bool,
    /// Cron expressions; it is run whenever one of them matches.
    #[n(1)]
    pub specs: Vec<String>,
    /// Wait for the last run to end.
    #[n(2)]
    pub prohibit_overlap: bool,
    /// An IANA time zone, as `Europe/Berlin`.
    #[n(3)]
    pub time_zone: String,
    /// Its owner wrote the one expression by itself, and not as a list. Not in entries of older servers.
    #[n(4)]
    #[cbor(with = "crate::codec::late_flag", has_nil)]
    pub is_single: bool,
}

impl Default for Periodic {
    fn default() -> Self {
        Self {
            enabled: true,
            specs: Vec::new(),
            prohibit_overlap: false,
            time_zone: "UTC".to_owned(),
            is_single: false,
        }
    }
}

/// Whether a dispatch carries data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum PayloadRule {
    /// A dispatch may carry a payload.
    #[default]
    #[n(0)]
    Optional,
    /// It must.
    #[n(1)]
    Required,
    /// It must not.
    #[n(2)]
    Forbidden,
}

/// A job that is run each time somebody dispatches it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Parameterized {
    /// Whether a dispatch carries data.
    #[n(0)]
    pub payload: PayloadRule,
    /// Keys of meta that a dispatch must give.
    #[n(1)]
    pub meta_required: Vec<String>,
    /// Keys of meta that a dispatch may give; it may give no others.
    #[n(2)]
    pub meta_optional: Vec<String>,
}

impl Job {
    /// The times at which it is to be run; none for a job that is not run by the clock, or not any more.
    pub fn clock(&self) -> Option<&Periodic> {
        let waits = !self.stop && (self.parameterized.is_none() || self.dispatched);
        self.periodic.as_deref().filter(|periodic| waits && periodic.enabled)
    }

    /// A run of it, which is a job of its own.
    pub fn child(&self, id: &str) -> Self {
        Self {
            key: JobKey::new(&self.key.namespace, id),
            name: id.to_owned(),
            parent_id: self.key.id.to_string(),
            stop: false,
            ..self.clone()
        }
    }

    /// Notes the token with which it was dispatched: whoever dispatches with it again gets this run and no second one.
    pub fn set_dispatch_token(&mut self, token: &str) {
        self.kept.insert(DISPATCH_TOKEN.to_owned(), Value::String(token.to_owned()));
    }

    /// The token with which it was dispatched, if there was one.
    pub fn dispatch_token(&self) -> Option<&str> {
        match self.kept.get(DISPATCH_TOKEN).filter(|_| self.dispatched) {
            Some(Value::String(token)) => Some(token),
            _ => None,
        }
    }

    /// Its run of a time, as a periodic job: `<id>/periodic-<seconds since the epoch>`.
    pub fn run_at(&self, at: Timestamp) -> Self {
        let run = self.child(&format!("{}/periodic-{}", self.key.id, at.0 / NANOS_PER_SECOND));
        Self { periodic: None, ..run }
    }
}

/// What distinguishes the token of a dispatch of a job from all others: the hash of both.
pub fn dispatch_hash(parent: &JobKey, token: &str) -> u128 {
    let JobKey { namespace, id } = parent;
    // No name holds a zero byte.
    xxhash_rust::xxh3::xxh3_128(format!("{namespace}\0{id}\0{token}").as_bytes())
}
