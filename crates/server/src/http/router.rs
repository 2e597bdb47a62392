//! Dispatches requests by the table of routes: finds the route, checks the caller, calls the handler, and counts the outcome.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{RawPathParams, Request},
    response::Response,
    routing::{MethodFilter, on},
};
use hyper::{
    HeaderMap, Method, StatusCode,
    header::{CONNECTION, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};

use berth_model::Timestamp;

use super::{
    api::Api,
    audited::{Audited, AuditedRequest},
    call::{Call, CallerContext, Reply, namespace},
    caller::Caller,
    cluster,
    counters::RouteCounters,
    credentials,
    failure::{Failure, asks_for_json},
    guard, gzip,
    ignored::Ignored,
    lease::{AsOf, Lease},
    query::Query,
    reply,
    routes::{Capability, NamespaceFrom, Route, Verb},
    unsent,
};
use crate::{
    access::{Access, BadToken, Identity, Rights, hash},
    clock,
    gauge_guard::GaugeGuard,
    shared::{Contact, View},
    workload::{TaskAt, Workload, is_token},
};

/// The response to a connection for which only a reserved slot is left.
const NO_ROOM: &str = "this server, or your address, has too many connections: close some, then retry, or have the operator raise \
     --http-connections-max or --http-connections-address; \
    until then only paths that tell how the server is are answered";

/// A server without contact to a leader for longer does not know the current rights.
const CONTACT_MAX: Duration = Duration::from_secs(1);

/// What a task is answered that shows no token.
const NO_TOKEN_OF_TASK: &str = "a task that asks here shows who it is: send the token of one of its identities as \
    X-Nomad-Token, or as Authorization: Bearer";
/// And one that shows that of another task.
const TOKEN_OF_OTHER: &str = "this socket is another task's than the token: each task has its own, api.sock in its directory of secrets";

/// The router of all routes.
pub(crate) fn router(api: &Api) -> Router {
    build(api, api.table.routes.clone())
}

pub(crate) fn build(api: &Api, routes: Vec<Route>) -> Router {
    let router = routes.into_iter().fold(Router::new(), |router, route| add(router, api.clone(), route));
    let (paths, methods) = (api.clone(), api.clone());
    router
        .fallback(move |request: Request| async move { no_route(&paths, &request, unknown_path) })
        .method_not_allowed_fallback(move |request: Request| async move {
            no_route(&methods, &request, wrong_method)
        })
}

/// Answers a request without a route, which counts against the rate limits like any other.
fn no_route(api: &Api, request: &Request, why: impl FnOnce(&Request) -> Failure) -> Response {
    let caller = request.extensions().get::<Caller>();
    let counted = api.rates.by_origin(caller, || has_valid_token(api, request.headers()));
    counted.err().unwrap_or_else(|| why(request)).answer(request.headers())
}

/// Whether a request has a valid token.
fn has_valid_token(api: &Api, headers: &HeaderMap) -> bool {
    let secret = credentials::secret(headers).ok().flatten();
    let view = api.state.view();
    let token = secret.and_then(|secret| view.store.acl().token_of(&hash(secret)));
    token.is_some_and(|token| !token.is_expired(clock::now()))
}

fn add(router: Router, api: Api, route: Route) -> Router {
    let (path, methods) = (route.path, filter(route.verb));
    let counters = api.counters.route(path, route.verb.as_str());
    let served = Arc::new(Served { route, counters, api });
    let handler = move |params: RawPathParams, request: Request| {
        let served = served.clone();
        async move { dispatch(&served, &params, request).await }
    };
    router.route(path, on(methods, handler))
}

fn filter(verb: Verb) -> MethodFilter {
    match verb {
        Verb::Get => MethodFilter::GET,
        Verb::Put => MethodFilter::PUT.or(MethodFilter::POST),
        Verb::Delete => MethodFilter::DELETE,
    }
}

/// A route in service.
struct Served {
    route: Route,
    counters: Arc<RouteCounters>,
    api: Api,
}

async fn dispatch(served: &Served, params: &RawPathParams, request: Request) -> Response {
    let Served { route, counters, api } = served;
    let _open = GaugeGuard::new(&api.counters.requests);
    let started_at = Instant::now();
    let takes_gzip = gzip::is_accepted(request.headers());
    let asks_for_json = asks_for_json(request.headers());
    let caller = request.extensions().get::<Caller>().cloned();
    let is_reserved = caller.as_ref().is_some_and(|caller| caller.is_reserved);
    let call = call(api, route, params, request, is_reserved).await;
    let waits = call.as_ref().is_ok_and(|(call, _)| call.query.waits());
    let mut written_index = Arc::default();
    let mut ignored = Ignored::default();
    let reply = match call {
        Ok((call, is_fresh)) => {
            let audited = call.audited().cloned();
            (written_index, ignored) = (call.written_index(), call.ignored());
            let reply = answer(route, call, is_fresh).await;
            match audited {
                Some(audited) => audited.record_outcome(reply).await,
                None => reply,
            }
        }
        Err(failure) => Err(failure),
    };
    let reply = reply.and_then(|response| unsent::hold(&api.answer_budget, response));
    let mut response = reply.unwrap_or_else(|failure| failure.in_form(asks_for_json));
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        // The work that was to take over the connection is dropped.
        drop(caller.and_then(|caller| caller.takeover()));
    }
    if is_reserved {
        // The next health check needs the slot.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if response.status().is_success() {
        reply::stamp_contact_of(response.headers_mut(), &*api.state.engine);
        reply::stamp_written(response.headers_mut(), AtomicU64::load(&written_index, Ordering::Relaxed));
    }
    if let Some(ignored) = ignored.names() {
        reply::stamp_ignored(response.headers_mut(), &ignored);
    }
    cluster::stamp(response.headers_mut(), cluster_id(api));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    counters.on_answer(response.status(), (!waits).then(|| started_at.elapsed()));
    if takes_gzip { gzip::compress(response) } else { response }
}

/// The cluster that this server belongs to; 0 for none yet.
fn cluster_id(api: &Api) -> u128 {
    api.state.view().store.cluster().id
}

async fn call(
    api: &Api,
    route: &Route,
    params: &RawPathParams,
    request: Request,
    is_reserved: bool,
) -> Result<(Call, bool), Failure> {
    if is_reserved && !route.capability.is_upkeep() {
        return Err(Failure::busy(NO_ROOM));
    }
    let (mut head, body) = request.into_parts();
    let caller = head.extensions.remove::<Caller>();
    if route.is_metered {
        api.rates.by_origin(caller.as_ref(), || has_valid_token(api, &head.headers))?;
    }
    let of_task = caller.as_ref().and_then(|caller| caller.of_task.as_deref());
    // No browser comes by a task's own socket.
    guard::check(route.changes, &head.headers, api.local_only && of_task.is_none())?;
    cluster::check(&head.headers, || cluster_id(api))?;
    let query = Query::of(&head.uri, route.contract.clone())?;
    check_region(&query, &api.state.server.region)?;
    let fresh = Fresh { api, route, stale: query.is_stale() };
    let secret = credentials::secret(&head.headers)?;
    let namespace_asked = match route.namespace_from {
        NamespaceFrom::Query => namespace(&query),
        _ => "",
    };
    let params: Vec<_> = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let audited_request = AuditedRequest {
        api,
        route,
        method: head.method.as_str(),
        query: &query,
        params: &params,
        caller: caller.as_ref(),
        namespace: namespace_asked,
    };
    let allowed =
        authorize(&fresh, secret, namespace_asked, of_task).await.inspect_err(|(identity, failure)| {
            if matches!(failure.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                audited_request.record_refusal(identity, failure);
            }
        });
    let Allowed { identity, access, rights, as_of, is_fresh } = allowed.map_err(|(_, failure)| failure)?;
    if route.changes && head.method == Method::HEAD {
        let text = "this changes something, which a HEAD must not: ask with another method";
        return Err(Failure::new(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    if route.is_metered {
        api.rates.by_token(caller.as_ref(), &identity)?;
    }
    let audited = Audited::begin(audited_request, &identity).await?;
    // A route that needs no rights is not affected by their end.
    let is_watched = !api.policy.is_open() && route.capability != Capability::Anonymous;
    let lease = is_watched.then(|| api.leases.grant(identity.clone(), rights, as_of));
    let body = if let Some(lease) = &lease { lease.guard(body) } else { body };
    let call = Call::new(
        api.clone(),
        query,
        head.uri.path().to_owned(),
        params,
        head.headers,
        CallerContext { access, identity, lease, caller, audited },
        body,
    );
    Ok((call, is_fresh))
}

/// Refuses requests to another region: they cannot be forwarded.
fn check_region(query: &Query, own: &str) -> Result<(), Failure> {
    match query.region() {
        Some(requested) if requested != own => {
            let cut: String = requested.chars().take(64).collect();
            let text = format!("there is no path to region `{cut}`: this server is of region `{own}`");
            Err(Failure::bad_request(text))
        }
        _ => Ok(()),
    }
}

/// Calls the handler, and ends it when the caller's rights end.
async fn answer(route: &Route, call: Call, is_fresh: bool) -> Reply {
    let lease = call.lease().cloned();
    let handled = async {
        if !is_fresh {
            Fresh { api: &call.api, route, stale: call.query.is_stale() }.wait().await?;
        }
        catch_panics(route, (route.handler)(call)).await
    };
    let Some(lease) = lease else { return handled.await };
    // A change that has begun is answered with its outcome, also if it ends the caller's own rights (a token that revokes itself): it
    // ends soon. A request that waits for an index does not, whatever its method.
    let response = if !route.changes || route.contract.waits() {
        tokio::select! {
            reply = handled => reply?,
            () = lease.ended() => return Err(Lease::failure()),
        }
    } else {
        handled.await?
    };
    Ok(lease.guard_answer(response))
}

/// The result of the check of a request.
struct Allowed {
    identity: Identity,
    access: Arc<Access>,
    rights: Arc<Rights>,
    as_of: AsOf,
    is_fresh: bool,
}

/// Checks who the caller is and whether it may make the request in a namespace, by all that is acknowledged now: a token that was just
/// created through another server is accepted, and one that was just revoked is not. A refusal has the identity for the audit log, as
/// far as it is known.
async fn authorize(
    fresh: &Fresh<'_>,
    secret: Option<&str>,
    namespace: &str,
    of_task: Option<&TaskAt>,
) -> Result<Allowed, (Identity, Failure)> {
    let Fresh { api, route, .. } = fresh;
    let is_fresh = fresh.before_rights().await.map_err(|failure| (Identity::Anonymous, failure))?;
    let (view, at) = (api.state.view(), clock::now());
    let as_of = AsOf { index: view.store.acl().rights_index(), at };
    if let Some(task) = of_task {
        let verified = authenticate(api, secret, task, &view, at).await;
        verified.map_err(|failure| (Identity::Anonymous, failure))?;
    }
    // A route that needs no token ignores an invalid one.
    let is_for_all = route.capability == Capability::Anonymous;
    let identity = match identify(api, secret, &view, at).await {
        Err(_) if is_for_all => credentials::identity(secret),
        identity => identity.map_err(|bad| (Identity::Anonymous, bad.into()))?,
    };
    let by = if is_for_all { Identity::Anonymous } else { identity.clone() };
    let checked = rights(api, by, view, at).await.and_then(|rights| {
        let access = Access::check(rights.clone(), route.capability, route.namespace_from, namespace);
        let access = access.map_err(|denied| explain_denial(denied.into(), api, &identity))?;
        Ok((access.into(), rights))
    });
    match checked {
        Ok((access, rights)) => Ok(Allowed { identity, access, rights, as_of, is_fresh }),
        Err(failure) => Err((identity, failure)),
    }
}

/// Checks the token of a request by a task's socket, which is required even without ACLs, and must not be that of another task.
///
/// # Errors
/// Without a token, or when it is invalid or another task's.
async fn authenticate(
    api: &Api,
    secret: Option<&str>,
    task: &TaskAt,
    view: &Arc<View>,
    now: Timestamp,
) -> Result<(), Failure> {
    let secret = secret.ok_or_else(|| Failure::new(StatusCode::UNAUTHORIZED, NO_TOKEN_OF_TASK))?;
    if is_token(secret) {
        let workload = workload(api, secret, view, now).await?;
        return if task.is(&workload) {
            Ok(())
        } else {
            Err(Failure::new(StatusCode::FORBIDDEN, TOKEN_OF_OTHER))
        };
    }
    let token = view.store.acl().token_of(&hash(secret)).ok_or(BadToken::Unknown)?;
    if token.is_expired(now) { Err(BadToken::Expired.into()) } else { Ok(()) }
}

/// What a caller may do.
async fn rights(api: &Api, by: Identity, view: Arc<View>, at: Timestamp) -> Result<Arc<Rights>, Failure> {
    if let Some(rights) = api.policy.known(&by, view.store.acl(), at)? {
        return Ok(rights);
    }
    let policy = api.policy.clone();
    Ok(api.heavy.run(move || policy.rights(&by, view.store.acl(), at)).await?)
}

/// The identity of a secret. Without ACLs it is not checked.
async fn identify(
    api: &Api,
    secret: Option<&str>,
    view: &Arc<View>,
    now: Timestamp,
) -> Result<Identity, BadToken> {
    let Some(token) = secret.filter(|secret| !api.policy.is_open() && is_token(secret)) else {
        return Ok(credentials::identity(secret));
    };
    workload(api, token, view, now).await.map(Identity::Workload)
}

/// The task that a token identifies. Verifying a signature takes long: tokens that were not verified before go to another thread.
async fn workload(
    api: &Api,
    token: &str,
    view: &Arc<View>,
    now: Timestamp,
) -> Result<Arc<Workload>, BadToken> {
    let identified = if api.workloads.has_seen(token) {
        api.workloads.identify(token, &view.store, now)
    } else {
        let (workloads, view, token) = (api.workloads.clone(), view.clone(), token.to_owned());
        api.heavy.run(move || workloads.identify(&token, &view.store, now)).await
    };
    identified.map_err(BadToken::Workload)
}

/// A caller without a token is informed that one is needed. The status is that of any refusal: clients made for Nomad know no other.
fn explain_denial(failure: Failure, api: &Api, identity: &Identity) -> Failure {
    if *identity == Identity::Anonymous && !api.policy.is_open() {
        let text = format!("{}, and no token was given", failure.text);
        return Failure::new(failure.status, text);
    }
    failure
}

impl From<BadToken> for Failure {
    fn from(bad: BadToken) -> Self {
        Self::new(StatusCode::FORBIDDEN, bad.to_string())
    }
}

/// Waits until the state has everything acknowledged before the request, unless the client accepts an old state.
struct Fresh<'f> {
    api: &'f Api,
    route: &'f Route,
    stale: bool,
}

impl Fresh<'_> {
    /// Waits before the rights are looked up, where they matter. Returns whether the state is fresh now.
    async fn before_rights(&self) -> Result<bool, Failure> {
        if self.api.policy.is_open() || self.route.capability == Capability::Anonymous {
            return Ok(false);
        }
        if self.needs_fresh_rights() {
            return self.confirm().await.map(|()| true);
        }
        match self.wait().await {
            Ok(()) => Ok(true),
            // The status of the servers must be available when they are in trouble, too.
            Err(_) if self.route.capability.is_upkeep() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Whether a revoked token must be refused even without contact to other servers: the request reveals secrets, or changes the
    /// membership.
    fn needs_fresh_rights(&self) -> bool {
        let Self { route, stale, .. } = self;
        (*stale && route.capability.tells_secrets()) || (!route.needs_state && route.changes)
    }

    /// Waits until the rights are at most a moment old. An old state is enough for the rest.
    async fn confirm(&self) -> Result<(), Failure> {
        let engine = &self.api.state.engine;
        let Contact { known_leader, last_contact } = engine.contact();
        // The leader itself has a contact of zero; for it `fresh` below is cheap, as it holds a lease.
        let is_led = known_leader && !last_contact.is_zero() && last_contact < CONTACT_MAX;
        if engine.has_state() && is_led {
            return Ok(());
        }
        engine.fresh().await.map_err(|why| Failure::new(StatusCode::SERVICE_UNAVAILABLE, why))
    }

    async fn wait(&self) -> Result<(), Failure> {
        if !self.route.needs_state {
            return Ok(());
        }
        let engine = &self.api.state.engine;
        let failed = |why| Failure::new(StatusCode::SERVICE_UNAVAILABLE, why);
        if self.stale {
            return if engine.has_state() {
                Ok(())
            } else {
                Err(failed("this server has no state yet".to_owned()))
            };
        }
        engine.fresh().await.map_err(failed)
    }
}

/// Awaits a handler; should it panic, its own request fails and no other.
async fn catch_panics(route: &Route, mut handler: impl Future<Output = Reply> + Unpin) -> Reply {
    std::future::poll_fn(|context| {
        // The handler is never polled again after a panic, and what it shares with others it only reads or replaces whole.
        let outcome = catch_unwind(AssertUnwindSafe(|| std::pin::Pin::new(&mut handler).poll(context)));
        outcome.unwrap_or_else(|_| Poll::Ready(Err(panicked(route))))
    })
    .await
}

fn panicked(route: &Route) -> Failure {
    tracing::error!(method = route.verb.as_str(), path = route.path, "a request's handler panicked");
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error: the server's log has the details")
}

fn unknown_path(request: &Request) -> Failure {
    let path: String = request.uri().path().chars().take(128).collect();
    Failure::not_found(format!("no such path: {path}"))
}

fn wrong_method(request: &Request) -> Failure {
    let path: String = request.uri().path().chars().take(128).collect();
    let text =
        format!("method {} does not apply to {path}, the Allow header names those that do", request.method());
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, text)
}
