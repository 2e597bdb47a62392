//! Audit records of membership changes that no API request asked for, written by the leader: joins, promotions and replacements
//! of servers, and transfers of the leadership. Requests of operators are recorded where they are received.

use std::time::Instant;

use berth_replication::{ChangeError, Peer};
use hyper::StatusCode;

use super::Cluster;
use crate::audit::{
    AuditCaller, AuditChange, AuditLog, AuditOperation, Reservation, cut, fields_without_http,
};

/// What stands where requests of the API have the path.
const ROUTE: &str = "the servers' port";
/// And where the server does it by itself.
const OWN: &str = "this server";

/// A membership change, which is recorded once it is over.
pub(super) struct MembershipAudit {
    line: Option<Reservation>,
    who: AuditCaller,
    route: &'static str,
    change: AuditChange,
    started_at: Instant,
}

impl Cluster {
    /// Changes are recorded from now on.
    pub fn set_audit(&self, log: AuditLog) {
        self.audit.set(log).ok();
    }

    /// Reserves the record of a change that a server requests.
    ///
    /// # Errors
    /// When there is none: it is not made.
    pub(super) async fn record_asked(
        &self,
        by: &Peer,
        change: &'static str,
        servers: impl IntoIterator<Item = String>,
    ) -> Result<MembershipAudit, ChangeError> {
        let line = match self.audit.get() {
            Some(log) => {
                Some(log.reserve().await.map_err(|unrecorded| ChangeError::Refused(unrecorded.to_string()))?)
            }
            None => None,
        };
        let who = AuditCaller { address: cut(&by.address), ..AuditCaller::default() };
        Ok(MembershipAudit::new(line, who, ROUTE, AuditChange::new(change, "", servers)))
    }

    /// The same for a change that this server makes by itself. It is made without a record where no space is left: a full disk must not
    /// keep a cluster from repairing itself.
    pub(super) fn record_own(
        &self,
        change: &'static str,
        servers: impl IntoIterator<Item = String>,
    ) -> MembershipAudit {
        let line = self.audit.get().and_then(AuditLog::reserve_now);
        MembershipAudit::new(line, AuditCaller::default(), OWN, AuditChange::new(change, "", servers))
    }

    /// A server, as it is named in the log: its id, and its name where that is known.
    pub(super) fn named(&self, id: u64) -> String {
        let name = self.replication.peer(id).map(|peer| peer.name).unwrap_or_default();
        named(id, &name)
    }
}

/// A server's id and name.
pub(super) fn named(id: u64, name: &str) -> String {
    if name.is_empty() { id.to_string() } else { format!("{id} {name}") }
}

impl MembershipAudit {
    fn new(line: Option<Reservation>, who: AuditCaller, route: &'static str, change: AuditChange) -> Self {
        Self { line, who, route, change, started_at: Instant::now() }
    }

    /// Records the outcome, and returns once the record is on disk. Requests that another leader has to handle, or that were refused,
    /// have changed nothing and are repeated until they succeed: they are not recorded.
    ///
    /// # Errors
    /// That of the change, or that its line is not on disk yet.
    pub async fn end(self, outcome: Result<(), ChangeError>) -> Result<(), ChangeError> {
        let Some((line, fields)) = self.record(&outcome) else { return outcome };
        let on_disk = line.record_synced(fields).await;
        outcome?;
        on_disk.map_err(|unrecorded| {
            ChangeError::Unknown(format!(
                "it was made, and its record in the audit log is not on disk yet: {unrecorded}"
            ))
        })
    }

    /// The same, which waits for no disk.
    pub fn end_now(self, outcome: &Result<(), ChangeError>) {
        if let Some((line, fields)) = self.record(outcome) {
            line.record(fields);
        }
    }

    fn record(self, outcome: &Result<(), ChangeError>) -> Option<(Reservation, Vec<u8>)> {
        let Self { line, who, route, mut change, started_at } = self;
        let status = match outcome {
            Ok(()) => StatusCode::OK,
            Err(ChangeError::Unknown(_)) => StatusCode::INTERNAL_SERVER_ERROR,
            Err(ChangeError::NotLeader { .. } | ChangeError::Refused(_)) => return None,
        };
        change.error = outcome.is_err().then_some("unknown");
        let what = AuditOperation {
            method: "SERVERS".to_owned(),
            route,
            capability: "server",
            ..AuditOperation::default()
        };
        let fields = fields_without_http(&who, &what, &[change], status, started_at.elapsed());
        Some((line?, fields))
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use serde_json::Value;

    use crate::{
        audit::AuditConfig,
        net::test_certificates::{TestCertificates, recording, server},
    };

    /// The changes of the servers that a log tells of.
    fn record(dir: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(dir.join("audit-00000001.jsonl")).unwrap_or_default();
        let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        whole.filter(|line| line["what"]["method"] == "SERVERS").collect()
    }

    fn change(line: &Value) -> (&str, &str) {
        let (change, route) = (&line["changes"][0]["change"], &line["what"]["route"]);
        (change.as_str().unwrap_or_default(), route.as_str().unwrap_or_default())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn joins_promotions_and_transfers_are_recorded_by_the_leader() {
        let (certificates, dir) = (TestCertificates::new(), tempfile::tempdir().expect("a directory"));
        let audit = AuditConfig {
            dir: dir.path().join("audit"),
            file_bytes_max: 64 << 20,
            files_max: 4,
            keep: Duration::ZERO,
            all_reads: false,
        };
        let log = audit.dir.clone();
        let founder = recording(&certificates, "s1", &[], Some(audit)).await;
        let second = server(&certificates, "s2", &[founder.server_addr().to_string()]).await;
        let address = second.server_addr().to_string();
        let both_are_recorded = async {
            while record(&log).len() < 2 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), both_are_recorded).await.expect("both are recorded");
        // It is not alone any more, and hands over.
        founder.shutdown().await;
        let lines = record(&log);
        let changes: Vec<(&str, &str)> = lines.iter().map(change).collect();
        assert_eq!(changes[..2], [("join_server", "the servers' port"), ("promote_server", "this server")]);
        assert_eq!(changes.last(), Some(&("transfer_leadership", "this server")), "{changes:?}");
        let servers = |line: &Value| line["changes"][0]["objects"].to_string();
        assert!(lines.iter().take(2).all(|line| servers(line).contains(" s2\"")), "{lines:?}");
        assert!(servers(&lines[0]).contains(&address) && lines[0]["who"]["address"] == address.as_str());
        assert!(lines.iter().all(|line| line["status"] == 200), "{lines:?}");
        second.shutdown().await;
    }
}
