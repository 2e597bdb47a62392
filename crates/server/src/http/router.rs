//! From the table of routes to answers: finds the route, guards it, calls its handler, counts what came of it.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Poll,
    time::Instant,
};

use axum::{
    Router,
    extract::{RawPathParams, Request},
    response::{IntoResponse, Response},
    routing::{MethodFilter, on},
};
use hyper::{
    StatusCode, Uri,
    header::{CONNECTION, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};

use super::{
    api::Api,
    call::{Asker, Call, Reply, namespace},
    caller::Caller,
    counters::{Gauged, RouteCounters},
    failure::Failure,
    guard, gzip, held,
    query::Query,
    reply,
    routes::{NamespaceFrom, Route, Verb},
};
use crate::access::{Access, Identity};

/// What a connection is told for which only reserved room is left.
const NO_ROOM: &str = "this server, or your address, has too many connections: close some, then retry; \
    until then only paths that tell how the server is are answered";

/// The router of all routes.
pub(crate) fn router(api: &Api) -> Router {
    build(api, api.table.routes.clone())
}

pub(crate) fn build(api: &Api, routes: Vec<Route>) -> Router {
    let router = routes.into_iter().fold(Router::new(), |router, route| add(router, api.clone(), route));
    router.fallback(unknown_path).method_not_allowed_fallback(wrong_method)
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
    let _open = Gauged::new(&api.counters.requests);
    let begun = Instant::now();
    let takes_gzip = gzip::is_accepted(request.headers());
    let is_reserved = request.extensions().get::<Caller>().is_some_and(|caller| caller.is_reserved);
    let call = call(api, route, params, request, is_reserved);
    let waits = call.as_ref().is_ok_and(|call| call.query.waits());
    let reply = match call {
        Ok(call) => match freshen(route, &call).await {
            Ok(()) => unwound(route, (route.handler)(call)).await,
            Err(failure) => Err(failure),
        },
        Err(failure) => Err(failure),
    };
    let held = reply.and_then(|response| held::hold(&api.answer_room, response));
    let mut response = held.unwrap_or_else(Failure::into_response);
    if is_reserved {
        // The next one who asks how the server is needs the place.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply::stamp_contact(response.headers_mut(), api.state.engine.contact());
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    counters.answered(response.status(), (!waits).then(|| begun.elapsed()));
    if takes_gzip { gzip::compress(response) } else { response }
}

fn call(
    api: &Api,
    route: &Route,
    params: &RawPathParams,
    request: Request,
    is_reserved: bool,
) -> Result<Call, Failure> {
    if is_reserved && !route.capability.is_upkeep() {
        return Err(Failure::busy(NO_ROOM));
    }
    let (mut head, body) = request.into_parts();
    guard::check(&head.method, &head.headers, api.local_only)?;
    let query = Query::of(&head.uri, route.contract.clone())?;
    let rights = api.policy.rights(&Identity::default());
    let named = match route.namespace_from {
        NamespaceFrom::Query => namespace(&query),
        _ => "",
    };
    let access = Access::check(rights, route.capability, route.namespace_from, named)?.into();
    let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let caller = head.extensions.remove::<Caller>();
    Ok(Call::new(
        api.clone(),
        query,
        head.uri.path().to_owned(),
        params,
        head.headers,
        Asker { access, caller },
        body,
    ))
}

/// Makes sure that the answer holds everything acknowledged before it was asked for, unless the client takes an old one.
async fn freshen(route: &Route, call: &Call) -> Result<(), Failure> {
    if !route.needs_state {
        return Ok(());
    }
    let engine = &call.api.state.engine;
    let failed = |why| Failure::new(StatusCode::SERVICE_UNAVAILABLE, why);
    if call.query.is_stale() {
        return if engine.has_state() {
            Ok(())
        } else {
            Err(failed("this server has no state yet".to_owned()))
        };
    }
    engine.fresh().await.map_err(failed)
}

/// Awaits a handler; should it panic, its own request fails and no other.
async fn unwound(route: &Route, mut handler: impl Future<Output = Reply> + Unpin) -> Reply {
    std::future::poll_fn(|context| {
        // The handler is never polled again after a panic, and what it shares with others it only reads or replaces whole.
        let polled = catch_unwind(AssertUnwindSafe(|| std::pin::Pin::new(&mut handler).poll(context)));
        polled.unwrap_or_else(|_| Poll::Ready(Err(panicked(route))))
    })
    .await
}

fn panicked(route: &Route) -> Failure {
    tracing::error!(method = route.verb.as_str(), path = route.path, "a request's handler panicked");
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "the server made a mistake: its log says more")
}

async fn unknown_path(uri: Uri) -> Failure {
    let path: String = uri.path().chars().take(128).collect();
    Failure::not_found(format!("no such path: {path}"))
}

async fn wrong_method(request: Request) -> Failure {
    let path: String = request.uri().path().chars().take(128).collect();
    let text =
        format!("method {} does not apply to {path}, the Allow header names those that do", request.method());
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, text)
}
