//! `PUT /v1/search/fuzzy`: objects whose names contain a text.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

use berth_api::http::{FuzzyMatch, FuzzySearch, FuzzySearchResult};
use berth_scheduler::Cancelled;

use super::{MATCHES_MAX, NAMES_MAX, contexts_of};
use crate::{
    access::CallerView,
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    nomad::{jobs::Jobs, variables},
};

/// The contexts that can be searched.
const CONTEXTS: &[&str] =
    &["classes", "groups", "jobs", "namespaces", "node_pools", "nodes", "quotas", "tasks", "vars"];
/// A shorter text is in everything.
const TEXT_CHARS_MIN: usize = 2;

/// `PUT /v1/search/fuzzy`
pub(in crate::nomad) async fn fuzzy(mut call: Call) -> Reply {
    let search: FuzzySearch = call.json().await?;
    let contexts = contexts_of(&search.context, CONTEXTS, call.access())?;
    if search.text.chars().count() < TEXT_CHARS_MIN {
        return Err(Failure::bad_request(format!("Text has less than {TEXT_CHARS_MIN} characters")));
    }
    let (text, namespace) = (search.text.to_lowercase(), call.namespace().to_owned());
    let view = call.view();
    let found = call.api.heavy.run_for_client(move |client_has_left| {
        let mut hits =
            Hits { text, contexts, found: BTreeMap::new(), names_left: NAMES_MAX, client_has_left };
        match hits.search(&view, &namespace) {
            Ok(()) | Err(SearchEnd::Spent) => Ok(hits.best()),
            Err(SearchEnd::Left) => Err(Cancelled),
        }
    });
    reply::json(&call.query, &found.await?)
}

/// Why a search ends early.
enum SearchEnd {
    /// It has looked at as many names as it may.
    Spent,
    /// Nobody waits for it.
    Left,
}

/// Where in the name the text is, the name, and where the thing is: the best come first.
type Hit = (usize, String, Vec<String>);

/// What has been found, by context.
struct Hits<'c> {
    /// The search text in lower case.
    text: String,
    contexts: Vec<&'static str>,
    found: BTreeMap<&'static str, BTreeSet<Hit>>,
    /// Names that may still be looked at.
    names_left: usize,
    client_has_left: &'c AtomicBool,
}

impl Hits<'_> {
    fn search(&mut self, view: &CallerView, namespace: &str) -> Result<(), SearchEnd> {
        for row in Jobs::of(namespace, "").all(view) {
            let (own, id) = (row.key.namespace.to_string(), row.key.id.to_string());
            self.match_name("jobs", &row.job().name, || vec![own.clone(), id.clone()])?;
            for group in &row.job().groups {
                self.match_name("groups", &group.name, || vec![own.clone(), id.clone()])?;
                for task in &group.tasks {
                    self.match_name("tasks", &task.name, || {
                        vec![own.clone(), id.clone(), group.name.clone()]
                    })?;
                }
            }
        }
        for node in view.all_nodes().map(|(_, detail)| &detail.node) {
            self.match_name("nodes", &node.name, || vec![node.id.to_string()])?;
            self.match_name("classes", &node.class, Vec::new)?;
        }
        for name in view.node_pools().into_keys() {
            self.match_name("node_pools", name, || vec![name.to_owned()])?;
        }
        view.quotas().try_for_each(|row| self.match_name("quotas", &row.quota.name, Vec::new))?;
        if self.contexts.contains(&"vars") {
            for maybe in variables::beginning_with(view, namespace, "") {
                // Whether it may be listed takes work: it is asked of those that have the text.
                let (own, path) = (&maybe.key().namespace, &maybe.key().path);
                let may_list = || maybe.listed().is_some();
                self.look_if("vars", path, may_list, || vec![own.to_string(), path.to_string()])?;
            }
        }
        let mut tenants = view.namespaces();
        tenants.try_for_each(|row| self.match_name("namespaces", &row.namespace.name, Vec::new))
    }

    /// Keeps a name that has the text, if it is among the best of its context.
    fn match_name(
        &mut self,
        context: &'static str,
        name: &str,
        scope: impl FnOnce() -> Vec<String>,
    ) -> Result<(), SearchEnd> {
        self.look_if(context, name, || true, scope)
    }

    /// The same of a name that the caller may be allowed to see.
    fn look_if(
        &mut self,
        context: &'static str,
        name: &str,
        is_seen: impl FnOnce() -> bool,
        scope: impl FnOnce() -> Vec<String>,
    ) -> Result<(), SearchEnd> {
        if self.client_has_left.load(Ordering::Relaxed) {
            return Err(SearchEnd::Left);
        }
        self.names_left = self.names_left.checked_sub(1).ok_or(SearchEnd::Spent)?;
        if !self.contexts.contains(&context) {
            return Ok(());
        }
        let Some(at) = name.to_lowercase().find(&self.text) else { return Ok(()) };
        if !is_seen() {
            return Ok(());
        }
        let found = self.found.entry(context).or_default();
        found.insert((at, name.to_owned(), scope()));
        // One more than are returned, to know whether there are more.
        if found.len() > MATCHES_MAX + 1 {
            found.pop_last();
        }
        Ok(())
    }

    fn best(self) -> FuzzySearchResult {
        let mut answer = FuzzySearchResult::default();
        let is_cut = self.names_left == 0;
        if is_cut {
            answer.truncations.extend(self.contexts.iter().map(|context| ((*context).to_owned(), true)));
        }
        for (context, found) in self.found {
            answer.truncations.insert(context.to_owned(), is_cut || found.len() > MATCHES_MAX);
            let best = found.into_iter().take(MATCHES_MAX);
            let matches = best.map(|(_, id, scope)| FuzzyMatch { id, scope }).collect();
            answer.matches.insert(context.to_owned(), matches);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{access::Capability, nomad::tests::world::world};

    fn searched(names_left: usize, has_left: bool) -> Result<FuzzySearchResult, Cancelled> {
        let view = world().seen_with(Capability::ReadJob);
        let client_has_left = AtomicBool::new(has_left);
        let contexts = vec!["jobs", "nodes"];
        let mut hits = Hits {
            text: "n".into(),
            contexts,
            found: BTreeMap::new(),
            names_left,
            client_has_left: &client_has_left,
        };
        match hits.search(&view, "*") {
            Ok(()) | Err(SearchEnd::Spent) => Ok(hits.best()),
            Err(SearchEnd::Left) => Err(Cancelled),
        }
    }

    #[test]
    fn a_search_is_bounded_and_reports_truncation() {
        let whole = searched(NAMES_MAX, false).expect("the client waits");
        assert_eq!((whole.matches["nodes"].len(), whole.truncations["nodes"]), (2, false));
        let cut = searched(4, false).expect("the client waits");
        assert_eq!(cut.matches["nodes"].len(), 1);
        assert_eq!([cut.truncations["nodes"], cut.truncations["jobs"]], [true; 2]);
        assert!(searched(NAMES_MAX, true).is_err(), "nobody waits for it");
    }
}
