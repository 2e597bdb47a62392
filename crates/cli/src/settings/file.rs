//! Settings in a TOML file. An unknown key is an error, never ignored.

use std::{collections::BTreeMap, path::Path};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Role,
    table::{self, Setting, ValueForm},
};
use crate::{
    failure::{Exit, Failure},
    output::nearest,
};

/// The values of one setting from the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FromFile {
    /// The line, counted from 1.
    pub line: usize,
    /// The value, or the values.
    pub values: Vec<String>,
}

/// Reads the settings of a file, by name.
pub(super) fn read(path: &Path, role: Role) -> Result<BTreeMap<&'static str, FromFile>, Failure> {
    let source = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Exit::Usage, format!("cannot read {}: {error}", path.display())))?;
    parse(&source, &path.display().to_string(), role)
}

fn parse(source: &str, file: &str, role: Role) -> Result<BTreeMap<&'static str, FromFile>, Failure> {
    let table = DeTable::parse(source).map_err(|error| {
        Failure::new(Exit::Usage, format!("{file} is not TOML\n{}", error.to_string().trim_end()))
    })?;
    let mut found = BTreeMap::new();
    for (key, value) in table.into_inner() {
        let line = line_of(source, key.span().start);
        let failure = |message: String| Failure::new(Exit::Usage, format!("{file}:{line}: {message}"));
        let Some(setting) = table::find(key.as_ref()) else {
            return Err(unknown(key.as_ref(), failure, role));
        };
        if !setting.roles.contains(&role) {
            return Err(failure(format!("`{}` is not a setting of {role}", setting.name)));
        }
        let values = values(setting, &value)
            .ok_or_else(|| failure(format!("`{}` takes {}", setting.name, expected(setting))))?;
        found.insert(setting.name, FromFile { line, values });
    }
    Ok(found)
}

fn unknown(key: &str, failure: impl Fn(String) -> Failure, role: Role) -> Failure {
    let known = table::of(role).map(|setting| setting.name);
    let failure = failure(format!("unknown setting `{}`", crate::output::clean(key)));
    match nearest(&key.replace('_', "-"), known) {
        Some(name) => failure.help(format!("did you mean `{name}`?")),
        None => failure.help(format!("`{role} --help` lists the settings")),
    }
}

/// The value as a flag would give it; none when its type is another.
fn values(setting: &Setting, value: &Spanned<DeValue<'_>>) -> Option<Vec<String>> {
    match (setting.form, value.get_ref()) {
        (ValueForm::One(_), value) => Some(vec![scalar(value)?]),
        (ValueForm::Switch, DeValue::Boolean(on)) => Some(vec![on.to_string()]),
        (ValueForm::List(_), DeValue::Array(items)) => {
            items.iter().map(|item| scalar(item.get_ref())).collect()
        }
        (ValueForm::Map, DeValue::Table(pairs)) => {
            let pair = |(key, value): (&Spanned<_>, &Spanned<_>)| {
                let value = match value.get_ref() {
                    DeValue::Boolean(on) => on.to_string(),
                    value => scalar(value)?,
                };
                Some(format!("{}={value}", key.get_ref()))
            };
            pairs.iter().map(pair).collect()
        }
        _ => None,
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

fn expected(setting: &Setting) -> &'static str {
    match setting.form {
        ValueForm::One(_) => "a single value",
        ValueForm::Switch => "true or false",
        ValueForm::List(_) => "a list, as [\"a\", \"b\"]",
        ValueForm::Map => "a table, as { key = \"value\" }",
    }
}

fn line_of(source: &str, byte: usize) -> usize {
    source.as_bytes()[..byte].iter().filter(|b| **b == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(source: &str, role: Role, expected: &Expect) {
        expected.assert_eq(&match parse(source, "berth.toml", role) {
            Ok(found) => found
                .iter()
                .map(|(name, from)| format!("{name} {:?} line {}\n", from.values, from.line))
                .collect(),
            Err(failure) => failure.to_string(),
        });
    }

    #[test]
    fn every_form_of_value_is_read() {
        let source = "servers = [\"a:1\", \"b:2\"]\nreserved-memory = 512\nraw-exec = true\n\n[meta]\nrack = \"r1\"\nrow = 7\n";
        check(
            source,
            Role::Agent,
            &expect![[r#"
                meta ["rack=r1", "row=7"] line 5
                raw-exec ["true"] line 3
                reserved-memory ["512"] line 2
                servers ["a:1", "b:2"] line 1
            "#]],
        );
    }

    #[test]
    fn mistakes_name_key_file_and_line() {
        check(
            "\ndata_dir = \"x\"",
            Role::Server,
            &expect![[r#"
            error: berth.toml:2: unknown setting `data_dir`
              help: did you mean `data-dir`?
        "#]],
        );
        check(
            "zebra = 1",
            Role::Server,
            &expect![[r#"
            error: berth.toml:1: unknown setting `zebra`
              help: `berth server --help` lists the settings
        "#]],
        );
        check(
            "node-pool = \"gpu\"",
            Role::Server,
            &expect![[r#"
            error: berth.toml:1: `node-pool` is not a setting of berth server
        "#]],
        );
        check(
            "servers = \"a:1\"",
            Role::Agent,
            &expect![[r#"
            error: berth.toml:1: `servers` takes a list, as ["a", "b"]
        "#]],
        );
        check(
            "raw-exec = \"yes\"",
            Role::Agent,
            &expect![[r#"
            error: berth.toml:1: `raw-exec` takes true or false
        "#]],
        );
        check(
            "data-dir = ",
            Role::Server,
            &expect![[r#"
            error: berth.toml is not TOML
            TOML parse error at line 1, column 12
              |
            1 | data-dir = 
              |            ^
            string values must be quoted, expected literal string
        "#]],
        );
    }
}
