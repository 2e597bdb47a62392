//! Jobs that do not run themselves but make jobs that do: at set times, or when somebody asks.

use minicbor::{Decode, Encode};

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
}

impl Default for Periodic {
    fn default() -> Self {
        Self { enabled: true, specs: Vec::new(), prohibit_overlap: false, time_zone: "UTC".to_owned() }
    }
}

/// Whether a dispatch carries data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum PayloadRule {
    /// It may.
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
