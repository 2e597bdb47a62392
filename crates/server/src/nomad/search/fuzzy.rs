//! `PUT /v1/search/fuzzy`: what has a text anywhere in its name.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::http::{FuzzyFound, FuzzyMatch, FuzzySearch};

use super::{MATCHES_MAX, asked};
use crate::{
    access::CallerView,
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    nomad::{jobs::Jobs, pools},
};

/// Where to look.
const CONTEXTS: &[&str] = &["classes", "groups", "jobs", "namespaces", "node_pools", "nodes", "tasks"];
/// A shorter text is in everything.
const TEXT_CHARS_MIN: usize = 2;

/// `PUT /v1/search/fuzzy`
pub(in crate::nomad) async fn fuzzy(mut call: Call) -> Reply {
    let search: FuzzySearch = call.json().await?;
    let contexts = asked(&search.context, CONTEXTS)?;
    if search.text.chars().count() < TEXT_CHARS_MIN {
        return Err(Failure::bad_request(format!("Text has less than {TEXT_CHARS_MIN} characters")));
    }
    let (text, namespace) = (search.text.to_lowercase(), call.namespace().to_owned());
    let view = call.view();
    let found = call.api.heavy.run(move || {
        let mut hits = Hits { text, contexts, found: BTreeMap::new() };
        hits.search(&view, &namespace);
        hits.best()
    });
    reply::json(&call.query, &found.await)
}

/// Where in the name the text is, the name, and where the thing is: the best come first.
type Hit = (usize, String, Vec<String>);

/// What has been found, by context.
struct Hits {
    /// In lower case.
    text: String,
    contexts: Vec<&'static str>,
    found: BTreeMap<&'static str, BTreeSet<Hit>>,
}

impl Hits {
    fn search(&mut self, view: &CallerView, namespace: &str) {
        for row in Jobs::of(namespace, "").all(view) {
            let (own, id) = (row.key.namespace.to_string(), row.key.id.to_string());
            self.look("jobs", &row.job().name, || vec![own.clone(), id.clone()]);
            for group in &row.job().groups {
                self.look("groups", &group.name, || vec![own.clone(), id.clone()]);
                for task in &group.tasks {
                    self.look("tasks", &task.name, || vec![own.clone(), id.clone(), group.name.clone()]);
                }
            }
        }
        for node in view.all_nodes().map(|(_, detail)| &detail.node) {
            self.look("nodes", &node.name, || vec![node.id.to_string()]);
            self.look("classes", &node.class, Vec::new);
        }
        pools::names(view).iter().for_each(|name| self.look("node_pools", name, Vec::new));
        let tenants = view.namespaces();
        tenants.for_each(|row| self.look("namespaces", &row.namespace.name, Vec::new));
    }

    /// Keeps a name that has the text, if it is among the best of its context.
    fn look(&mut self, context: &'static str, name: &str, scope: impl FnOnce() -> Vec<String>) {
        if !self.contexts.contains(&context) {
            return;
        }
        let Some(at) = name.to_lowercase().find(&self.text) else { return };
        let found = self.found.entry(context).or_default();
        found.insert((at, name.to_owned(), scope()));
        // One more than are told, to know whether there are more.
        if found.len() > MATCHES_MAX + 1 {
            found.pop_last();
        }
    }

    fn best(self) -> FuzzyFound {
        let mut answer = FuzzyFound::default();
        for (context, found) in self.found {
            answer.truncations.insert(context.to_owned(), found.len() > MATCHES_MAX);
            let best = found.into_iter().take(MATCHES_MAX);
            let matches = best.map(|(_, id, scope)| FuzzyMatch { id, scope }).collect();
            answer.matches.insert(context.to_owned(), matches);
        }
        answer
    }
}
