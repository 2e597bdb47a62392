//! One request, as handlers see it.

use std::{
    any::type_name,
    sync::{Arc, Mutex, atomic::AtomicU64},
};

use axum::{body::Body, response::Response};
use berth_api::{LogDetail, failpoint};
use berth_model::{EvalId, Index, NodeId, command::Command, namespace::NAMESPACE_DEFAULT};
use hyper::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use super::{
    api::Api, audited::Audited, body, caller::Caller, depth, failure::Failure, ignored::Ignored,
    lease::Lease, nulls, propose::Proposer, query::Query, routes::RequestBody, waiters::Waiter,
};
use crate::{
    FollowFrom, SubscriptionError,
    access::{Access, CallerEvents, CallerView, Identity},
    keyring::{Kek, Keyring},
    shared::{
        AgentError, Contact, LogPosition, Metric, PlanTrace, ReadPieces, ServerChange, ServerInfo, Servers,
    },
};

/// What a handler answers.
pub(crate) type Reply = Result<Response, Failure>;

/// Bodies up to this size are parsed on the request's own task: a change of threads would cost more.
const SMALL_BYTES_MAX: usize = 16 << 10;

/// The caller of a request, and its connection.
pub(crate) struct CallerContext {
    /// What the request may reach.
    pub access: Arc<Access>,
    /// Who the caller is, by its token.
    pub identity: Identity,
    /// Ends the request when its rights change; none without ACLs.
    pub lease: Option<Arc<Lease>>,
    /// None when the request did not come over a connection.
    pub caller: Option<Caller>,
    /// None where nothing is recorded of the request.
    pub audited: Option<Arc<Audited>>,
}

/// One request.
pub(crate) struct Call {
    pub api: Api,
    pub query: Query,
    path: String,
    params: Vec<(String, String)>,
    headers: HeaderMap,
    caller_context: CallerContext,
    /// The index at which its last change was committed; 0 for none yet.
    written_index: Arc<AtomicU64>,
    ignored: Ignored,
    /// Never locked: it only makes the body `Sync`, which handlers need to hold a `Call` across awaits.
    body: Mutex<Body>,
}

impl Call {
    pub fn new(
        api: Api,
        query: Query,
        path: String,
        params: Vec<(String, String)>,
        headers: HeaderMap,
        caller_context: CallerContext,
        body: Body,
    ) -> Self {
        let (written_index, ignored) = (Arc::default(), Ignored::of(&query));
        Self {
            api,
            query,
            path,
            params,
            headers,
            caller_context,
            written_index,
            ignored,
            body: Mutex::new(body),
        }
    }

    /// The request's headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The connection by which it came; none when it did not come over one.
    pub fn caller(&self) -> Option<&Caller> {
        self.caller_context.caller.as_ref()
    }

    /// Exempts the connection from the timeout of stalled writes until its next request: the client follows a stream, which holds little
    /// memory.
    pub fn exempt_from_stall_timeout(&self) {
        self.caller().into_iter().for_each(|caller| caller.stall_exemption.set(true));
    }

    /// Counts the request among those that wait until the guard is dropped.
    pub fn begin_to_wait(&self) -> Result<Waiter, Failure> {
        self.api.waiters.begin(self.caller_context.caller.as_ref(), &self.caller_context.identity)
    }

    /// The caller's identity, by its token.
    pub fn identity(&self) -> &Identity {
        &self.caller_context.identity
    }

    /// Ends the request when its rights change; none without ACLs.
    pub fn lease(&self) -> Option<&Arc<Lease>> {
        self.caller_context.lease.as_ref()
    }

    /// What is recorded of the request; none where nothing is.
    pub fn audited(&self) -> Option<&Arc<Audited>> {
        self.caller_context.audited.as_ref()
    }

    /// What the request may reach.
    pub fn access(&self) -> &Arc<Access> {
        &self.caller_context.access
    }

    /// The latest state, as the caller sees it.
    pub fn view(&self) -> CallerView {
        let contact = self.contact();
        CallerView::new(self.api.state.view(), self.caller_context.access.clone(), contact)
    }

    /// Whether the certificates of a node were ever revoked.
    pub fn is_revoked(&self, node: NodeId) -> bool {
        self.api.state.view().store.acl().joins().revoked_at(node).is_some()
    }

    /// The latest state, with what this request wrote at that index.
    ///
    /// # Errors
    /// When this server is so far behind the leader that it has not applied it yet.
    pub fn view_since(&self, written: Index) -> Result<CallerView, Failure> {
        let view = self.view();
        if view.log_index() >= written {
            return Ok(view);
        }
        let text = format!(
            "the change was written at index {written}, but this server is behind the leader and does not know yet what came of it: \
             look again in a moment"
        );
        Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, text))
    }

    /// A function that returns the latest state at the time it is called, as the caller sees it: for work that is done once the body
    /// has arrived, which may take long.
    pub fn later_view(&self) -> impl Fn() -> CallerView + Send + use<> {
        let (state, access) = (self.api.state.clone(), self.caller_context.access.clone());
        move || {
            let contact = state.engine.contact();
            CallerView::new(state.view(), access.clone(), contact)
        }
    }

    /// Follows changes as the caller sees them.
    ///
    /// # Errors
    /// When changes from there on are no longer kept.
    pub fn follow(&self, from: FollowFrom) -> Result<CallerEvents, SubscriptionError> {
        let subscription = self.api.state.events.subscribe(from)?;
        Ok(CallerEvents::new(subscription, self.caller_context.access.clone()))
    }

    /// Changes the state, and says where that was committed.
    ///
    /// # Errors
    /// When the request may not, or it cannot be done.
    pub async fn propose(&self, command: Command) -> Result<Index, Failure> {
        self.proposer().propose(command).await
    }

    /// Changes the state for this request, even after its end.
    pub fn proposer(&self) -> Proposer {
        let CallerContext { access, lease, audited, .. } = &self.caller_context;
        let (lease, audited, written_index) = (lease.clone(), audited.clone(), self.written_index.clone());
        Proposer::new(self.api.state.clone(), access.clone(), lease, audited, written_index)
    }

    /// The index at which the request's last change was committed, updated also after the response; 0 for none yet.
    pub fn written_index(&self) -> Arc<AtomicU64> {
        self.written_index.clone()
    }

    /// The parameters and members of the request that have no effect; complete once the body is read.
    pub fn ignored(&self) -> Ignored {
        self.ignored.clone()
    }

    /// A new random id.
    pub fn mint_id(&self) -> u128 {
        self.api.state.engine.mint_id()
    }

    /// A new evaluation's id.
    pub fn mint_eval(&self) -> EvalId {
        EvalId(self.mint_id())
    }

    /// The latest plans, of an evaluation or of all, for jobs that the caller sees, with the nodes that it sees.
    pub fn plans(&self, eval: Option<EvalId>) -> Vec<PlanTrace> {
        let mut plans = self.api.state.engine.plans(eval);
        plans.retain(|plan| self.caller_context.access.reaches(&plan.job.namespace));
        let view = self.view();
        for plan in &mut plans {
            plan.refused_nodes.retain(|id| view.node(*id).is_some());
        }
        plans
    }

    /// Who this server is.
    pub fn server(&self) -> &ServerInfo {
        &self.api.state.server
    }

    /// The term and the last applied record of the log.
    pub fn log_position(&self) -> LogPosition {
        self.api.state.engine.log_position()
    }

    /// Whether changes can be written at the moment; if not, why, for users.
    pub fn writable(&self) -> Result<(), String> {
        self.api.state.engine.writable()
    }

    /// Whether this server's own disk takes what would be written; if not, why, for users.
    pub fn disk(&self) -> Result<(), String> {
        self.api.state.engine.disk()
    }

    /// Whether there is anything to be read, however old.
    pub fn has_state(&self) -> bool {
        self.api.state.engine.has_state()
    }

    /// The keyring. Variables that it decrypts come from a view, so the caller may read them.
    pub fn keyring(&self) -> &Arc<Keyring> {
        &self.api.state.keyring
    }

    /// Gives a key-encryption key to the other servers, before anything is encrypted with it.
    ///
    /// # Errors
    /// Why too few have it: for users.
    pub async fn share_kek(&self, kek: &Kek) -> Result<(), String> {
        self.api.state.engine.share_kek(kek).await
    }

    /// The servers.
    pub fn servers(&self) -> Servers {
        self.api.state.engine.servers()
    }

    /// How fresh this server's state is.
    pub fn contact(&self) -> Contact {
        self.api.state.engine.contact()
    }

    /// Changes the membership of the cluster.
    ///
    /// # Errors
    /// Why it was not done, or may have been: for users.
    pub async fn change_servers(&self, change: ServerChange) -> Result<(), String> {
        self.api.state.engine.change_servers(change).await
    }

    /// Follows the log of another server.
    ///
    /// # Errors
    /// When it is not reached, or does not send its log.
    pub async fn server_log(&self, server: u64, detail: LogDetail) -> Result<ReadPieces, AgentError> {
        self.api.state.engine.server_log(server, detail).await
    }

    /// Joins the cluster of the server that listens at an address.
    ///
    /// # Errors
    /// Why this server is not in one cluster with it: for users.
    pub async fn join_servers(&self, address: &str) -> Result<(), String> {
        self.api.state.engine.join_servers(address).await
    }

    /// The metrics of the engine. None of them names an object of a namespace.
    pub fn engine_metrics(&self) -> Vec<Metric> {
        self.api.state.engine.metrics()
    }

    /// The target of the request without `wait`: path and parameters.
    pub fn target(&self) -> String {
        let parameters =
            self.query.pairs().filter(|(name, _)| !matches!(name.as_str(), "index" | "wait" | "stale"));
        target(&self.path, parameters.map(|(name, value)| (name.as_str(), value.as_str())))
    }

    /// A part of the path, decoded. Empty when the route's template does not name it.
    pub fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The namespace that the request is about, `*` for all.
    pub fn namespace(&self) -> &str {
        namespace(&self.query)
    }

    /// Reads the body and parses its JSON text with `read`, after a check of its depth and number of values. A large one is parsed on a
    /// thread where it blocks no other request.
    pub async fn body<T: Send + 'static>(
        &mut self,
        bytes_max: usize,
        read: impl FnOnce(&[u8]) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (is_small, work) = self.reading(bytes_max, read).await?;
        if is_small { work() } else { self.api.heavy.run(work).await }
    }

    /// The same for what may take seconds however small the text is.
    pub async fn body_apart<T: Send + 'static>(
        &mut self,
        bytes_max: usize,
        read: impl FnOnce(&[u8]) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (_, work) = self.reading(bytes_max, read).await?;
        self.api.slow.run(work).await
    }

    /// Reads the body: whether it is small, and what checks and parses it.
    async fn reading<T, F: FnOnce(&[u8]) -> Result<T, Failure>>(
        &mut self,
        bytes_max: usize,
        read: F,
    ) -> Result<(bool, impl FnOnce() -> Result<T, Failure> + use<T, F>), Failure> {
        debug_assert!(self.query.contract().body.is_some(), "the table of routes names no body");
        let body = self.raw_body();
        let text = body::read(&self.api, &self.headers, body, bytes_max).await?;
        let depth_max = self.api.limits.json_depth_max;
        let is_small = text.bytes.len() <= SMALL_BYTES_MAX;
        let work = move || {
            failpoint("http.body", &text.bytes);
            depth::check(&text.bytes, depth_max).and_then(|()| read(&text.bytes))
        };
        Ok((is_small, work))
    }

    /// The body, to be read as it comes.
    pub fn raw_body(&mut self) -> Body {
        self.body.get_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Reads the body.
    pub async fn json<T: DeserializeOwned + Send + 'static>(&mut self) -> Result<T, Failure> {
        self.check_body::<T>();
        let ignored = self.ignored();
        self.body(self.api.limits.body_bytes_max, move |text| parse(text, &ignored)).await
    }

    /// Reads a body in which null is a value, and does not mean absent.
    pub async fn json_with_nulls<T: DeserializeOwned + Send + 'static>(&mut self) -> Result<T, Failure> {
        self.check_body::<T>();
        let ignored = self.ignored();
        self.body(self.api.limits.body_bytes_max, move |text| parse_all(text, &ignored)).await
    }

    /// Reads the body, which may be empty.
    pub async fn json_or_default<T: DeserializeOwned + Default + Send + 'static>(
        &mut self,
    ) -> Result<T, Failure> {
        self.check_body::<T>();
        let ignored = self.ignored();
        let read = move |text: &[u8]| match text.trim_ascii() {
            b"" => Ok(T::default()),
            _ => parse(text, &ignored),
        };
        self.body(self.api.limits.body_bytes_max, read).await
    }

    /// The table of routes names the type of every body; the description of the API comes from there.
    fn check_body<T>(&self) {
        let declared = match self.query.contract().body {
            Some(RequestBody::Json(shape)) => Some(shape.type_name),
            _ => None,
        };
        debug_assert_eq!(declared, Some(type_name::<T>()), "the table of routes names another body");
    }
}

/// The namespace that a query is about, `*` for all.
pub(crate) fn namespace(query: &Query) -> &str {
    query.text("namespace").unwrap_or(NAMESPACE_DEFAULT)
}

/// Reads JSON that came in a body, and notes what is ignored of it. Members that are null are absent.
pub(crate) fn parse<T: DeserializeOwned>(text: &[u8], ignored: &Ignored) -> Result<T, Failure> {
    parse_all(&nulls::blanked(text), ignored)
}

fn parse_all<T: DeserializeOwned>(text: &[u8], ignored: &Ignored) -> Result<T, Failure> {
    ignored.read(text).map_err(|error| Failure::bad_request(format!("decode the request's body: {error}")))
}

/// A path and parameters as one text. With lengths, since any text may stand in any of them: no two requests have the same.
fn target<'q>(path: &str, parameters: impl Iterator<Item = (&'q str, &'q str)>) -> String {
    let part = |text: &str| format!("{}:{text}", text.len());
    parameters.fold(part(path), |target, (name, value)| format!("{target}&{}={}", part(name), part(value)))
}

#[cfg(test)]
mod tests {
    use super::target;

    #[test]
    fn no_value_is_taken_for_another_parameter() {
        let one = target("/v1/jobs", [("namespace", "default"), ("prefix", "web")].into_iter());
        for value in ["default\0prefix=web", "default&6:prefix=3:web", "default&prefix=web"] {
            assert_ne!(one, target("/v1/jobs", [("namespace", value)].into_iter()));
        }
    }
}
