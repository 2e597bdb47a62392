//! The audit of a request: space for its records is reserved before it is executed, and its changes and outcome are recorded,
//! however it ends.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Instant,
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use berth_api::agent::JoinCode;
use berth_model::Index;
use bytes::Bytes;
use hyper::{
    StatusCode,
    body::{Frame, SizeHint},
    header::{HeaderName, HeaderValue},
};

use super::{
    api::Api,
    call::Reply,
    caller::Caller,
    failure::Failure,
    query::Query,
    routes::{AuditMode, Capability, ResponseBody, Route},
};
use crate::{
    access::{Identity, SECRET_BYTES, SECRET_PREFIX, hash},
    audit::{
        AuditCaller, AuditChange, AuditLog, AuditOperation, EndRecord, RequestRecord, Reservation,
        TokenOwner, cut, now,
    },
    engine::random_u64,
    workload::is_token,
};

/// The response header with the id of the request in the audit log.
const REQUEST: HeaderName = HeaderName::from_static("x-berth-request");
/// Parameters that name objects, and are recorded. Others may hold secrets.
const NAMING: &[&str] =
    &["address", "id", "job", "name", "namespace", "node", "node_id", "path", "purge", "task", "type"];
/// Changes of one request that are recorded; further ones are counted.
const CHANGES_MAX: usize = 16;
/// Recorded in place of a secret.
const SECRET: &str = "(a secret)";

/// The audit of one request. Its end is recorded when the last reference to it is dropped.
#[derive(Debug)]
pub(crate) struct Audited {
    log: AuditLog,
    id: String,
    who: AuditCaller,
    what: AuditOperation,
    mode: AuditMode,
    /// The address of a request that needs no token. Such a request counts as a refusal if it changes nothing.
    stranger: Option<Option<IpAddr>>,
    started_at: Instant,
    sent_bytes: AtomicU64,
    progress: Mutex<AuditProgress>,
}

#[derive(Debug, Default)]
struct AuditProgress {
    /// Space for the record of the outcome; none once that is recorded.
    line: Option<Reservation>,
    /// Space for the record of the end of a stream.
    end: Option<Reservation>,
    streams: bool,
    sent_all: bool,
    /// The exit code of a command that has ended.
    exit_code: Option<i32>,
    /// The status of the response, where another one was recorded before.
    status: Option<u16>,
    changes: Vec<AuditChange>,
    more_changes: u64,
    /// How many of the changes have been recorded.
    changes_recorded: usize,
}

/// The parts of a request that are recorded.
pub(crate) struct AuditedRequest<'r> {
    pub api: &'r Api,
    pub route: &'r Route,
    pub method: &'r str,
    pub query: &'r Query,
    pub params: &'r [(String, String)],
    pub caller: Option<&'r Caller>,
    pub namespace: &'r str,
}

impl AuditedRequest<'_> {
    fn who(&self, identity: &Identity) -> AuditCaller {
        AuditCaller {
            address: self.caller.map(|caller| caller.peer.to_string()).unwrap_or_default(),
            token: self.token(identity),
            certificate: self
                .caller
                .and_then(|caller| caller.certificate.as_deref())
                .map(cut)
                .unwrap_or_default(),
        }
    }

    /// The owner of the token, if it is a valid one. Tokens of tasks change often: they are identified by their allocation.
    fn token(&self, identity: &Identity) -> Option<TokenOwner> {
        match identity {
            Identity::Anonymous => None,
            Identity::Token(secret) => {
                let view = self.api.state.view();
                view.store.acl().token_of(secret).map(|token| TokenOwner {
                    accessor: token.id.to_string(),
                    name: cut(&token.name),
                    task: String::new(),
                    token_type: token.token_type.as_str(),
                })
            }
            Identity::Workload(workload) => Some(TokenOwner {
                accessor: workload.alloc.to_string(),
                name: cut(&workload.subject),
                task: cut(&workload.name.task),
                token_type: "workload",
            }),
        }
    }

    fn what(&self) -> AuditOperation {
        let declared = &self.query.contract().parameters;
        let is_recorded =
            |name: &str| NAMING.contains(&name) && name != "namespace" && declared.contains(&name);
        let query = self.query.pairs().filter(|(name, _)| is_recorded(name));
        let redacted = |(name, value): &(String, String)| (name.clone(), self.redact(value));
        AuditOperation {
            method: self.method.to_owned(),
            route: self.route.path,
            capability: self.route.capability.word(),
            namespace: self.redact(self.namespace),
            objects: self.params.iter().map(redacted).collect(),
            query: query.map(redacted).collect::<BTreeMap<_, _>>(),
        }
    }

    /// A text, unless it is the secret of a token, which users sometimes pass in place of its accessor.
    fn redact(&self, text: &str) -> String {
        let is_secret = is_secret(text)
            || text.parse::<JoinCode>().is_ok()
            || is_token(text)
            || self.api.state.view().store.acl().token_of(&hash(text)).is_some();
        if is_secret { SECRET.to_owned() } else { cut(text) }
    }

    /// Records a request that was refused before it was handled. Does not wait for the disk.
    pub fn record_refusal(&self, identity: &Identity, failure: &Failure) {
        let Some(log) = self.api.audit().filter(|_| self.route.recorded != AuditMode::Never) else { return };
        let Some(line) = log.reserve_for_refusal(self.caller.and_then(Caller::is_refused_with)) else {
            return;
        };
        let (who, mut what) = (self.who(identity), self.what());
        if *identity == Identity::Anonymous {
            // A request without a token may have it in any parameter.
            (what.objects, what.query) = Default::default();
        }
        line.record(
            RequestRecord {
                time: &now(),
                request: &new_id(),
                who: &who,
                what: &what,
                changes: &[],
                more_changes: 0,
                status: failure.status.as_u16(),
                error: failure.status.canonical_reason(),
                streams: false,
                took_us: 0,
                shortened: false,
            }
            .fields(),
        );
    }
}

impl Audited {
    /// Reserves space for the records of a request; none where nothing is recorded.
    ///
    /// # Errors
    /// When no space is left, and the request must be recorded.
    pub async fn begin(
        request: AuditedRequest<'_>,
        identity: &Identity,
    ) -> Result<Option<Arc<Self>>, Failure> {
        let mode = request.route.recorded;
        let Some(log) = request.api.audit().filter(|log| mode.is_by(log.records_all_reads())) else {
            return Ok(None);
        };
        let unrecorded = |unrecorded: crate::audit::NotRecorded| {
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, unrecorded.to_string())
        };
        let line = log.reserve().await.map_err(unrecorded)?;
        let may_stream = matches!(
            request.route.contract.answer,
            ResponseBody::Lines(_) | ResponseBody::Socket { .. } | ResponseBody::Bytes
        );
        let end = if may_stream { Some(log.reserve().await.map_err(unrecorded)?) } else { None };
        let progress = AuditProgress { line: Some(line), end, ..AuditProgress::default() };
        Ok(Some(Arc::new(Self {
            log: log.clone(),
            id: new_id(),
            who: request.who(identity),
            what: request.what(),
            mode,
            stranger: (request.route.capability == Capability::Anonymous)
                .then(|| request.caller.and_then(Caller::is_refused_with)),
            started_at: Instant::now(),
            sent_bytes: AtomicU64::new(0),
            progress: Mutex::new(progress),
        })))
    }

    /// A change is about to be proposed. Returns its number.
    pub fn begin_change(&self, change: AuditChange) -> usize {
        let mut progress = self.progress();
        if progress.changes.len() < CHANGES_MAX {
            progress.changes.push(change);
        } else {
            progress.more_changes += 1;
        }
        progress.changes.len() + progress.more_changes as usize - 1
    }

    /// Notes the outcome of a change.
    pub fn end_change(&self, number: usize, outcome: Result<Index, &'static str>) {
        if let Some(change) = self.progress().changes.get_mut(number) {
            (change.index, change.error) = match outcome {
                Ok(index) => (Some(index.0), None),
                Err(why) => (None, Some(why)),
            };
        }
    }

    /// Notes that the response was sent to its end.
    pub fn on_sent_all(&self) {
        self.progress().sent_all = true;
    }

    /// Notes the end of a command; `exit_code` where it has exited and its client was sent that.
    pub fn on_command_ended(&self, exit_code: Option<i32>, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Relaxed);
        let mut progress = self.progress();
        (progress.sent_all, progress.exit_code) = (exit_code.is_some(), exit_code);
    }

    /// Records an action before it is taken, since it cannot be undone: the record is on disk when this returns. The outcome is recorded
    /// at the end.
    ///
    /// # Errors
    /// When it is not on disk: nothing may be done.
    pub async fn announce(&self, change: AuditChange) -> Result<(), Failure> {
        let (line, fields) = {
            let mut progress = self.progress();
            let Some(line) = progress.line.take() else { return Ok(()) };
            progress.changes.push(change);
            progress.streams = true;
            (line, self.fields(&mut progress, StatusCode::SWITCHING_PROTOCOLS.as_u16(), None))
        };
        line.record_synced(fields).await.map_err(|unrecorded| {
            let text = format!("nothing was done: its record in the audit log is not on disk: {unrecorded}");
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })
    }

    /// Records the outcome, and returns the response. Changes, and reads that reveal secrets, are answered once their record is on
    /// disk.
    pub async fn record_outcome(self: Arc<Self>, reply: Reply) -> Reply {
        let status = reply.as_ref().map_or_else(|failure| failure.status, Response::status);
        let streams = reply.as_ref().is_ok_and(|response| {
            status == StatusCode::SWITCHING_PROTOCOLS || response.body().size_hint().exact().is_none()
        });
        let (line, fields, changes) = {
            let mut progress = self.progress();
            let Some(line) = progress.line.take() else {
                // It was announced, with the status of a switch of protocols.
                progress.status = Some(status.as_u16()).filter(|_| status != StatusCode::SWITCHING_PROTOCOLS);
                drop(progress);
                return reply.map(|response| self.with_id(response));
            };
            progress.streams = streams && progress.end.is_some();
            if status.as_u16() >= 400 && !self.records_failure(&progress) {
                return reply;
            }
            let fields = self.fields(&mut progress, status.as_u16(), status.canonical_reason());
            (line, fields, !progress.changes.is_empty())
        };
        if self.mode.is_awaited() && (changes || status.as_u16() < 400) {
            if let Err(unrecorded) = line.record_synced(fields).await {
                let may_be_done = changes || self.mode == AuditMode::Change;
                let done =
                    if may_be_done { "what was asked for may have been done" } else { "nothing is told" };
                let text = format!(
                    "{done}, but its record in the audit log is not on disk yet: {unrecorded}; the server tries on, look at the state \
                     before you try again"
                );
                return Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, text));
            }
        } else {
            line.record(fields);
        }
        let response = self.with_id(reply?);
        if !streams || status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        Ok(response.map(|body| Body::new(AuditedBody { body, audited: self })))
    }

    /// Adds the header with the id of the request.
    fn with_id(&self, mut response: Response) -> Response {
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            response.headers_mut().insert(REQUEST, id);
        }
        response
    }

    /// Whether a request that has failed is recorded on its own.
    fn records_failure(&self, progress: &AuditProgress) -> bool {
        let changes_nothing = progress.changes.iter().all(|change| change.error.is_some());
        match self.stranger {
            Some(address) if changes_nothing => self.log.takes_refusal(address),
            _ => true,
        }
    }

    fn fields(&self, progress: &mut AuditProgress, status: u16, reason: Option<&'static str>) -> Vec<u8> {
        progress.changes_recorded = progress.changes.len();
        let record = RequestRecord {
            time: &now(),
            request: &self.id,
            who: &self.who,
            what: &self.what,
            changes: &progress.changes,
            more_changes: std::mem::take(&mut progress.more_changes),
            status,
            error: reason.filter(|_| status >= 400),
            streams: progress.streams,
            took_us: self.took_us(),
            shortened: false,
        };
        record.fields()
    }

    fn took_us(&self) -> u64 {
        u64::try_from(self.started_at.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn progress(&self) -> MutexGuard<'_, AuditProgress> {
        self.progress.lock().expect("nothing panics while it holds this lock")
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        let mut progress = std::mem::take(&mut *self.progress());
        if let Some(line) = progress.line.take() {
            if !self.records_failure(&progress) {
                return;
            }
            // The client left before it was answered: its changes are recorded, with as much of their outcome as is known.
            let fields = self.fields(&mut progress, 0, None);
            line.record(fields);
        } else if let Some(end) = progress.end.take().filter(|_| progress.streams) {
            let record = EndRecord {
                time: &now(),
                request: &self.id,
                who: &self.who,
                route: self.what.route,
                changes: &progress.changes[progress.changes_recorded..],
                whole: progress.sent_all,
                bytes: self.sent_bytes.load(Relaxed),
                exit_code: progress.exit_code,
                status: progress.status,
                took_us: self.took_us(),
            };
            end.record(record.fields());
        }
    }
}

/// A body whose end is recorded.
struct AuditedBody {
    body: Body,
    audited: Arc<Audited>,
}

impl HttpBody for AuditedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.audited.sent_bytes.fetch_add(bytes as u64, Relaxed);
            }
            Poll::Ready(None) => self.audited.on_sent_all(),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whether a text is the secret of a token by the look of it.
fn is_secret(text: &str) -> bool {
    let digits = text.trim().strip_prefix(SECRET_PREFIX);
    digits.is_some_and(|digits| {
        digits.len() == 2 * SECRET_BYTES && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// A new id for a request.
fn new_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static PROCESS: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let process = PROCESS.get_or_init(random_u64);
    format!("{process:016x}{:016x}", NEXT.fetch_add(1, Relaxed))
}

impl AuditMode {
    /// The audit mode of a route, from whether it changes something and which capability it needs.
    pub(super) fn of(changes: bool, capability: Capability) -> Self {
        use Capability::*;
        match capability {
            AllocExec | AllocNodeExec => Self::Change,
            // Reads, although their request has a body.
            ListJobs | ReadJob | ParseJob | ReadScaling | ListNamespaces | SearchAny => Self::Read,
            _ if changes => Self::Change,
            Anonymous => Self::Never,
            // Every caller reads its own policies, and often.
            ReadOwnAcl => Self::Read,
            secret if secret.tells_secrets() => Self::Guarded,
            _ => Self::Read,
        }
    }

    /// Whether a request of this mode is recorded; `all_reads` is whether reads that reveal no secrets are.
    fn is_by(self, all_reads: bool) -> bool {
        match self {
            Self::Never => false,
            Self::Read => all_reads,
            Self::Guarded | Self::Change => true,
        }
    }

    /// Whether an answer waits until its record is on disk.
    fn is_awaited(self) -> bool {
        matches!(self, Self::Guarded | Self::Change)
    }
}
