//! Output by the user's own templates: `-t '{{ ID }} {{ Status }}'`.
//!
//! The language is Jinja's: a list is printed by applying the template to each of its members, so that the common case needs no
//! loop. What Nomad's commands take, in Go's template language, is understood as well: there the list is the dot.

use berth_template::{Delimiters, ParsedTemplate};
use minijinja::{Environment, ErrorKind, UndefinedBehavior, value::Serde};
use serde_json::Value;

use crate::{
    failure::{Exit, Failure},
    output::{clean, nearest},
};

/// A template that was read.
#[derive(Debug)]
pub enum Template<'a> {
    /// In Jinja's language, applied to each member of a list.
    Jinja(Box<Jinja<'a>>),
    /// In Go's, applied to the list itself.
    Go(ParsedTemplate),
}

impl<'a> Template<'a> {
    /// Parses a template, in either language.
    pub fn new(source: &'a str) -> Result<Self, Failure> {
        if is_of_go(source) {
            let parsed = ParsedTemplate::parse(source, &Delimiters::default());
            return parsed.map(Self::Go).map_err(|error| nonsense(&error));
        }
        Jinja::new(source).map(Box::new).map(Self::Jinja)
    }

    /// The text for a value.
    pub fn render(&self, value: &Value) -> Result<String, Failure> {
        match self {
            Self::Jinja(template) => template.render(value),
            Self::Go(template) => {
                let rendered = template.render_for(value.clone()).map_err(|error| nonsense(&error))?;
                Ok(rendered + "\n")
            }
        }
    }
}

/// A template in Jinja's language.
#[derive(Debug)]
pub struct Jinja<'a> {
    environment: Environment<'a>,
    source: &'a str,
}

impl<'a> Jinja<'a> {
    fn new(source: &'a str) -> Result<Self, Failure> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.template_from_str(source).map_err(|error| mistake(&error))?;
        Ok(Self { environment, source })
    }

    /// A line for the value, or for each of its members when it is a list.
    fn render(&self, value: &Value) -> Result<String, Failure> {
        match value {
            Value::Array(items) => items.iter().map(|item| self.line(item)).collect(),
            value => self.line(value),
        }
    }

    fn line(&self, value: &Value) -> Result<String, Failure> {
        let rendered = self.environment.render_str(self.source, Serde(value));
        let text = rendered.map_err(|error| {
            let failure = mistake(&error);
            if error.kind() == ErrorKind::UndefinedError {
                known_names(failure, self, value)
            } else {
                failure
            }
        })?;
        Ok(text + "\n")
    }

    /// The names of its own that it takes from the value.
    fn names(&self) -> Vec<String> {
        let template = self.environment.template_from_str(self.source);
        let mut names: Vec<_> =
            template.map_or_else(|_| Vec::new(), |it| it.undeclared_variables(false).into_iter().collect());
        names.sort_unstable();
        names
    }
}

fn mistake(error: &minijinja::Error) -> Failure {
    let message = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    nonsense(&message)
}

fn nonsense(why: &impl ToString) -> Failure {
    Failure::new(Exit::Usage, format!("the template makes no sense here: {}", clean(&why.to_string())))
}

/// Whether it is written in Go's template language, as Nomad's commands take it: an action begins with a word that begins none in
/// Jinja's, or uses the dot.
fn is_of_go(source: &str) -> bool {
    let begins = |inner: &str| {
        let word = inner.trim_start_matches('-').split_whitespace().next().unwrap_or_default();
        ["range", "end", "if", "else", "with", "define", "template", "block"].contains(&word)
    };
    let actions = source.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap_or(rest).trim());
    let uses_dot = |inner: &str| {
        // What stands between quotes is text in both.
        let code: String = inner.split(['"', '\'']).step_by(2).collect::<Vec<_>>().join(" ");
        code.split([' ', '(', '|']).any(|word| word == "." || word.starts_with('.') && word.len() > 1)
    };
    actions.into_iter().any(|inner| begins(inner) || uses_dot(inner))
}

/// Says what there is instead of a name that is not there.
fn known_names(failure: Failure, template: &Jinja<'_>, value: &Value) -> Failure {
    let Some(members) = value.as_object() else { return failure };
    let known = || members.keys().map(String::as_str);
    let Some(wrong) = template.names().into_iter().find(|name| !members.contains_key(name)) else {
        return failure.help("add `-o json` in its place to see what there is");
    };
    match nearest(&wrong, known()) {
        Some(name) => failure.help(format!("there is no `{}`; did you mean `{name}`?", clean(&wrong))),
        None => {
            let known = known().collect::<Vec<_>>().join(", ");
            failure.help(format!("there is no `{}`, only {}", clean(&wrong), clean(&known)))
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(source: &str, value: &Value, expected: &Expect) {
        let rendered = Template::new(source).and_then(|template| template.render(value));
        expected.assert_eq(&rendered.unwrap_or_else(|failure| failure.to_string()));
    }

    #[test]
    fn a_list_is_a_line_for_each_member() {
        let jobs = json!([{ "ID": "web", "Meta": { "owner": "ops" } }, { "ID": "pi", "Meta": null }]);
        check(
            "{{ ID }} {{ Meta.owner if Meta else '-' }}",
            &jobs,
            &expect![[r#"
            web ops
            pi -
        "#]],
        );
        check(
            "{{ ID|upper }}",
            &jobs[0],
            &expect![[r#"
            WEB
        "#]],
        );
        check("x", &json!([]), &expect![""]);
    }

    #[test]
    fn a_template_of_nomads_commands_is_understood() {
        let jobs = json!([{ "ID": "web", "Count": 2 }, { "ID": "pi", "Count": 1 }]);
        check(
            "{{range .}}{{.ID}} {{.Count}};{{end}}",
            &jobs,
            &expect![[r#"
            web 2;pi 1;
        "#]],
        );
        check(
            "{{ .ID | toUpper }}",
            &jobs[0],
            &expect![[r#"
            WEB
        "#]],
        );
        check(
            "{{ .Id }}",
            &jobs[0],
            &expect![[r#"
                error: the template makes no sense here: line 1, column 4: the map has no entry "Id"
            "#]],
        );
        check(
            "{{ range . }}",
            &jobs,
            &expect![[r#"
            error: the template makes no sense here: line 1, column 4: `range` has no `end`
        "#]],
        );
        assert!(!is_of_go("{{ ID|upper }} {{ 'a.b' }} {{ Meta.owner }} {{ 1.5 }} {{ ID ~ ' . ' ~ Name }}"));
    }

    #[test]
    fn errors_are_reported() {
        let job = json!({ "ID": "web", "Status": "running" });
        check(
            "{{ Id }}",
            &job,
            &expect![[r#"
                error: the template makes no sense here: `Id` is undefined
                  help: there is no `Id`; did you mean `ID`?
            "#]],
        );
        check(
            "{{ zebra }}",
            &job,
            &expect![[r#"
            error: the template makes no sense here: `zebra` is undefined
              help: there is no `zebra`, only ID, Status
        "#]],
        );
        check(
            "{{ ID.x.y }}",
            &job,
            &expect![[r#"
            error: the template makes no sense here: `ID.x` is undefined
              help: add `-o json` in its place to see what there is
        "#]],
        );
        check(
            "{{ ID",
            &job,
            &expect![[r#"
            error: the template makes no sense here: unexpected end of input, expected end of variable block
        "#]],
        );
    }
}
