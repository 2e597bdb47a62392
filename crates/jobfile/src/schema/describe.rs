//! A job in JSON as JSON Schema has it, for descriptions of APIs: made from the tables that read it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{JOB, Schema, Shape};

/// The definitions of a job and all that may stand in it, by name; `Job` is the job's. References begin with `path`.
pub fn definitions(path: &str) -> BTreeMap<String, Value> {
    let mut found = Definitions { path, names: Vec::new(), all: BTreeMap::new() };
    found.define(&JOB, "");
    found.all
}

struct Definitions<'p> {
    path: &'p str,
    /// The kinds of blocks that have a name.
    names: Vec<(&'static Schema, String)>,
    all: BTreeMap<String, Value>,
}

impl Definitions<'_> {
    /// Defines a kind of block that stands in another one; gives its name.
    fn define(&mut self, schema: &'static Schema, parent: &str) -> String {
        if let Some((_, name)) = self.names.iter().find(|(known, _)| std::ptr::eq(*known, schema)) {
            return name.clone();
        }
        let name = self.free_name(schema, parent);
        // Before its parts, of which one may hold such a block again.
        self.names.push((schema, name.clone()));
        let mut properties = Map::new();
        if let Some(label) = schema.label {
            properties.insert(label.to_owned(), json!({ "type": ["string", "null"] }));
        }
        for field in schema.fields.iter().filter(|field| !field.json.is_empty()) {
            properties.insert(field.json.to_owned(), self.written(field.shape, &name));
        }
        let described = json!({ "description": schema.what, "type": "object", "properties": properties });
        self.all.insert(name.clone(), described);
        name
    }

    /// `Job`; `JobTemplate` for the block that messages call `template`; with the name of what it stands in where several
    /// are called so.
    fn free_name(&self, schema: &'static Schema, parent: &str) -> String {
        let words = schema.what.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let own: String = words.map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect();
        let is_free = |name: &String| !self.names.iter().any(|(_, taken)| taken == name);
        let short = if parent.is_empty() { own.clone() } else { format!("Job{own}") };
        let numbered = (2..).map(|number| format!("{parent}{own}{number}"));
        let mut names = [short, format!("{parent}{own}")].into_iter().chain(numbered);
        names.find(is_free).unwrap_or_default()
    }

    fn written(&mut self, shape: Shape, parent: &str) -> Value {
        let list = |items: Value| json!({ "type": ["array", "null"], "items": items });
        let map = |values: Value| json!({ "type": ["object", "null"], "additionalProperties": values });
        let (text, whole) = (json!({ "type": "string" }), json!({ "type": "integer" }));
        match shape {
            Shape::Text => json!({ "type": ["string", "null"] }),
            Shape::Flag => json!({ "type": ["boolean", "null"] }),
            Shape::Whole => json!({ "type": ["integer", "null"] }),
            Shape::Duration => json!({
                "description": "Nanoseconds; a text as `1h30m` is read too",
                "type": ["integer", "string", "null"],
            }),
            Shape::Texts => list(text),
            Shape::Wholes => list(whole),
            Shape::TextMap => map(text),
            Shape::TextsMap => map(list(text)),
            Shape::Settings => map(json!({})),
            Shape::Block(part) => json!({ "anyOf": [self.reference(part, parent), { "type": "null" }] }),
            Shape::Blocks(part) => list(self.reference(part, parent)),
            Shape::Labelled(part) => map(self.reference(part, parent)),
        }
    }

    fn reference(&mut self, part: &'static Schema, parent: &str) -> Value {
        let name = self.define(part, parent);
        json!({ "$ref": format!("{}{name}", self.path) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind of block once: two of one name would be taken for each other.
    fn kinds(schema: &'static Schema, found: &mut Vec<&'static Schema>) {
        if found.iter().any(|known| std::ptr::eq(*known, schema)) {
            return;
        }
        found.push(schema);
        for field in schema.fields.iter().filter(|field| !field.json.is_empty()) {
            if let Shape::Block(part) | Shape::Blocks(part) | Shape::Labelled(part) = field.shape {
                kinds(part, found);
            }
        }
    }

    #[test]
    fn each_kind_of_block_has_a_definition_of_its_own() {
        let mut found = Vec::new();
        kinds(&JOB, &mut found);
        let all = definitions("#/");
        assert_eq!(all.len(), found.len(), "{:?}", all.keys());
        assert_eq!(all["Job"]["properties"]["TaskGroups"]["items"]["$ref"], "#/JobGroup");
    }

    #[test]
    fn what_is_written_of_a_job_is_described() {
        let source = "job \"j\" {\n group \"g\" {\n task \"t\" {\n driver = \"d\"\n}\n}\n}";
        let job = crate::parse_hcl(source, "test", &crate::Inputs::default()).expect("it is a job").job;
        let written = crate::to_json(&job);
        let all = definitions("#/");
        let known = |definition: &str, object: &Value| {
            for key in object.as_object().expect("an object").keys() {
                assert!(all[definition]["properties"].get(key).is_some(), "{definition} has no {key}");
            }
        };
        known("Job", &written);
        known("JobGroup", &written["TaskGroups"][0]);
        known("JobTask", &written["TaskGroups"][0]["Tasks"][0]);
        known("JobResources", &written["TaskGroups"][0]["Tasks"][0]["Resources"]);
    }
}
