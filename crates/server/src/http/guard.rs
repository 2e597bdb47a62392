//! Rejects cross-site requests: any web page can have a browser send requests, also to a server on its own machine.

use std::net::IpAddr;

use hyper::{
    HeaderMap, StatusCode,
    header::{HOST, HeaderName, ORIGIN, UPGRADE},
};

use super::failure::Failure;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a change requested by a page of another site, by whichever method, and any request to a server that listens on
/// loopback under a name that is not this machine's: such a name was made to point here.
pub(crate) fn check(changes: bool, headers: &HeaderMap, local_only: bool) -> Result<(), Failure> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if local_only && !names_this_machine(host) {
        let text = format!("this server is for its own machine only, call it localhost, not `{host}`");
        return Err(Failure::new(StatusCode::FORBIDDEN, text));
    }
    // A WebSocket is opened by a GET, which a browser lets any page do.
    if (changes || headers.contains_key(UPGRADE)) && is_foreign(headers, host) {
        let text = "a web page of another site may not change anything here";
        return Err(Failure::new(StatusCode::FORBIDDEN, text));
    }
    Ok(())
}

fn names_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.is_empty() || name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn is_foreign(headers: &HeaderMap, host: &str) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("unreadable"));
    let foreign_site = text(FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let foreign_origin = text(ORIGIN).is_some_and(|origin| origin.split("://").nth(1) != Some(host));
    foreign_site || foreign_origin
}
