//! Replaces `${...}` in what a job says of a task.

use std::cell::Cell;
use std::collections::BTreeMap;

use berth_api::agent::NodeSpec;
use serde_json::Value;

use crate::drivers::settings::setup;
use crate::lifecycle::{StartFailure, StartFailureKind};
use crate::secrets::Secrets;

/// Bytes that one value may have once its names are replaced.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 20;

/// Bytes that all values of a task may have together once their names are replaced. A process that starts is given its
/// environment and arguments in 2 MiB by most kernels.
pub(crate) const TASK_BYTES_MAX: usize = 4 << 20;

/// What a task may refer to, and how many bytes its values may still come to.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) node_id: &'a str,
    pub(crate) node: &'a NodeSpec,
    pub(crate) env: &'a BTreeMap<String, String>,
    /// What is named after `secret.`.
    pub(crate) secrets: &'a Secrets,
    pub(crate) bytes_left: &'a Cell<usize>,
}

impl Names<'_> {
    /// Replaces each `${name}`.
    ///
    /// What looks like a shell's own variable and is none of the task's is left for the shell, and `$${` is how a job
    /// writes `${` itself.
    ///
    /// # Errors
    /// When a name is unknown; the message says which. When the value, or all the task's values together, would be
    /// longer than allowed.
    pub(crate) fn replace(&self, text: &str) -> Result<String, StartFailure> {
        let (mut out, mut rest) = (BoundedText { text: String::new(), bytes_left: self.bytes_left }, text);
        while let Some(start) = rest.find("${") {
            if let Some(before) = rest[..start].strip_suffix('$') {
                out.push(before)?;
                out.push("${")?;
                rest = &rest[start + 2..];
                continue;
            }
            let Some(len) = rest[start..].find('}') else { break };
            let name = rest[start + 2..start + len].trim();
            out.push(&rest[..start])?;
            match self.value(name) {
                Some(value) => out.push(value)?,
                None if is_shell_name(name) => out.push(&rest[start..=start + len])?,
                None => return Err(self.unknown(name)),
            }
            rest = &rest[start + len + 1..];
        }
        out.push(rest)?;
        Ok(out.text)
    }

    /// Replaces in each string of a JSON text, whatever those strings hold afterwards; by other names in some members of it.
    pub(crate) fn replace_in_json<'n>(
        &self,
        json: &str,
        others: impl Fn(&str) -> Option<&'n Names<'n>>,
    ) -> Result<String, StartFailure> {
        if !json.contains("${") {
            return Ok(json.to_owned());
        }
        let value =
            serde_json::from_str(json).map_err(|error| setup(format!("read the settings: {error}")))?;
        let Value::Object(fields) = value else {
            return self.replace_in_value(value).map(|value| value.to_string());
        };
        let fields = fields.into_iter().map(|(key, value)| {
            let names = others(&key).unwrap_or(self);
            Ok((key, names.replace_in_value(value)?))
        });
        Ok(Value::Object(fields.collect::<Result<_, StartFailure>>()?).to_string())
    }

    fn replace_in_value(&self, value: Value) -> Result<Value, StartFailure> {
        Ok(match value {
            Value::String(text) => Value::String(self.replace(&text)?),
            Value::Array(values) => Value::Array(
                values.into_iter().map(|value| self.replace_in_value(value)).collect::<Result<_, _>>()?,
            ),
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(key, value)| Ok((key, self.replace_in_value(value)?)));
                Value::Object(fields.collect::<Result<_, StartFailure>>()?)
            }
            other => other,
        })
    }

    fn value(&self, name: &str) -> Option<&str> {
        let node = self.node;
        let fixed = match name {
            "node.unique.id" => self.node_id,
            "node.unique.name" => node.name.as_str(),
            "node.datacenter" => &node.datacenter,
            "node.pool" => &node.node_pool,
            "node.class" => &node.node_class,
            _ => return self.listed(name).map(String::as_str),
        };
        Some(fixed)
    }

    /// Why a name stands for nothing. What a variable lacks it may have at the next try.
    fn unknown(&self, name: &str) -> StartFailure {
        let secret = name.strip_prefix("secret.").and_then(|rest| rest.split_once('.'));
        match secret {
            Some((secret, item)) if self.secrets.items(secret).is_some() => StartFailure {
                kind: StartFailureKind::Recoverable,
                message: format!(
                    "replace ${{{name}}}: the variable of secret {secret:?} has no item {item:?}"
                ),
            },
            Some(_) => setup(format!(
                "replace ${{{name}}}: the task is given no such secret, or not there: secrets stand in `env`, in `args` of `config`, and \
                 in headers and options of artifacts"
            )),
            None => setup(format!("replace ${{{name}}}: there is no such name")),
        }
    }

    fn listed(&self, name: &str) -> Option<&String> {
        if let Some(item) = name.strip_prefix("secret.") {
            return self.secrets.item(item);
        }
        if let Some(attribute) = name.strip_prefix("attr.") {
            return self.node.attributes.get(attribute);
        }
        if let Some(label) = name.strip_prefix("meta.") {
            return self.node.meta.get(label);
        }
        let quoted = name.strip_prefix("env[\"").and_then(|rest| rest.strip_suffix("\"]"));
        self.env.get(quoted.unwrap_or(name))
    }
}

/// A value that grows within its limits.
struct BoundedText<'a> {
    text: String,
    bytes_left: &'a Cell<usize>,
}

impl BoundedText<'_> {
    fn push(&mut self, part: &str) -> Result<(), StartFailure> {
        if self.text.len() + part.len() > VALUE_BYTES_MAX {
            return Err(setup(format!(
                "replace names in the task's settings: a value would have more than {VALUE_BYTES_MAX} bytes"
            )));
        }
        let left = self.bytes_left.get().checked_sub(part.len()).ok_or_else(|| {
            setup(format!(
                "replace names in the task's settings: all values together would have more than {TASK_BYTES_MAX} bytes"
            ))
        })?;
        self.bytes_left.set(left);
        self.text.push_str(part);
        Ok(())
    }
}

fn is_shell_name(name: &str) -> bool {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    plain && !name.is_empty() && !name.starts_with("NOMAD_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::NO_SECRETS;

    #[test]
    fn names_are_replaced_and_unknown_ones_refused() {
        let node = NodeSpec {
            name: "n1".into(),
            attributes: [("arch".to_owned(), "amd64".to_owned())].into(),
            meta: [("rack".to_owned(), "r\"7".to_owned())].into(),
            ..NodeSpec::default()
        };
        let env = [("NOMAD_PORT_http".to_owned(), "20000".to_owned())].into();
        let items = BTreeMap::from([("password".to_owned(), "${arch}".to_owned())]);
        let secrets = Secrets::from_iter([("db".to_owned(), items)]);
        let bytes_left = Cell::new(TASK_BYTES_MAX);
        let names =
            Names { node_id: "id", node: &node, env: &env, secrets: &secrets, bytes_left: &bytes_left };
        let replace = |text| names.replace(text).map_err(|failure| failure.message);
        let good = replace("${node.unique.id}/${node.unique.name}/${attr.arch}:${NOMAD_PORT_http}");
        assert_eq!(good.as_deref(), Ok("id/n1/amd64:20000"));
        assert_eq!(replace("${env[\"NOMAD_PORT_http\"]} ${ open").as_deref(), Ok("20000 ${ open"));
        assert_eq!(replace("for ${i}").as_deref(), Ok("for ${i}"));
        assert_eq!(replace("$${node.class} ${attr.arch}").as_deref(), Ok("${node.class} amd64"));
        assert_eq!(replace("${secret.db.password}").as_deref(), Ok("${arch}"), "and no further");
        let refusal = names.replace("${secret.db.user}").expect_err("unknown");
        assert_eq!(
            refusal.message,
            "replace ${secret.db.user}: the variable of secret \"db\" has no item \"user\""
        );
        assert_eq!(refusal.kind, StartFailureKind::Recoverable);
        let refusal = names.replace("${secret.x.password}").expect_err("unknown");
        assert!(refusal.message.contains("the task is given no such secret"), "{}", refusal.message);
        for unknown in ["secret.db", "attr.none", "meta.x", "NOMAD_PORT_x", "env[\"X\"]", "nonsense.x"] {
            let refusal = names.replace(&format!("${{{unknown}}}")).expect_err("unknown");
            assert_eq!(refusal.message, format!("replace ${{{unknown}}}: there is no such name"));
        }
        let json = names.replace_in_json(r#"{"a": ["${meta.rack}"], "b": 1}"#, |_| None).expect("good");
        assert_eq!(json, r#"{"a":["r\"7"],"b":1}"#);
        let without_secrets = Names { secrets: &NO_SECRETS, ..names };
        let json = r#"{"args": ["${secret.db.password}"], "command": "x"}"#;
        let args = |name: &str| (name == "args").then_some(&names);
        let replaced = without_secrets.replace_in_json(json, args).expect("good");
        assert_eq!(replaced, r#"{"args":["${arch}"],"command":"x"}"#);
        assert!(
            without_secrets
                .replace_in_json(&json.replace("\"x\"", "\"${secret.db.password}\""), args)
                .is_err()
        );
    }

    #[test]
    fn what_names_stand_for_does_not_multiply_without_bounds() {
        let node = NodeSpec { name: "n".repeat(1 << 10), ..NodeSpec::default() };
        let (env, secrets, bytes_left) = (BTreeMap::new(), Secrets::default(), Cell::new(TASK_BYTES_MAX));
        let names =
            Names { node_id: "id", node: &node, env: &env, secrets: &secrets, bytes_left: &bytes_left };
        let full = "${node.unique.name}".repeat(1 << 10);
        assert_eq!(names.replace(&full).map(|value| value.len()), Ok(VALUE_BYTES_MAX));
        let refusal = names.replace(&format!("{full}x")).expect_err("too long").message;
        assert!(refusal.ends_with("a value would have more than 1048576 bytes"), "{refusal}");
        bytes_left.set(VALUE_BYTES_MAX + 1);
        assert!(names.replace(&full).is_ok());
        let refusal = names.replace("xy").expect_err("too much").message;
        assert!(refusal.ends_with("all values together would have more than 4194304 bytes"), "{refusal}");
    }
}
