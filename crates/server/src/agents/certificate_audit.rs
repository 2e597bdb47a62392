//! Audit records of certificate requests by agents: joins, renewals and refusals.

use std::time::Instant;

use berth_api::agent::{Enroll, Enrolled};
use berth_model::NodeId;
use hyper::StatusCode;

use super::listen::ListenContext;
use crate::{
    audit::{AuditCaller, AuditChange, AuditLog, AuditOperation, Reservation, cut, fields_without_http},
    net::{NetStream, host},
};

/// What stands where requests of the API have the path.
pub(super) const ROUTE: &str = "the agents' port";

/// A request for a certificate, of which a line reports once it is answered.
pub(super) struct CertificateAudit<'r> {
    stream: &'r NetStream,
    log: Option<AuditLog>,
    /// None where no space is left; a join needs one.
    line: Option<Reservation>,
    change: AuditChange,
    joins: bool,
    started_at: Instant,
}

impl<'r> CertificateAudit<'r> {
    /// Reserves the record of a join, which spends a token. A renewal goes on without one where no space is left: nodes
    /// must not lose their certificates because a disk is full.
    ///
    /// # Errors
    /// When it joins, and no space is left.
    pub async fn begin(
        request: &Enroll,
        stream: &'r NetStream,
        context: &ListenContext,
    ) -> Result<Self, String> {
        let log = context.state().and_then(|state| state.server.audit.clone());
        let joins = !request.secret.is_empty();
        let line = match &log {
            Some(log) if joins => Some(log.reserve().await.map_err(|unrecorded| unrecorded.to_string())?),
            Some(log) => log.reserve_now(),
            None => None,
        };
        let node = NodeId::from_slice(&request.node_id).map(|node| node.to_string());
        let change = AuditChange::new(if joins { "join" } else { "renew_certificate" }, "", node);
        Ok(Self { stream, log, line, change, joins, started_at: Instant::now() })
    }

    /// Records the outcome, and returns it as the answer; that of a join once its record is on disk.
    pub async fn end(self, certified: Result<Enrolled, String>) -> Result<Enrolled, String> {
        let Self { stream, log, line, mut change, joins, started_at } = self;
        let (Some(log), Some(line)) = (log, line) else { return certified };
        if certified.is_err() {
            change.error = Some("refused");
            if !log.takes_refusal(Some(host(stream.peer().ip()))) {
                return certified;
            }
        }
        let certificate = stream.certificate().map(|peer| cut(&peer.identity.to_string()));
        let who = AuditCaller {
            address: stream.peer().to_string(),
            certificate: certificate.unwrap_or_default(),
            ..AuditCaller::default()
        };
        let what = AuditOperation {
            method: "ENROLL".to_owned(),
            route: ROUTE,
            capability: "join",
            ..AuditOperation::default()
        };
        let status = if certified.is_ok() { StatusCode::OK } else { StatusCode::FORBIDDEN };
        let fields = fields_without_http(&who, &what, &[change], status, started_at.elapsed());
        if joins && certified.is_ok() {
            let on_disk = line.record_synced(fields).await;
            on_disk.map_err(|unrecorded| {
                format!("the node has joined, but its record in the audit log is not on disk yet: {unrecorded}; try again")
            })?;
        } else {
            line.record(fields);
        }
        certified
    }
}
