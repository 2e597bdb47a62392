//! Services: where others reach a group or task, and how its health is checked.

use std::{collections::BTreeMap, time::Duration};

use minicbor::{Decode, Encode};

use super::{Identity, IgnoredSettings, seconds};
use crate::value::Value;

/// A name under which others find a port of the group.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Service {
    /// The name that others look for.
    #[n(0)]
    pub name: String,
    /// Who registers it: `nomad` for the cluster itself, or `consul`.
    #[n(1)]
    pub provider: String,
    /// The label of a port, or a number.
    #[n(2)]
    pub port: String,
    /// Tags to find the service by.
    #[n(3)]
    pub tags: Vec<String>,
    /// In place of `tags` while the allocation is a canary.
    #[n(4)]
    pub canary_tags: Vec<String>,
    /// The owner's own labels of the service.
    #[n(5)]
    pub meta: BTreeMap<String, String>,
    /// In place of `meta` while the allocation is a canary.
    #[n(6)]
    pub canary_meta: BTreeMap<String, String>,
    /// `auto`, `alloc`, `host` or `driver`: whose address is registered.
    #[n(7)]
    pub address_mode: String,
    /// Registered in place of the node's; empty for that.
    #[n(8)]
    pub address: String,
    /// The task that the service belongs to; empty for the group.
    #[n(9)]
    pub task: String,
    /// `require_healthy`, `ignore_warnings` or `ignore`: what deployments wait for.
    #[n(10)]
    pub on_update: String,
    /// How its health is checked.
    #[n(11)]
    pub checks: Vec<Check>,
    /// The default of its checks.
    #[n(12)]
    pub check_restart: Option<CheckRestart>,
    /// The identity it registers with.
    #[n(13)]
    pub identity: Option<Box<Identity>>,
    /// Settings of the provider.
    #[n(14)]
    pub kept: IgnoredSettings,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            name: String::new(),
            provider: "consul".to_owned(),
            port: String::new(),
            tags: Vec::new(),
            canary_tags: Vec::new(),
            meta: BTreeMap::new(),
            canary_meta: BTreeMap::new(),
            address_mode: "auto".to_owned(),
            address: String::new(),
            task: String::new(),
            on_update: "require_healthy".to_owned(),
            checks: Vec::new(),
            check_restart: None,
            identity: None,
            kept: IgnoredSettings::new(),
        }
    }
}

/// How a check asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum CheckKind {
    /// A connection is taken.
    #[default]
    #[n(0)]
    Tcp,
    /// A request is answered with 2xx.
    #[n(1)]
    Http,
    /// The health protocol of gRPC says so.
    #[n(2)]
    Grpc,
    /// A command exits with 0.
    #[n(3)]
    Script,
}

/// A question asked again and again: is the service well?
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode)]
pub struct Check {
    /// A name to read; it need not be unique.
    #[n(0)]
    pub name: String,
    /// The protocol of the check.
    #[n(1)]
    pub kind: CheckKind,
    /// The label of a port, or a number; empty for the service's.
    #[n(2)]
    pub port: String,
    /// Between two questions; at least 1 s.
    #[n(3)]
    #[cbor(with = "crate::codec::duration")]
    pub interval: Duration,
    /// Until an answer counts as none; at least 1 s.
    #[n(4)]
    #[cbor(with = "crate::codec::duration")]
    pub timeout: Duration,
    /// HTTP: what is asked for.
    #[n(5)]
    pub path: String,
    /// HTTP: GET when empty.
    #[n(6)]
    pub method: String,
    /// HTTP: `http` when empty, or `https`.
    #[n(7)]
    pub protocol: String,
    /// HTTP: lines of the request's head, by name.
    #[n(8)]
    pub header: BTreeMap<String, Vec<String>>,
    /// HTTP: sent with the request.
    #[n(9)]
    pub body: String,
    /// Script: the command.
    #[n(10)]
    pub command: String,
    /// Script: its arguments.
    #[n(11)]
    pub args: Vec<String>,
    /// Script: the task in which it runs.
    #[n(12)]
    pub task: String,
    /// Before the first answer; empty for critical.
    #[n(13)]
    pub initial_status: String,
    /// Good answers in a row before it passes.
    #[n(14)]
    pub success_before_passing: u32,
    /// Bad answers in a row before it is critical.
    #[n(15)]
    pub failures_before_critical: u32,
    /// What deployments wait for; empty for as the service says.
    #[n(16)]
    pub on_update: String,
    /// When bad answers restart the task.
    #[n(17)]
    pub check_restart: Option<CheckRestart>,
    /// Settings of the provider, and of gRPC and TLS.
    #[n(18)]
    pub kept: IgnoredSettings,
}

impl Check {
    /// Whether it asks within TLS.
    pub fn asks_by_tls(&self) -> bool {
        match self.kind {
            CheckKind::Http => self.protocol == "https",
            CheckKind::Grpc => self.kept.get("GRPCUseTLS") == Some(&Value::Bool(true)),
            CheckKind::Tcp | CheckKind::Script => false,
        }
    }
}

/// The setting of [`Check::success_codes`] among what is kept.
const SUCCESS_CODES: &str = "SuccessCodes";

impl Check {
    /// HTTP: the status codes on which it passes, as ranges with both ends; empty for any below 400.
    pub fn success_codes(&self) -> Vec<(u16, u16)> {
        let Some(Value::List(codes)) = self.kept.get(SUCCESS_CODES) else { return Vec::new() };
        let texts =
            codes.iter().filter_map(|code| if let Value::String(code) = code { Some(code) } else { None });
        texts.filter_map(|code| Self::parse_codes(code)).collect()
    }

    /// Reads a status code of HTTP, or a range of them: `204`, `200-299`.
    pub fn parse_codes(text: &str) -> Option<(u16, u16)> {
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let code = |text: &str| {
            let code = text.parse::<u16>().ok().filter(|_| text.len() == 3);
            code.filter(|code| (100..600).contains(code))
        };
        Some((code(from)?, code(to)?)).filter(|(from, to)| from <= to)
    }
}

/// When bad answers restart a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct CheckRestart {
    /// Bad answers in a row; 0 for never.
    #[n(0)]
    pub limit: u32,
    /// Not before the task has run for that long.
    #[n(1)]
    #[cbor(with = "crate::codec::duration")]
    pub grace: Duration,
    /// A warning is no bad answer.
    #[n(2)]
    pub ignore_warnings: bool,
}

impl Default for CheckRestart {
    fn default() -> Self {
        Self { limit: 0, grace: seconds(1), ignore_warnings: false }
    }
}
