//! Writes a record as JSON: every setting, null for empty lists and maps.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use berth_duration::to_nanos;
use berth_model::{job::IgnoredSettings, value::Value};
use serde_json::{Map, Value as Json};

use super::{Fields, Record, Words};
use crate::{
    json::write::{list, map, setting},
    schema::Schema,
};

/// The JSON of a record.
pub(crate) fn write<R: Record>(record: &R) -> Json {
    let mut writer = Writer { schema: R::schema(), object: Map::new() };
    // Reading and writing share one list of fields; the writer only looks at them.
    record.clone().bind(&mut writer);
    Json::Object(writer.object)
}

/// Settings that are only kept, as members of an object: all of those names, so that a client finds each that it reads.
pub(crate) fn object(schema: &Schema, names: &[&str], kept: &IgnoredSettings) -> Map<String, Json> {
    let fields = names.iter().filter_map(|name| schema.named(name));
    let mut members: Map<String, Json> =
        fields.map(|field| (field.json.to_owned(), setting(&field.unset()))).collect();
    members.extend(kept.iter().map(|(key, value)| (key.clone(), setting(value))));
    members
}

struct Writer {
    schema: &'static Schema,
    object: Map<String, Json>,
}

impl Writer {
    fn put(&mut self, name: &str, value: impl Into<Json>) {
        let key = self.schema.named(name).map_or("", |field| field.json);
        self.object.insert(key.to_owned(), value.into());
    }
}

impl Fields for Writer {
    fn text(&mut self, name: &'static str, field: &mut String) {
        self.put(name, field.as_str());
    }

    fn flag(&mut self, name: &'static str, field: &mut bool) {
        self.put(name, *field);
    }

    fn whole(&mut self, name: &'static str, field: &mut u32, _: RangeInclusive<i64>) {
        self.put(name, *field);
    }

    fn maybe_whole(&mut self, name: &'static str, field: &mut Option<u32>) {
        self.put(name, *field);
    }

    fn duration(&mut self, name: &'static str, field: &mut Duration) {
        self.put(name, to_nanos(*field));
    }

    fn maybe_duration(&mut self, name: &'static str, field: &mut Option<Duration>) {
        self.put(name, field.map(to_nanos));
    }

    fn texts(&mut self, name: &'static str, field: &mut Vec<String>) {
        self.put(name, list(field, |text| text.as_str().into()));
    }

    fn text_map(&mut self, name: &'static str, field: &mut BTreeMap<String, String>) {
        self.put(name, map(field, |text| text.as_str().into()));
    }

    fn texts_map(&mut self, name: &'static str, field: &mut BTreeMap<String, Vec<String>>) {
        self.put(name, map(field, |texts| texts.iter().map(String::as_str).collect()));
    }

    fn settings(&mut self, name: &'static str, field: &mut BTreeMap<String, Value>) {
        self.put(name, map(field, setting));
    }

    fn word<T: Copy + PartialEq>(&mut self, name: &'static str, field: &mut T, words: &Words<T>) {
        let word = words.iter().find(|(_, value)| value == field).map_or("", |(word, _)| word);
        self.put(name, word);
    }

    fn one_of(&mut self, name: &'static str, field: &mut String, _: &[&'static str]) {
        self.put(name, field.as_str());
    }

    fn label(&mut self, field: &mut String) {
        let key = self.schema.label.unwrap_or_default();
        self.object.insert(key.to_owned(), field.as_str().into());
    }

    fn record<R: Record + Default>(&mut self, name: &'static str, field: &mut Option<R>) {
        self.put(name, field.as_ref().map(write));
    }

    fn records<R: Record + Default>(&mut self, name: &'static str, field: &mut Vec<R>) {
        self.put(name, list(field, write));
    }

    fn kept(&mut self, names: &[&'static str], field: &mut IgnoredSettings) {
        self.object.extend(object(self.schema, names, field));
    }
}
