//! The formats in which a variable is printed for people and programs.

use std::collections::BTreeMap;

use berth_api::http::Variable;
use clap::ValueEnum;

use crate::{
    failure::{Exit, Failure},
    output::{Fields, Layout, clean, rfc3339, sections},
};

/// In which form a variable is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VarFormat {
    /// Description
    Table,
    /// As the API reports it
    Json,
    /// As a file that `berth var put @FILE` reads
    Hcl,
    /// Not at all
    None,
}

impl VarFormat {
    /// The variable as text, with what is in it.
    pub fn render(self, variable: &Variable) -> Result<String, Failure> {
        Ok(match self {
            Self::Table => table(variable),
            Self::Json => {
                let text = serde_json::to_string_pretty(variable);
                text.map_err(|error| Failure::new(Exit::Failed, error.to_string()))? + "\n"
            }
            Self::Hcl => hcl(variable),
            Self::None => String::new(),
        })
    }
}

fn table(variable: &Variable) -> String {
    let layout = Layout::stdout(false);
    let about = Fields::new(layout)
        .with("Namespace", &variable.namespace)
        .with("Path", &variable.path)
        .with("Written", rfc3339(variable.modify_time))
        .with("Index", variable.modify_index.to_string());
    let none = BTreeMap::new();
    let items = variable.items.as_ref().unwrap_or(&none).iter();
    let items = items.map(|(name, value)| format!("{} = {}\n", clean(name), clean(value)));
    sections([about.render(), items.collect()])
}

fn hcl(variable: &Variable) -> String {
    let mut text = format!(
        "namespace = {}\npath = {}\n\nitems = {{\n",
        quoted(&variable.namespace),
        quoted(&variable.path)
    );
    for (name, value) in variable.items.iter().flatten() {
        text += &format!("  {} = {}\n", quoted(name), quoted(value));
    }
    text + "}\n"
}

/// A text in HCL, in which nothing stands for something else.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            '\n' => quoted += "\\n",
            '\r' => quoted += "\\r",
            '\t' => quoted += "\\t",
            c if c.is_control() => quoted += &format!("\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.replace("${", "$${").replace("%{", "%%{") + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_hcl_reads_back_the_same() {
        let value = "a \"b\" \\ ${c} %{d} $${e}\n\tf\u{1} \u{e4}";
        let items = [("plain", "x"), ("with space", value), ("empty", "")];
        let items = items.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let variable = Variable {
            namespace: "default".to_owned(),
            path: "a/b".to_owned(),
            items: Some(items.into()),
            ..Variable::default()
        };
        let text = hcl(&variable);
        let read = berth_jobfile::parse_variable(text.as_bytes(), "file").expect("it is right");
        let read: Variable = serde_json::from_value(read).expect("it is a variable");
        assert_eq!(read.items, variable.items, "{text}");
        assert_eq!((read.namespace, read.path), (variable.namespace, variable.path));
    }
}
