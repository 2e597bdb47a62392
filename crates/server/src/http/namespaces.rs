//! Namespaces: there is one.

use berth_api::http::Namespace;

use super::{
    call::{Call, Reply},
    failure::Failure,
    reply,
};

/// The only namespace, and that of requests that name none.
pub(super) const DEFAULT: &str = "default";
/// Stands for all namespaces.
pub(super) const ALL: &str = "*";

fn default_namespace() -> Namespace {
    Namespace { name: DEFAULT.to_owned(), description: "Default shared namespace".to_owned() }
}

/// `GET /v1/namespaces`
pub(super) async fn list(call: Call) -> Reply {
    reply::json(&call.query, &[default_namespace()])
}

/// `GET /v1/namespace/:name`
pub(super) async fn read(call: Call) -> Reply {
    check_exists(call.param("name")).map_err(|_| Failure::not_found("namespace not found"))?;
    reply::json(&call.query, &default_namespace())
}

/// Refuses a namespace in which nothing can be made.
pub(super) fn check_exists(namespace: &str) -> Result<(), Failure> {
    if namespace == DEFAULT {
        return Ok(());
    }
    let cut: String = namespace.chars().take(64).collect();
    Err(Failure::bad_request(format!("namespace `{cut}` does not exist: there is only `{DEFAULT}` for now")))
}
