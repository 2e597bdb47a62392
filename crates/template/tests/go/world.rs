//! A source with a few variables, for the tests of templates.

use std::collections::BTreeMap;

use berth_template::{
    DataSource, Delimiters, Lookup, Metadata, ParsedTemplate, Query, RenderOptions, Rendered, TemplateError,
    Variable,
};

pub struct World {
    pub variables: BTreeMap<&'static str, Vec<(&'static str, &'static str)>>,
    /// Whether anybody has answered yet.
    pub is_known: bool,
}

impl Default for World {
    fn default() -> Self {
        let json = r#"{"a":[1,2,{"b":"deep"}],"n":null,"f":1.5,"t":true}"#;
        let variables = [
            ("nomad/jobs/web", vec![("user", "web"), ("password", "a<b"), ("empty", ""), ("json", json)]),
            ("nomad/jobs/web/db", vec![("host", "db1")]),
            ("app/list", vec![("csv", "a,b,c"), ("true", "true")]),
        ];
        Self { variables: variables.into(), is_known: true }
    }
}

impl DataSource for World {
    fn env(&self, name: &str) -> Option<String> {
        match name {
            "NOMAD_TASK_NAME" => Some("main".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn now_s(&self) -> u64 {
        1_700_000_000
    }

    fn find(&self, query: &Query) -> Lookup {
        let metadata = |path: &str| Metadata {
            namespace: "default".to_owned(),
            path: path.to_owned(),
            create_index: 7,
            modify_index: 8,
            create_time: 9,
            modify_time: 10,
        };
        match query {
            _ if !self.is_known => Lookup::Unknown,
            Query::Variable { namespace: Some(_), .. } => Lookup::Unknown,
            // One that is not listed: its many items are for tests of what it costs to go over them.
            Query::Variable { path, .. } if path == "large" => Lookup::Variable(Variable {
                metadata: metadata(path),
                items: (0..1_000).map(|at| (format!("k{at}"), "v".to_owned())).collect(),
            }),
            Query::Variable { path, .. } => match self.variables.get(&**path) {
                Some(items) => Lookup::Variable(Variable {
                    metadata: metadata(path),
                    items: items
                        .iter()
                        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                        .collect(),
                }),
                None => Lookup::Absent,
            },
            Query::List { prefix, .. } => {
                let listed = self.variables.keys().filter(|path| path.starts_with(prefix));
                Lookup::List(listed.map(|path| metadata(path)).collect())
            }
        }
    }
}

pub fn parse(text: &str) -> Result<ParsedTemplate, TemplateError> {
    ParsedTemplate::parse(text, &Delimiters::default())
}

pub fn rendered(text: &str) -> Result<Rendered, TemplateError> {
    parse(text)?.render(&World::default(), RenderOptions::default())
}

/// What a template comes to; or why not, and where.
pub fn outcome(text: &str) -> String {
    match rendered(text) {
        Ok(Rendered { missing, .. }) if !missing.is_empty() => {
            format!("missing {}", missing.iter().map(Query::to_string).collect::<Vec<_>>().join(" "))
        }
        Ok(Rendered { text, .. }) => text,
        Err(error) => format!("error: {error}"),
    }
}
