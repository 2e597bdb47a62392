//! The tables: one for each kind of block. Names in HCL, names in JSON, and how they are written.

mod connect;
mod files;
mod group;
mod job;
mod network;
mod placement;
mod policy;
mod rules;
mod service;
mod task;
mod tenant;

use super::{Field, Schema, Shape};

pub(crate) use connect::SIDECAR_TASK;
pub(crate) use files::*;
pub(crate) use group::*;
pub(crate) use job::*;
pub(crate) use network::*;
pub(crate) use placement::*;
pub(crate) use policy::*;
pub(crate) use rules::*;
pub(crate) use service::*;
pub(crate) use task::*;
pub(crate) use tenant::*;

const fn field(hcl: &'static str, json: &'static str, shape: Shape) -> Field {
    Field { hcl, json, shape }
}

const fn text(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Shape::Text)
}

const fn flag(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Shape::Flag)
}

const fn whole(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Shape::Whole)
}

const fn duration(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Shape::Duration)
}

const fn texts(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Shape::Texts)
}

const fn text_map(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Shape::TextMap)
}

const fn settings(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Shape::Settings)
}

const fn block(hcl: &'static str, json: &'static str, schema: &'static Schema) -> Field {
    field(hcl, json, Shape::Block(schema))
}

const fn blocks(hcl: &'static str, json: &'static str, schema: &'static Schema) -> Field {
    field(hcl, json, Shape::Blocks(schema))
}

const fn labelled(hcl: &'static str, json: &'static str, schema: &'static Schema) -> Field {
    field(hcl, json, Shape::Labelled(schema))
}

/// A block without a label.
const fn schema(what: &'static str, fields: &'static [Field]) -> Schema {
    Schema { what, label: None, fields, server_owned: &[] }
}

/// A block with a label, which has a key of its own in JSON.
const fn labelled_schema(what: &'static str, label: &'static str, fields: &'static [Field]) -> Schema {
    Schema { what, label: Some(label), fields, server_owned: &[] }
}

/// All tables, to find where a misplaced name belongs: the more a name is used there, the earlier.
pub(super) static ALL: &[&Schema] = &[
    &FILE,
    &JOB,
    &GROUP,
    &TASK,
    &RESOURCES,
    &LOGS,
    &RESTART,
    &RESCHEDULE,
    &EPHEMERAL_DISK,
    &NETWORK,
    &PORT,
    &CONSTRAINT,
    &SPREAD,
    &TARGET,
    &AFFINITY,
    &UPDATE,
    &MIGRATE,
    &DISCONNECT,
    &PERIODIC,
    &PARAMETERIZED,
    &SERVICE,
    &CHECK,
    &CHECK_RESTART,
    &LIFECYCLE,
    &TEMPLATE,
    &ARTIFACT,
    &VOLUME,
    &VOLUME_MOUNT,
    &SCALING,
    &IDENTITY,
    &DEVICE,
    &VAULT,
    &SECRET,
    &SIDECAR_TASK,
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use serde_json::Value as Json;

    use super::*;

    /// Settings that come back under another name.
    const RENAMED: &[(&str, &str)] = &[("periodic", "Spec"), ("logs", "Enabled")];
    /// Settings that no good file has: of providers that are programs, which there are not.
    const REFUSED: &[(&str, &str)] = &[("secret", "Env")];

    type Seen = BTreeSet<(&'static str, &'static str)>;

    #[test]
    fn no_table_has_a_name_twice() {
        let spellings: [fn(&Field) -> &'static str; 2] = [|field| field.hcl, |field| field.json];
        for (schema, spelling) in ALL.iter().flat_map(|schema| spellings.map(|spelling| (schema, spelling))) {
            let names: Vec<_> = schema.fields.iter().map(spelling).filter(|name| !name.is_empty()).collect();
            let distinct: BTreeSet<_> = names.iter().collect();
            assert_eq!(distinct.len(), names.len(), "{}: {names:?}", schema.what);
        }
    }

    /// Every setting of a table and of those below it.
    fn all(schema: &'static Schema, seen: &mut Seen) {
        for field in schema.fields.iter().filter(|field| !field.json.is_empty()) {
            if seen.insert((schema.what, field.json))
                && let Some(below) = field.shape.schema()
            {
                all(below, seen);
            }
        }
    }

    /// The settings that a document gives, in as far as they say anything.
    fn collect_set(json: &Json, schema: &'static Schema, seen: &mut Seen) {
        for field in schema.fields {
            let value = &json[field.json];
            if value.is_null() {
                continue;
            }
            seen.insert((schema.what, field.json));
            match (field.shape, value) {
                (Shape::Block(below), value) => collect_set(value, below, seen),
                (Shape::Blocks(below), Json::Array(items)) => {
                    items.iter().for_each(|item| collect_set(item, below, seen))
                }
                (Shape::Labelled(below), Json::Object(members)) => {
                    members.values().for_each(|member| collect_set(member, below, seen));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn the_job_files_of_the_tests_bring_every_setting_through() {
        let folder = format!("{}/tests/good", env!("CARGO_MANIFEST_DIR"));
        let (mut wanted, mut found) = (Seen::new(), Seen::new());
        all(&JOB, &mut wanted);
        for file in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if file.to_string_lossy().ends_with(".expected.json") {
                let text = fs::read_to_string(file).expect("a file");
                collect_set(&serde_json::from_str(&text).expect("JSON"), &JOB, &mut found);
            }
        }
        let known = [RENAMED, REFUSED].concat();
        let missing: Vec<_> = wanted.difference(&found).filter(|setting| !known.contains(setting)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
