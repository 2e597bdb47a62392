//! Successful responses, and their headers with the index and the freshness of the state.

use std::any::type_name;

use axum::{body::Body, response::Response};
use berth_controller::NodeRecovery;
use berth_model::Index;
use bytes::Bytes;
use hyper::{
    HeaderMap,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue},
};
use serde::Serialize;

use super::{
    call::Reply, failure::Failure, json_text::JsonText, query::Query, response_cache::WholeBody,
    routes::ResponseBody,
};
use crate::{
    access::CallerView,
    http::text::Text,
    shared::{Contact, Engine},
};

/// The type of all JSON answers.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The type of plain text.
pub(crate) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

const INDEX: HeaderName = HeaderName::from_static("x-nomad-index");
const KNOWN_LEADER: HeaderName = HeaderName::from_static("x-nomad-knownleader");
const LAST_CONTACT: HeaderName = HeaderName::from_static("x-nomad-lastcontact");
const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-nomad-nexttoken");
const UNCONFIRMED: HeaderName = HeaderName::from_static("x-berth-unconfirmed");
const IGNORED: HeaderName = HeaderName::from_static("x-berth-ignored");
const HELD: HeaderName = HeaderName::from_static("x-berth-held");

/// Largest age of a contact that is reported, also for none: clients convert it to nanoseconds, which must not overflow.
const LAST_CONTACT_MS_MAX: u64 = 86_400_000;

/// The state that a response shows, where that is newer than the one that it was created for.
#[derive(Clone)]
pub(crate) struct ShownView(pub CallerView);

/// A value as JSON, indented with `pretty`.
pub(crate) fn json<T: Serialize>(query: &Query, value: &T) -> Reply {
    check_answer::<T>(query);
    let pretty = query.flag("pretty", false)?;
    let mut text = JsonText::default();
    text.add(value, pretty).map_err(|error| {
        Failure::new(hyper::StatusCode::INTERNAL_SERVER_ERROR, format!("encode the answer: {error}"))
    })?;
    Ok(whole(text.into_bytes()))
}

/// A response of complete JSON text.
pub(crate) fn whole(text: Bytes) -> Response {
    let mut response = with_type(Body::from(text.clone()), JSON);
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    response.extensions_mut().insert(WholeBody(text));
    response
}

/// The table of routes names the type of every answer; the description of the API comes from there.
pub(crate) fn check_answer<T>(query: &Query) {
    let declared = match &query.contract().answer {
        ResponseBody::Json(shape) => shape.type_name,
        _ => "nothing in JSON",
    };
    debug_assert_eq!(declared, owned_name::<T>(), "the table of routes names another answer");
}

/// The name of a type without the parameter for borrowed text.
fn owned_name<T>() -> String {
    type_name::<T>().replace(&format!("<{}>", type_name::<Text<'_>>()), "")
}

/// A body of some type.
pub(crate) fn with_type(body: Body, content_type: HeaderValue) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Adds the index and freshness of a response. Clients read the index as a number, and fail without it.
pub(crate) fn stamp(headers: &mut HeaderMap, index: Index, view: &CallerView) {
    stamp_index(headers, index);
    stamp_moment(headers, view);
}

/// Adds the index of the last change; never 0, since a client that waits for what comes after 0 is answered at once.
pub(crate) fn stamp_index(headers: &mut HeaderMap, index: Index) {
    headers.insert(INDEX, HeaderValue::from(index.0.max(1)));
}

/// The same for a read. The index of what never existed is 0, as in Nomad, except for a request with an index: its client would wait
/// for what comes after 0, be answered at once, and so ask again and again.
pub(crate) fn stamp_read(headers: &mut HeaderMap, index: Index, view: &CallerView, waits: bool) {
    stamp(headers, index, view);
    if index.0 == 0 && !waits {
        headers.insert(INDEX, HeaderValue::from(0));
    }
}

/// Adds the index of a committed change, unless the response has an index already.
pub(crate) fn stamp_written(headers: &mut HeaderMap, written_index: u64) {
    if written_index > 0 && !headers.contains_key(INDEX) {
        headers.insert(INDEX, HeaderValue::from(written_index));
    }
}

/// Names the parameters and members of the body that changed nothing.
pub(crate) fn stamp_ignored(headers: &mut HeaderMap, names: &str) {
    if let Ok(names) = HeaderValue::from_str(names) {
        headers.insert(IGNORED, names);
    }
}

/// Adds whether there is a leader and the age of the last contact, unless the response has both. Clients fail without them.
pub(crate) fn stamp_contact_of(headers: &mut HeaderMap, engine: &dyn Engine) {
    if !headers.contains_key(KNOWN_LEADER) {
        stamp_contact(headers, engine.contact());
    }
}

fn stamp_contact(headers: &mut HeaderMap, contact: Contact) {
    let text = if contact.known_leader { "true" } else { "false" };
    headers.insert(KNOWN_LEADER, HeaderValue::from_static(text));
    let ago_ms = u64::try_from(contact.last_contact.as_millis()).unwrap_or(u64::MAX);
    // Clients read it as a signed number of milliseconds.
    headers.insert(LAST_CONTACT, HeaderValue::from(ago_ms.min(LAST_CONTACT_MS_MAX)));
}

/// Adds the freshness of the state and the numbers of unconfirmed and held nodes, which change independently of what is read.
pub(crate) fn stamp_moment(headers: &mut HeaderMap, view: &CallerView) {
    stamp_contact(headers, view.contact());
    let NodeRecovery { unconfirmed, held, .. } = view.recovery();
    for (name, nodes) in [(UNCONFIRMED, *unconfirmed), (HELD, *held)] {
        match nodes {
            0 => headers.remove(name),
            nodes => headers.insert(name, HeaderValue::from(nodes)),
        };
    }
}

/// Says where the next page begins.
pub(crate) fn stamp_next(headers: &mut HeaderMap, token: &str) -> Result<(), Failure> {
    let value = HeaderValue::from_str(token)
        .map_err(|_| Failure::bad_request("the next page begins at an id that a header cannot hold"))?;
    headers.insert(NEXT_TOKEN, value);
    Ok(())
}
