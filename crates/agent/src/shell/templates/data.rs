//! The data that a task's templates are rendered with, as received from a server.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use berth_api::agent::{VariableContent, VariableQuery, VariableResult, VariablesWatched};
use berth_template::{DataSource, Lookup, Metadata, Query, Variable};

use crate::secrets::Redaction;
use crate::shell::server_requests::RequestError;

/// The last data that a server sent.
#[derive(Debug, Clone, Default)]
pub(in crate::shell) struct TemplateData {
    pub(super) found: BTreeMap<Query, Lookup>,
    /// Why the task may not know something.
    pub(super) denied: BTreeMap<Query, String>,
    /// The version of this data, which the server chose.
    pub(super) seen: Vec<u8>,
    /// The queries that the server has answered.
    pub(super) of: BTreeSet<Query>,
    /// The index of the state that this data is from: the next answer must not come from an older state.
    pub(super) index: u64,
}

/// Data that a server found and did not send.
#[derive(Debug, Default)]
pub(super) struct WithheldData {
    /// The queries that the server was asked.
    of: BTreeSet<Query>,
    /// The version of what it found; empty for nothing.
    seen: Vec<u8>,
}

impl WithheldData {
    /// By a server's refusal, which holds until what it names is something else; by any other, nothing is.
    pub(super) fn by(queries: &BTreeSet<Query>, error: &RequestError) -> Self {
        Self { of: queries.clone(), seen: error.seen.clone() }
    }
}

/// The queries as a server is sent them.
pub(super) fn requested(queries: &BTreeSet<Query>) -> Vec<VariableQuery> {
    let one = |query: &Query| match query {
        Query::Variable { namespace, path } => VariableQuery {
            namespace: namespace.clone().unwrap_or_default(),
            path: path.clone(),
            is_list: false,
        },
        Query::List { namespace, prefix } => VariableQuery {
            namespace: namespace.clone().unwrap_or_default(),
            path: prefix.clone(),
            is_list: true,
        },
    };
    queries.iter().map(one).collect()
}

/// The queries that a list of requested variables stands for: the inverse of [`requested`].
pub(super) fn queries(requested: &[VariableQuery]) -> BTreeSet<Query> {
    let one = |requested: &VariableQuery| {
        let namespace = Some(requested.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let path = requested.path.clone();
        if requested.is_list {
            Query::List { namespace, prefix: path }
        } else {
            Query::Variable { namespace, path }
        }
    };
    requested.iter().map(one).collect()
}

impl TemplateData {
    /// What a server answered to all of these.
    ///
    /// # Errors
    /// When it answered something else.
    pub(super) fn of(queries: &BTreeSet<Query>, answer: VariablesWatched) -> Result<Self, String> {
        if answer.found.len() != queries.len() {
            return Err("the server answered something else than it was asked".to_owned());
        }
        let (seen, index, of) = (answer.seen, answer.index, queries.clone());
        let mut data = Self { seen, index, of, ..Self::default() };
        for (query, VariableResult { variables, denied }) in queries.iter().zip(answer.found) {
            if !denied.is_empty() {
                data.denied.insert(query.clone(), denied);
                continue;
            }
            let found = match query {
                Query::Variable { .. } => match variables.into_iter().next() {
                    Some(content) => Lookup::Variable(variable(content)),
                    None => Lookup::Absent,
                },
                Query::List { .. } => {
                    Lookup::List(variables.into_iter().map(|content| variable(content).metadata).collect())
                }
            };
            data.found.insert(query.clone(), found);
        }
        Ok(data)
    }

    /// Names what a server found last when it was asked for these, whether it showed it or not; empty where it was not asked.
    pub(super) fn seen_of(&self, queries: &BTreeSet<Query>, withheld: &WithheldData) -> Vec<u8> {
        if withheld.of == *queries && !withheld.seen.is_empty() {
            withheld.seen.clone()
        } else if self.answers(queries) {
            self.seen.clone()
        } else {
            Vec::new()
        }
    }

    /// Whether a server has answered to these, and to nothing else.
    pub(super) fn answers(&self, queries: &BTreeSet<Query>) -> bool {
        self.of == *queries
    }

    /// Whether it is known what all of these are: an agent that has started since has only the version of it.
    pub(super) fn knows(&self, queries: &BTreeSet<Query>) -> bool {
        queries.iter().all(|query| self.found.contains_key(query) || self.denied.contains_key(query))
    }

    /// The values of variables, which people are not to be shown.
    pub(in crate::shell) fn hidden(&self) -> impl Iterator<Item = Redaction<'_>> {
        let variables = self.found.iter().filter_map(|(query, found)| match (query, found) {
            (Query::Variable { path, .. }, Lookup::Variable(variable)) => Some((path, variable)),
            _ => None,
        });
        variables.flat_map(|(path, Variable { items, .. })| {
            items.iter().map(move |(item, value)| (format!("<variable.{path}.{item}>"), value.as_str()))
        })
    }

    /// What a template lacks, for people.
    pub(super) fn lacks(&self, missing: &BTreeSet<Query>) -> String {
        let answer = missing.iter().map(|query| match self.denied.get(query) {
            Some(why) => format!("{query}: {why}"),
            None => query.to_string(),
        });
        format!("Missing: {}", answer.collect::<Vec<_>>().join(", "))
    }
}

fn variable(content: VariableContent) -> Variable {
    let VariableContent { namespace, path, create_index, modify_index, create_time, modify_time, items } =
        content;
    Variable {
        metadata: Metadata { namespace, path, create_index, modify_index, create_time, modify_time },
        items,
    }
}

/// The source of data for one rendering.
pub(super) struct RenderSource<'a> {
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) now_s: u64,
    pub(super) data: &'a TemplateData,
    /// What templates have requested: also one that fails, since other data may mend it.
    pub(super) requested: RefCell<BTreeSet<Query>>,
}

impl DataSource for RenderSource<'_> {
    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn now_s(&self) -> u64 {
        self.now_s
    }

    fn find(&self, query: &Query) -> Lookup {
        self.requested.borrow_mut().insert(query.clone());
        self.data.found.get(query).cloned().unwrap_or(Lookup::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_answer_is_what_templates_find() {
        let variable = Query::Variable { namespace: None, path: "a".into() };
        let other = Query::Variable { namespace: Some("team".into()), path: "b".into() };
        let list = Query::List { namespace: None, prefix: "a".into() };
        let all: BTreeSet<Query> = [variable.clone(), other.clone(), list.clone()].into();
        assert_eq!(queries(&requested(&all)), all);
        let content = VariableContent {
            path: "a".into(),
            items: [("key".to_owned(), "value".to_owned())].into(),
            ..VariableContent::default()
        };
        let found = |variables: Vec<VariableContent>, denied: &str| VariableResult {
            variables,
            denied: denied.into(),
        };
        let answers =
            [found(vec![content.clone()], ""), found(Vec::new(), "not for it"), found(vec![content], "")];
        let answer = VariablesWatched {
            found: answers.into(),
            seen: vec![1],
            index: 7,
            ..VariablesWatched::default()
        };
        let data = TemplateData::of(&all, answer.clone()).expect("it fits");
        assert!(data.answers(&all) && !data.answers(&[list.clone()].into()));
        let env = BTreeMap::new();
        let source = RenderSource { env: &env, now_s: 0, data: &data, requested: RefCell::default() };
        assert!(matches!(source.find(&variable), Lookup::Variable(one) if one.items["key"] == "value"));
        assert!(matches!(source.find(&list), Lookup::List(all) if all.len() == 1));
        assert_eq!(source.find(&other), Lookup::Unknown);
        assert_eq!(source.requested.into_inner(), all);
        assert_eq!(data.hidden().collect::<Vec<_>>(), [("<variable.a.key>".to_owned(), "value")]);
        assert!(data.knows(&all) && !TemplateData::default().knows(&all));
        assert_eq!(
            data.lacks(&[variable.clone(), other].into()),
            "Missing: nomad.var.block(a), nomad.var.block(b@team): not for it"
        );
        assert!(TemplateData::of(&[variable].into(), answer).is_err());
    }
}
