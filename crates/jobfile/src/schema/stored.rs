//! Blocks that are stored as they are: of the right types, under their names in JSON, and not interpreted.

use berth_duration::to_nanos;
use berth_model::{job::IgnoredSettings, value::Value};

use super::{Body, Field, Schema, Shape, unenforced::is_unenforced};

/// What is stored of jobs, groups, tasks, and of a task's resources and a group's network.
pub(crate) const STORED_OF_JOB: &[&str] = &["multiregion", "ui", "consul_namespace", "vault_namespace"];
pub(crate) const STORED_OF_GROUP: &[&str] =
    &["stop_after_client_disconnect", "max_client_disconnect", "prevent_reschedule_on_lost", "consul"];
pub(crate) const STORED_OF_TASK: &[&str] = &["vault", "consul", "action", "schedule", "csi_plugin", "kind"];
pub(crate) const STORED_OF_RESOURCES: &[&str] = &["numa", "secrets", "disk", "iops", "network"];
pub(crate) const STORED_OF_NETWORK: &[&str] = &["dns", "cni", "mbits", "Device", "CIDR", "IP"];

/// Flags and numbers that Nomad's clients read as pointers: null where they are not given, by their names in JSON.
const POINTERS: &[&str] = &["PreventRescheduleOnLost", "SecretsMB", "DiskMB", "IOPS", "MBits"];
/// The one cluster of Consul that a service has unless it names another.
const CLUSTER: (&str, &str) = ("Cluster", "default");

impl Schema {
    /// A kept setting by its name.
    pub fn named(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name() == name)
    }
}

impl Field {
    /// What JSON holds for a stored setting that is not given: what a client reads that expects the member.
    pub fn unset(&self) -> Value {
        match self.shape {
            Shape::Text if self.json == CLUSTER.0 => Value::String(CLUSTER.1.to_owned()),
            Shape::Text => Value::String(String::new()),
            Shape::Flag | Shape::Whole if POINTERS.contains(&self.json) => Value::Null,
            Shape::Flag => Value::Bool(false),
            Shape::Whole => Value::Int(0),
            _ => Value::Null,
        }
    }
}

impl Body<'_> {
    /// The named fields, in as far as they say anything: what JSON has for a setting that is not given says nothing.
    pub fn kept(&self, names: &[&str]) -> IgnoredSettings {
        let fields = names.iter().filter(|name| self.has(name)).filter_map(|name| self.field(name));
        let stored = |field: &Field| self.stored_value(field).filter(|value| *value != field.unset());
        fields.filter_map(|field| Some((field.json.to_owned(), stored(field)?))).collect()
    }

    /// Every field that is given, and the label, whatever is acted upon.
    pub fn as_given(&self) -> Value {
        self.report.quietly(|| object(self.stored_whole()))
    }

    /// Every field, and the label.
    fn stored_whole(&self) -> IgnoredSettings {
        let (named, short): (Vec<&Field>, Vec<&Field>) =
            self.schema.fields.iter().partition(|field| !field.json.is_empty());
        let named = named.into_iter();
        let mut settings: IgnoredSettings =
            named.filter_map(|field| Some((field.json.to_owned(), self.stored_value(field)?))).collect();
        settings.extend(short.into_iter().flat_map(|field| self.stored_short_form(field)));
        if let (Some(key), Some(label)) = (self.schema.label, self.label()) {
            // A job's `id` counts for more than its label.
            settings.entry(key.to_owned()).or_insert(Value::String(label));
        }
        settings
    }

    /// What HCL alone has a name for, in the members that JSON has for it: the ports of a network are two lists there, and a
    /// short form of a comparison is its operator and a side.
    fn stored_short_form(&self, field: &Field) -> Vec<(String, Value)> {
        let members = |members: Vec<(&str, Option<Value>)>| -> Vec<(String, Value)> {
            let present = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            present.collect()
        };
        if field.hcl != "port" && field.shape.schema().is_some() {
            // It stands in for blocks elsewhere.
            return Vec::new();
        }
        if let Shape::Blocks(_) = field.shape {
            let (fixed, dynamic): (Vec<Body<'_>>, Vec<Body<'_>>) =
                self.blocks(field.hcl).into_iter().partition(|port| port.has("static"));
            let kept = |ports: Vec<Body<'_>>| list(ports.iter().map(|port| object(port.stored_whole())));
            return members(vec![("DynamicPorts", kept(dynamic)), ("ReservedPorts", kept(fixed))]);
        }
        let Some(value) = self.text(field.hcl).map(Value::String) else { return Vec::new() };
        if field.hcl == "id" {
            return vec![("ID".to_owned(), value)];
        }
        let side = if field.hcl == "distinct_property" { "LTarget" } else { "RTarget" };
        members(vec![("Operand", Some(Value::String(field.hcl.to_owned()))), (side, Some(value))])
    }

    /// What has no effect has nothing in it that has one, and its own warning says so.
    fn stored_value(&self, field: &Field) -> Option<Value> {
        match is_unenforced(self.schema, field.name()) {
            true => self.report.without_warnings(|| self.value_to_store(field)),
            false => self.value_to_store(field),
        }
        .inspect(|_| {
            if let Shape::Block(_) = field.shape {
                self.warn_unenforced(field.name());
            }
        })
    }

    fn value_to_store(&self, field: &Field) -> Option<Value> {
        let name = field.name();
        Some(match field.shape {
            Shape::Text => Value::String(self.filled_text(name)?),
            Shape::Flag => Value::Bool(self.flag(name)?),
            Shape::Whole => Value::Int(self.number(name, i64::MIN..=i64::MAX)?),
            Shape::Duration => Value::Int(to_nanos(self.duration(name)?)),
            Shape::Texts => list(self.texts(name)?.into_iter().map(Value::String))?,
            Shape::Wholes => list(self.wholes(name)?.into_iter().map(Value::Int))?,
            Shape::TextMap => map(self.text_map(name).into_iter().map(|(k, v)| (k, Value::String(v))))?,
            Shape::TextsMap => map(self
                .texts_map(name)
                .into_iter()
                .map(|(k, v)| (k, Value::List(v.into_iter().map(Value::String).collect()))))?,
            Shape::Settings => map(self.settings(name))?,
            Shape::Block(_) => self.stored_block(name)?,
            Shape::Blocks(_) => list(self.blocks(name).iter().map(|block| object(block.stored_whole())))?,
            Shape::Labelled(_) => map(self
                .blocks(name)
                .iter()
                .map(|block| (block.label().unwrap_or_default(), object(block.stored_whole()))))?,
        })
    }

    /// A block, even if it holds nothing: that it is there says something, as `sidecar_service {}` does.
    fn stored_block(&self, name: &str) -> Option<Value> {
        Some(object(self.block(name)?.stored_whole()))
    }
}

fn list(values: impl Iterator<Item = Value>) -> Option<Value> {
    let values: Vec<Value> = values.collect();
    if values.is_empty() { None } else { Some(Value::List(values)) }
}

fn map(members: impl IntoIterator<Item = (String, Value)>) -> Option<Value> {
    let mut members = members.into_iter().peekable();
    members.peek().is_some().then_some(())?;
    Some(Value::Map(members.collect()))
}

fn object(kept: IgnoredSettings) -> Value {
    Value::Map(kept.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use crate::{Inputs, parse_hcl, parse_json, to_json};

    /// The first task of a job with this in its group, as it is in JSON; it says the same when it is read again.
    fn group(inside: &str) -> Json {
        let source = format!("job \"j\" {{\n group \"g\" {{\n{inside}\n}}\n}}");
        let job = parse_hcl(&source, "test", &Inputs::default()).expect("it is a job").job;
        let json = to_json(&job);
        let again = parse_json(json.to_string().as_bytes(), "test").expect("it can be sent").job;
        assert_eq!(to_json(&again), json);
        json["TaskGroups"][0].clone()
    }

    #[test]
    fn ports_of_a_task_are_kept_as_json_has_them() {
        let group = group(
            "task \"t\" {\n driver = \"mock\"\n resources {\n network {\n mbits = 10\n port \"http\" {}\n \
             port \"admin\" {\n static = 9000\n}\n}\n}\n}",
        );
        let network = &group["Tasks"][0]["Resources"]["Networks"][0];
        assert_eq!(network["DynamicPorts"], json!([{ "Label": "http" }]));
        assert_eq!(network["ReservedPorts"], json!([{ "Label": "admin", "Value": 9000 }]));
        assert_eq!(network["MBits"], 10);
    }

    #[test]
    fn short_forms_of_comparisons_are_kept_as_json_has_them() {
        let group = group(
            "service {\n name = \"s\"\n connect {\n sidecar_service {}\n sidecar_task {\n resources {\n device \"gpu\" {\n \
             constraint {\n attribute = \"${device.attr.a}\"\n version = \">= 2\"\n}\n \
             constraint {\n distinct_property = \"${meta.rack}\"\n value = \"2\"\n}\n \
             constraint {\n attribute = \"${device.attr.b}\"\n is_set = true\n}\n \
             affinity {\n attribute = \"${device.attr.c}\"\n regexp = \"x\"\n}\n}\n}\n}\n}\n}\n \
             task \"t\" {\n driver = \"mock\"\n}",
        );
        let device = &group["Services"][0]["Connect"]["SidecarTask"]["Resources"]["Devices"][0];
        let expected = json!([
            { "LTarget": "${device.attr.a}", "Operand": "version", "RTarget": ">= 2" },
            { "LTarget": "${meta.rack}", "Operand": "distinct_property", "RTarget": "2" },
            { "LTarget": "${device.attr.b}", "Operand": "is_set", "RTarget": "true" },
        ]);
        assert_eq!(device["Constraints"], expected);
        let expected = json!([{ "LTarget": "${device.attr.c}", "Operand": "regexp", "RTarget": "x" }]);
        assert_eq!(device["Affinities"], expected);
    }
}
