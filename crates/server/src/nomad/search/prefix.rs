//! `PUT /v1/search`: objects whose ids begin with a text.

use std::sync::atomic::AtomicBool;

use berth_api::http::{Search, SearchResult};
use berth_model::{AllocId, DeploymentId, EvalId, NodeId};
use berth_scheduler::Cancelled;

use super::{MATCHES_MAX, NAMES_MAX, contexts_of};
use crate::{
    access::CallerView,
    http::{
        call::{Call, Reply},
        heavy::{unless_disconnected, while_client_waits},
        ids::IdRange,
        reply,
    },
    nomad::{convert, jobs::Jobs, variables},
};

/// The contexts that can be searched.
const CONTEXTS: &[&str] = &[
    "allocs",
    "deployment",
    "evals",
    "jobs",
    "namespaces",
    "node_pools",
    "nodes",
    "quotas",
    "scaling_policy",
    "vars",
];

/// `PUT /v1/search`
pub(in crate::nomad) async fn prefix(mut call: Call) -> Reply {
    let search: Search = call.json().await?;
    let contexts = contexts_of(&search.context, CONTEXTS, call.access())?;
    let namespace = call.namespace().to_owned();
    let view = call.view();
    let find = move |client_has_left: &AtomicBool| {
        found(&view, &contexts, &namespace, &search.prefix, client_has_left)
    };
    let found = call.api.heavy.run_for_client(find).await?;
    let mut response = reply::json(&call.query, &found)?;
    let view = call.view();
    reply::stamp(response.headers_mut(), view.index(), &view);
    Ok(response)
}

fn found(
    view: &CallerView,
    contexts: &[&str],
    namespace: &str,
    prefix: &str,
    client_has_left: &AtomicBool,
) -> Result<SearchResult, Cancelled> {
    let mut found = SearchResult::default();
    for context in contexts {
        unless_disconnected(client_has_left, ())?;
        let mut matches = matches(view, context, (namespace, prefix), client_has_left);
        unless_disconnected(client_has_left, ())?;
        found.truncations.insert((*context).to_owned(), matches.len() > MATCHES_MAX);
        matches.truncate(MATCHES_MAX);
        found.matches.insert((*context).to_owned(), matches);
    }
    Ok(found)
}

/// One more than are returned, if there are so many.
fn matches(
    view: &CallerView,
    context: &str,
    (namespace, prefix): (&str, &str),
    client_has_left: &AtomicBool,
) -> Vec<String> {
    // What is not the beginning of an id begins none.
    let ids = IdRange::parse(prefix);
    let span = ids.iter();
    let limit = MATCHES_MAX + 1;
    match context {
        "jobs" => {
            Jobs::of(namespace, prefix).all(view).map(|row| row.key.id.to_string()).take(limit).collect()
        }
        "allocs" => {
            let allocs = span.flat_map(|ids| view.allocs_by_id(ids.span(AllocId)));
            allocs.map(|parts| parts.row.id.to_string()).take(limit).collect()
        }
        "evals" => {
            let evals = span.flat_map(|ids| view.evals_by_id(ids.span(EvalId)));
            evals.map(|eval| eval.id.to_string()).take(limit).collect()
        }
        "nodes" => {
            let nodes = span.flat_map(|ids| view.nodes(ids.span(NodeId)));
            nodes.map(|(row, _)| row.id.to_string()).take(limit).collect()
        }
        "node_pools" => {
            let names = view.node_pools().into_keys().filter(|name| name.starts_with(prefix));
            names.take(limit).map(str::to_owned).collect()
        }
        "deployment" => {
            let found = span.flat_map(|ids| view.deployments_by_id(ids.span(DeploymentId)));
            found.map(|deployment| deployment.id.to_string()).take(limit).collect()
        }
        "quotas" => {
            let names = view.quotas().map(|row| row.quota.name.clone());
            names.filter(|name| name.starts_with(prefix)).take(limit).collect()
        }
        "scaling_policy" => {
            let jobs = Jobs::of(namespace, "");
            let policies = while_client_waits(client_has_left, jobs.all(view)).flat_map(|row| {
                convert::scaled_groups(row).filter_map(move |group| convert::scaling_policy(row, group))
            });
            let ids = policies.map(|policy| policy.id).take(NAMES_MAX);
            ids.filter(|id| id.starts_with(prefix)).take(limit).collect()
        }
        "vars" => {
            let found = variables::beginning_with(view, namespace, prefix);
            let found =
                while_client_waits(client_has_left, found.take(NAMES_MAX)).filter_map(|maybe| maybe.listed());
            found.map(|variable| variable.key.path.to_string()).take(limit).collect()
        }
        _ => {
            let names = view.namespaces().map(|row| row.namespace.name.clone());
            names.filter(|name| name.starts_with(prefix)).take(limit).collect()
        }
    }
}
