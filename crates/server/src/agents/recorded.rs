//! What the audit log says of certificates that agents ask for: who joined, who renewed, and who was refused.

use std::time::Instant;

use berth_api::agent::{Enroll, Enrolled};
use berth_model::NodeId;
use hyper::StatusCode;

use super::listen::Context;
use crate::{
    audit::{AuditLog, Changed, Reservation, What, Who, cut, fields_without_http},
    net::{Stream, host},
};

/// What stands where requests of the API have the path.
pub(super) const ROUTE: &str = "the agents' port";

/// A request for a certificate, of which a line reports once it is answered.
pub(super) struct Recorded<'r> {
    stream: &'r Stream,
    log: Option<AuditLog>,
    /// None where there is no room; a join must have some.
    line: Option<Reservation>,
    change: Changed,
    joins: bool,
    begun: Instant,
}

impl<'r> Recorded<'r> {
    /// Has room for the line of a join: that spends a token. A renewal does without where there is none, for nodes that have
    /// certificates must not lose them because a disk is full.
    ///
    /// # Errors
    /// When it joins, and there is no room.
    pub async fn begin(asked: &Enroll, stream: &'r Stream, context: &Context) -> Result<Self, String> {
        let log = context.state().and_then(|state| state.server.audit.clone());
        let joins = !asked.secret.is_empty();
        let line = match &log {
            Some(log) if joins => Some(log.reserve().await.map_err(|untold| untold.to_string())?),
            Some(log) => log.reserve_now(),
            None => None,
        };
        let node = NodeId::from_slice(&asked.node_id).map(|node| node.to_string());
        let change = Changed::new(if joins { "join" } else { "renew_certificate" }, "", node);
        Ok(Self { stream, log, line, change, joins, begun: Instant::now() })
    }

    /// Records the outcome, and returns it as the answer; that of a join once its record is on disk.
    pub async fn end(self, certified: Result<Enrolled, String>) -> Result<Enrolled, String> {
        let Self { stream, log, line, mut change, joins, begun } = self;
        let (Some(log), Some(line)) = (log, line) else { return certified };
        if certified.is_err() {
            change.error = Some("refused");
            if !log.takes_refusal(Some(host(stream.peer().ip()))) {
                return certified;
            }
        }
        let certificate = stream.certificate().map(|shown| cut(&shown.identity.to_string()));
        let who = Who {
            address: stream.peer().to_string(),
            certificate: certificate.unwrap_or_default(),
            ..Who::default()
        };
        let what = What { method: "ENROLL".to_owned(), route: ROUTE, capability: "join", ..What::default() };
        let status = if certified.is_ok() { StatusCode::OK } else { StatusCode::FORBIDDEN };
        let fields = fields_without_http(&who, &what, &[change], status, begun.elapsed());
        if joins && certified.is_ok() {
            let on_disk = line.tell_and_wait(fields).await;
            on_disk.map_err(|untold| {
                format!("the node has joined, but its record in the audit log is not on disk yet: {untold}; try again")
            })?;
        } else {
            line.tell(fields);
        }
        certified
    }
}
