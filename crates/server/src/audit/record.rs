//! The records of the audit log. They hold no secrets: no body, no header, no token, and only those query parameters that name
//! objects.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use super::chain::{ChainHash, LINE_EXTRA_BYTES};

/// The longest line in bytes; so much space is reserved for each.
pub(super) const RECORD_BYTES_MAX: usize = 2048;
/// Longest text that is repeated of what a client or an operator wrote.
const TEXT_CHARS_MAX: usize = 128;
/// Changes that are listed one by one.
const CHANGES_MAX: usize = 4;
/// Things that are named of one change.
const OBJECTS_MAX: usize = 4;

/// The first line of a file.
#[derive(Debug, Serialize)]
#[serde(rename = "file", tag = "kind")]
pub(super) struct FileRecord {
    /// The file's number.
    pub file: u64,
    /// The hash with which the file before ended.
    pub previous: String,
}

/// A server goes on with a log.
#[derive(Debug, Serialize)]
#[serde(rename = "start", tag = "kind")]
pub(super) struct StartRecord<'r> {
    pub server: &'r str,
    pub version: &'r str,
    /// Bytes of an incomplete last line, which was cut off.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_bytes: u64,
    /// Lines that are missing at the end.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// The first line that is not what was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<&'r str>,
    /// There was no note of where the log ended: lines before this one may be missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub head_missing: bool,
}

/// A server stops in an orderly way.
#[derive(Debug, Serialize)]
#[serde(rename = "stop", tag = "kind")]
pub(super) struct StopRecord {}

/// Refused requests without lines of their own.
#[derive(Debug, Serialize)]
#[serde(rename = "refused", tag = "kind")]
pub(super) struct RefusalsRecord {
    pub time: String,
    /// Where they come from; empty for several addresses.
    pub address: String,
    pub count: u64,
    /// When the first of them was.
    pub since: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The caller of a request, by all that is known of it.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct AuditCaller {
    /// Where the connection comes from; empty where it came over none.
    pub address: String,
    /// The token that was shown, if there is such a one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenOwner>,
    /// Who the certificate that was shown is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub certificate: String,
}

/// A token, without its secret.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TokenOwner {
    /// That of the token; of a task's the allocation.
    pub accessor: String,
    pub name: String,
    /// Which task of the allocation has it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task: String,
    #[serde(rename = "type")]
    pub token_type: &'static str,
}

/// The operation of a request.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct AuditOperation {
    pub method: String,
    /// The path as the table of routes has it.
    pub route: &'static str,
    pub capability: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// What stands in the path where the route has names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub objects: BTreeMap<String, String>,
    /// Parameters that name things.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
}

/// One change of the state that a request proposed.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AuditChange {
    /// What it was, in a word.
    pub change: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
    /// Where it was written; none where it was not, or that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Why it was not written, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
}

/// A request, and what came of it.
#[derive(Debug, Serialize)]
#[serde(rename = "request", tag = "kind")]
pub(crate) struct RequestRecord<'r> {
    pub time: &'r str,
    pub request: &'r str,
    pub who: &'r AuditCaller,
    pub what: &'r AuditOperation,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub changes: &'r [AuditChange],
    /// Further changes, which are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_changes: u64,
    /// Of the answer; 0 where the client had gone.
    pub status: u16,
    /// Why it was refused, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'r str>,
    /// More follows: the end has a line of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub streams: bool,
    /// Until the answer began.
    pub took_us: u64,
    /// The record was too long: all but who did what was left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
}

/// The end of what a request went on with after its answer had begun.
#[derive(Debug, Serialize)]
#[serde(rename = "end", tag = "kind")]
pub(crate) struct EndRecord<'r> {
    pub time: &'r str,
    pub request: &'r str,
    pub who: &'r AuditCaller,
    pub route: &'r str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub changes: &'r [AuditChange],
    /// Whether all was sent that there was to send.
    pub whole: bool,
    pub bytes: u64,
    /// Of a command that ran within a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Of the answer, where that is another than was recorded before it was carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// From the begin of the request.
    pub took_us: u64,
}

/// The fields of the record of a request that did not come by HTTP: it has no id, and no stream follows. `took` is the time until it
/// was answered.
pub(crate) fn fields_without_http(
    who: &AuditCaller,
    what: &AuditOperation,
    changes: &[AuditChange],
    status: StatusCode,
    took: Duration,
) -> Vec<u8> {
    let record = RequestRecord {
        time: &now(),
        request: "",
        who,
        what,
        changes,
        more_changes: 0,
        status: status.as_u16(),
        error: status.canonical_reason().filter(|_| !status.is_success()),
        streams: false,
        took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        shortened: false,
    };
    record.fields()
}

/// The time, as lines say it.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_micros(SystemTime::now()).to_string()
}

impl RequestRecord<'_> {
    /// The fields of its line, which is no longer than it may be.
    pub fn fields(&self) -> Vec<u8> {
        let listed_count = self.changes.len().min(CHANGES_MAX);
        let more_changes = self.more_changes + (self.changes.len() - listed_count) as u64;
        let all = RequestRecord { changes: &self.changes[..listed_count], more_changes, ..*self };
        let whole = fields(&all);
        if whole.len() <= RECORD_BYTES_MAX - LINE_EXTRA_BYTES {
            return whole;
        }
        let who = AuditCaller {
            token: self.who.token.clone().map(|token| TokenOwner {
                name: String::new(),
                task: String::new(),
                ..token
            }),
            certificate: String::new(),
            ..self.who.clone()
        };
        let what = AuditOperation { objects: BTreeMap::new(), query: BTreeMap::new(), ..self.what.clone() };
        let more_changes = self.more_changes + self.changes.len() as u64;
        fields(&RequestRecord {
            who: &who,
            what: &what,
            changes: &[],
            more_changes,
            shortened: true,
            ..*self
        })
    }
}

impl EndRecord<'_> {
    /// The fields of its line, which is no longer than it may be.
    pub fn fields(&self) -> Vec<u8> {
        let whole =
            fields(&EndRecord { changes: &self.changes[..self.changes.len().min(CHANGES_MAX)], ..*self });
        if whole.len() <= RECORD_BYTES_MAX - LINE_EXTRA_BYTES {
            return whole;
        }
        fields(&EndRecord {
            who: &AuditCaller { address: self.who.address.clone(), ..AuditCaller::default() },
            changes: &[],
            ..*self
        })
    }
}

impl AuditChange {
    /// A change of these things, of which the first few are named.
    pub fn new(change: &'static str, namespace: &str, objects: impl IntoIterator<Item = String>) -> Self {
        let objects = objects.into_iter().take(OBJECTS_MAX).map(|object| cut(&object)).collect();
        Self { change, namespace: cut(namespace), objects, index: None, error: None }
    }
}

/// A text, cut to the length that records have at most.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// What stands between the braces of a record's JSON.
pub(super) fn fields(record: &impl Serialize) -> Vec<u8> {
    // Records are structs of numbers, words and text: writing them to memory does not fail.
    let mut json = serde_json::to_vec(record).unwrap_or_else(|_| b"{\"kind\":\"unknown\"}".to_vec());
    json.pop();
    json.remove(0);
    json
}

/// Whether a line says that a server went on with a log of which it was not noted where it ended.
pub(super) fn is_without_head(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Start {
        kind: String,
        head_missing: bool,
    }
    serde_json::from_slice(line).is_ok_and(|start: Start| start.kind == "start" && start.head_missing)
}

/// The hash with which a file's first line says that the file before ended; none of other lines.
pub(super) fn previous(line: &[u8]) -> Option<ChainHash> {
    #[derive(Deserialize)]
    struct First {
        kind: String,
        previous: String,
    }
    let first: First = serde_json::from_slice(line).ok()?;
    first.previous.parse().ok().filter(|_| first.kind == "file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_record_is_shortened_to_fit_a_line() {
        let worst = "\u{1}".repeat(TEXT_CHARS_MAX);
        let names = (0..9).map(|at| (format!("{worst}{at}"), worst.clone()));
        let (name, task) = (worst.clone(), worst.clone());
        let token = TokenOwner { accessor: "a".repeat(36), name, task, token_type: "management" };
        let who = AuditCaller {
            address: "[fe80::1%eth0]:65535".into(),
            token: Some(token),
            certificate: worst.clone(),
        };
        let what = AuditOperation {
            method: "DELETE".into(),
            route: "/v1/client/allocation/{id}/restart/and/the/longest/of/all/routes",
            capability: "alloc-lifecycle",
            namespace: worst.clone(),
            objects: names.clone().collect(),
            query: names.collect(),
        };
        let changes = vec![AuditChange::new("set_deployment", &worst, vec![worst.clone(); 99]); 99];
        let request = RequestRecord {
            time: "2026-01-01T00:00:00.000000Z",
            request: &"f".repeat(32),
            who: &who,
            what: &what,
            changes: &changes,
            more_changes: u64::MAX / 2,
            status: 503,
            error: Some("service-unavailable"),
            streams: true,
            took_us: u64::MAX,
            shortened: false,
        };
        let fields = request.fields();
        assert!(fields.len() <= RECORD_BYTES_MAX - LINE_EXTRA_BYTES, "{}", fields.len());
        let json: serde_json::Value = serde_json::from_slice(&[b"{", &*fields, b"}"].concat()).expect("JSON");
        assert_eq!(json["shortened"], true);
        assert_eq!(json["who"]["token"]["accessor"], "a".repeat(36));
        assert_eq!(json["more_changes"], u64::MAX / 2 + 99);
        let end = EndRecord {
            time: request.time,
            request: request.request,
            who: &who,
            route: what.route,
            changes: &changes,
            whole: true,
            bytes: u64::MAX,
            exit_code: Some(i32::MIN),
            status: Some(503),
            took_us: u64::MAX,
        };
        assert!(end.fields().len() <= RECORD_BYTES_MAX - LINE_EXTRA_BYTES);
    }
}
