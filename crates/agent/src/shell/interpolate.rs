//! Replaces `${...}` in what a job says of a task.

use std::collections::BTreeMap;

use berth_api::agent::NodeSpec;
use serde_json::Value;

use crate::drivers::settings::setup;
use crate::lifecycle::StartFailure;

/// What a task may refer to.
pub(crate) struct Names<'a> {
    pub(crate) node_id: &'a str,
    pub(crate) node: &'a NodeSpec,
    pub(crate) env: &'a BTreeMap<String, String>,
}

impl Names<'_> {
    /// Replaces each `${name}`.
    ///
    /// What looks like a shell's own variable and is none of the task's is left for the shell, and `$${` is how a job
    /// writes `${` itself.
    ///
    /// # Errors
    /// When a name is unknown; the message says which.
    pub(crate) fn replace(&self, text: &str) -> Result<String, StartFailure> {
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(start) = rest.find("${") {
            if let Some(before) = rest[..start].strip_suffix('$') {
                out = out + before + "${";
                rest = &rest[start + 2..];
                continue;
            }
            let Some(len) = rest[start..].find('}') else { break };
            let name = rest[start + 2..start + len].trim();
            out += &rest[..start];
            match self.value(name) {
                Some(value) => out += &value,
                None if is_shell_name(name) => out += &rest[start..=start + len],
                None => return Err(setup(format!("replace ${{{name}}}: there is no such name"))),
            }
            rest = &rest[start + len + 1..];
        }
        Ok(out + rest)
    }

    /// Replaces in each string of a JSON text, whatever those strings hold afterwards.
    pub(crate) fn replace_in_json(&self, json: &str) -> Result<String, StartFailure> {
        if !json.contains("${") {
            return Ok(json.to_owned());
        }
        let value =
            serde_json::from_str(json).map_err(|error| setup(format!("read the settings: {error}")))?;
        self.replace_in_value(value).map(|value| value.to_string())
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

    fn value(&self, name: &str) -> Option<String> {
        let node = self.node;
        let fixed = match name {
            "node.unique.id" => self.node_id,
            "node.unique.name" => &node.name,
            "node.datacenter" => &node.datacenter,
            "node.pool" => &node.node_pool,
            "node.class" => &node.node_class,
            _ => return self.listed(name).cloned(),
        };
        Some(fixed.to_owned())
    }

    fn listed(&self, name: &str) -> Option<&String> {
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

fn is_shell_name(name: &str) -> bool {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    plain && !name.is_empty() && !name.starts_with("NOMAD_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_unknown_ones_refused() {
        let node = NodeSpec {
            name: "n1".into(),
            attributes: [("arch".to_owned(), "amd64".to_owned())].into(),
            meta: [("rack".to_owned(), "r\"7".to_owned())].into(),
            ..NodeSpec::default()
        };
        let env = [("NOMAD_PORT_http".to_owned(), "20000".to_owned())].into();
        let names = Names { node_id: "id", node: &node, env: &env };
        let replace = |text| names.replace(text).map_err(|failure| failure.message);
        let good = replace("${node.unique.id}/${node.unique.name}/${attr.arch}:${NOMAD_PORT_http}");
        assert_eq!(good.as_deref(), Ok("id/n1/amd64:20000"));
        assert_eq!(replace("${env[\"NOMAD_PORT_http\"]} ${ open").as_deref(), Ok("20000 ${ open"));
        assert_eq!(replace("for ${i}").as_deref(), Ok("for ${i}"));
        assert_eq!(replace("$${node.class} ${attr.arch}").as_deref(), Ok("${node.class} amd64"));
        for unknown in ["attr.none", "meta.x", "NOMAD_PORT_x", "env[\"X\"]", "nonsense.x"] {
            let refusal = names.replace(&format!("${{{unknown}}}")).expect_err("unknown");
            assert_eq!(refusal.message, format!("replace ${{{unknown}}}: there is no such name"));
        }
        let json = names.replace_in_json(r#"{"a": ["${meta.rack}"], "b": 1}"#).expect("good");
        assert_eq!(json, r#"{"a":["r\"7"],"b":1}"#);
    }
}
