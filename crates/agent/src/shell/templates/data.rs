//! What templates of a task show, as a server said it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use berth_api::agent::{VariableContent, VariableQuery, VariableResult, VariablesWatched};
use berth_template::{DataSource, Lookup, Metadata, Query, Variable};

use crate::secrets::Hidden;
use crate::shell::asking::Unanswered;

/// What a server said last.
#[derive(Debug, Clone, Default)]
pub(in crate::shell) struct Shown {
    pub(super) found: BTreeMap<Query, Lookup>,
    /// Why the task may not know something.
    pub(super) denied: BTreeMap<Query, String>,
    /// Names what was said.
    pub(super) seen: Vec<u8>,
    /// To these questions.
    pub(super) of: BTreeSet<Query>,
    /// The index of what was said: no server that is not as far is to answer next.
    pub(super) index: u64,
}

/// What a server found and did not show.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    /// Asked for these.
    of: BTreeSet<Query>,
    /// Names what it found; empty for nothing.
    seen: Vec<u8>,
}

impl Withheld {
    /// By a server's refusal, which holds until what it names is something else; by any other, nothing is.
    pub(super) fn by(queries: &BTreeSet<Query>, unanswered: &Unanswered) -> Self {
        Self { of: queries.clone(), seen: unanswered.seen.clone() }
    }
}

/// What a server is asked for.
pub(super) fn asked(queries: &BTreeSet<Query>) -> Vec<VariableQuery> {
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

/// The same, back.
pub(super) fn queries(asked: &[VariableQuery]) -> BTreeSet<Query> {
    let one = |asked: &VariableQuery| {
        let namespace = Some(asked.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let path = asked.path.clone();
        if asked.is_list {
            Query::List { namespace, prefix: path }
        } else {
            Query::Variable { namespace, path }
        }
    };
    asked.iter().map(one).collect()
}

impl Shown {
    /// What a server answered to all of these.
    ///
    /// # Errors
    /// When it answered something else.
    pub(super) fn of(queries: &BTreeSet<Query>, told: VariablesWatched) -> Result<Self, String> {
        if told.found.len() != queries.len() {
            return Err("the server answered something else than it was asked".to_owned());
        }
        let (seen, index, of) = (told.seen, told.index, queries.clone());
        let mut shown = Self { seen, index, of, ..Self::default() };
        for (query, VariableResult { variables, denied }) in queries.iter().zip(told.found) {
            if !denied.is_empty() {
                shown.denied.insert(query.clone(), denied);
                continue;
            }
            let found = match query {
                Query::Variable { .. } => match variables.into_iter().next() {
                    Some(given) => Lookup::Variable(variable(given)),
                    None => Lookup::Absent,
                },
                Query::List { .. } => {
                    Lookup::List(variables.into_iter().map(|given| variable(given).metadata).collect())
                }
            };
            shown.found.insert(query.clone(), found);
        }
        Ok(shown)
    }

    /// Names what a server found last when it was asked for these, whether it showed it or not; empty where it was not asked.
    pub(super) fn seen_of(&self, queries: &BTreeSet<Query>, withheld: &Withheld) -> Vec<u8> {
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

    /// Whether it is known what all of these are: an agent that has started since has only the name of what was said.
    pub(super) fn knows(&self, queries: &BTreeSet<Query>) -> bool {
        queries.iter().all(|query| self.found.contains_key(query) || self.denied.contains_key(query))
    }

    /// The values of variables, which people are not to be shown.
    pub(in crate::shell) fn hidden(&self) -> impl Iterator<Item = Hidden<'_>> {
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
        let told = missing.iter().map(|query| match self.denied.get(query) {
            Some(why) => format!("{query}: {why}"),
            None => query.to_string(),
        });
        format!("Missing: {}", told.collect::<Vec<_>>().join(", "))
    }
}

fn variable(given: VariableContent) -> Variable {
    let VariableContent { namespace, path, create_index, modify_index, create_time, modify_time, items } =
        given;
    Variable {
        metadata: Metadata { namespace, path, create_index, modify_index, create_time, modify_time },
        items,
    }
}

/// What a rendering learns.
pub(super) struct World<'a> {
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) now_s: u64,
    pub(super) shown: &'a Shown,
    /// What was asked for: also by a template that fails, which other data may mend.
    pub(super) asked: RefCell<BTreeSet<Query>>,
}

impl DataSource for World<'_> {
    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn now_s(&self) -> u64 {
        self.now_s
    }

    fn find(&self, query: &Query) -> Lookup {
        self.asked.borrow_mut().insert(query.clone());
        self.shown.found.get(query).cloned().unwrap_or(Lookup::Unknown)
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
        assert_eq!(queries(&asked(&all)), all);
        let given = VariableContent {
            path: "a".into(),
            items: [("key".to_owned(), "value".to_owned())].into(),
            ..VariableContent::default()
        };
        let found = |variables: Vec<VariableContent>, denied: &str| VariableResult {
            variables,
            denied: denied.into(),
        };
        let answers =
            [found(vec![given.clone()], ""), found(Vec::new(), "not for it"), found(vec![given], "")];
        let told = VariablesWatched {
            found: answers.into(),
            seen: vec![1],
            index: 7,
            ..VariablesWatched::default()
        };
        let shown = Shown::of(&all, told.clone()).expect("it fits");
        assert!(shown.answers(&all) && !shown.answers(&[list.clone()].into()));
        let env = BTreeMap::new();
        let world = World { env: &env, now_s: 0, shown: &shown, asked: RefCell::default() };
        assert!(matches!(world.find(&variable), Lookup::Variable(one) if one.items["key"] == "value"));
        assert!(matches!(world.find(&list), Lookup::List(all) if all.len() == 1));
        assert_eq!(world.find(&other), Lookup::Unknown);
        assert_eq!(world.asked.into_inner(), all);
        assert_eq!(shown.hidden().collect::<Vec<_>>(), [("<variable.a.key>".to_owned(), "value")]);
        assert!(shown.knows(&all) && !Shown::default().knows(&all));
        assert_eq!(
            shown.lacks(&[variable.clone(), other].into()),
            "Missing: nomad.var.block(a), nomad.var.block(b@team): not for it"
        );
        assert!(Shown::of(&[variable].into(), told).is_err());
    }
}
