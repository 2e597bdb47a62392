//! `PUT /v1/search`: what begins with a text.

use berth_api::http::{Found, Search};
use berth_model::{AllocId, EvalId, NodeId};

use super::{MATCHES_MAX, asked};
use crate::{
    http::{
        call::{Call, Reply},
        ids::IdRange,
        reply,
    },
    nomad::{jobs::Jobs, namespaces, pools},
    state::View,
};

/// Where to look.
const CONTEXTS: &[&str] = &["allocs", "evals", "jobs", "namespaces", "node_pools", "nodes"];

/// `PUT /v1/search`
pub(in crate::nomad) async fn prefix(mut call: Call) -> Reply {
    let search: Search = call.json().await?;
    let contexts = asked(&search.context, CONTEXTS)?;
    let namespace = call.namespace().to_owned();
    let view = call.api.state.view();
    let found = call.api.heavy.run(move || found(&view, &contexts, &namespace, &search.prefix)).await;
    let mut response = reply::json(&call.query, &found)?;
    let view = call.api.state.view();
    reply::stamp(response.headers_mut(), view.index, &view);
    Ok(response)
}

fn found(view: &View, contexts: &[&str], namespace: &str, prefix: &str) -> Found {
    let mut found = Found::default();
    for context in contexts {
        let mut matches = matches(view, context, namespace, prefix);
        found.truncations.insert((*context).to_owned(), matches.len() > MATCHES_MAX);
        matches.truncate(MATCHES_MAX);
        found.matches.insert((*context).to_owned(), matches);
    }
    found
}

/// One more than are told, if there are so many.
fn matches(view: &View, context: &str, namespace: &str, prefix: &str) -> Vec<String> {
    let store = &view.store;
    let is_of = |own: &str| namespace == namespaces::ALL || namespace == own;
    // What is not the beginning of an id begins none.
    let ids = IdRange::parse(prefix);
    let span = ids.iter();
    let limit = MATCHES_MAX + 1;
    match context {
        "jobs" => {
            Jobs::of(namespace, prefix).all(view).map(|row| row.key.id.to_string()).take(limit).collect()
        }
        "allocs" => {
            let ids = span.flat_map(|ids| store.allocs().range(ids.span(AllocId)));
            let own = ids.filter(|(_, slot)| {
                let row = store.allocs().row(*slot).and_then(|row| store.jobs().row(row.job));
                row.is_some_and(|job| is_of(&job.key.namespace))
            });
            own.map(|(id, _)| id.to_string()).take(limit).collect()
        }
        "evals" => {
            let evals = span.flat_map(|ids| store.evals().range(ids.span(EvalId)));
            let own = evals.filter(|eval| is_of(&eval.job.namespace));
            own.map(|eval| eval.id.to_string()).take(limit).collect()
        }
        "nodes" => {
            let by_id = span.flat_map(|ids| store.nodes().range(ids.span(NodeId)));
            by_id.map(|(id, _)| id.to_string()).take(limit).collect()
        }
        "node_pools" => {
            pools::names(view).into_iter().filter(|name| name.starts_with(prefix)).take(limit).collect()
        }
        _ => {
            let names = store.namespaces().iter().map(|row| row.namespace.name.clone());
            names.filter(|name| name.starts_with(prefix)).take(limit).collect()
        }
    }
}
