//! Reads a record from a block. What the block leaves out stays as it was.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use berth_model::{job::IgnoredSettings, value::Value};

use super::{COUNT, Fields, Record, Words};
use crate::schema::Body;

/// A block that is being read.
#[derive(Debug)]
pub(crate) struct Reader<'b, 't>(&'b Body<'t>);

impl Body<'_> {
    /// The record that the block makes of a default, as yet unchecked.
    pub fn unchecked_over<R: Record>(&self, mut record: R) -> R {
        record.bind(&mut Reader(self));
        record
    }

    /// The record that the block makes of a default.
    pub fn record_over<R: Record>(&self, default: R) -> R {
        let record = self.unchecked_over(default);
        record.check(self);
        record
    }

    /// The record that the block is.
    pub fn record<R: Record + Default>(&self) -> R {
        self.record_over(R::default())
    }

    /// The record of a block that need not be there.
    pub fn optional<R: Record + Default>(&self, name: &str) -> Option<R> {
        let record: R = self.block(name)?.record();
        if record != R::default() {
            self.warn_unenforced(name);
        }
        Some(record)
    }

    /// The records of all blocks of that name.
    pub fn records<R: Record + Default>(&self, name: &str) -> Vec<R> {
        self.blocks(name).iter().map(Body::record).collect()
    }
}

fn set<T>(field: &mut T, read: Option<T>) {
    if let Some(value) = read {
        *field = value;
    }
}

impl Fields for Reader<'_, '_> {
    /// Empty text is what clients send for what was never set.
    fn text(&mut self, name: &'static str, field: &mut String) {
        set(field, self.0.filled_text(name));
    }

    fn flag(&mut self, name: &'static str, field: &mut bool) {
        set(field, self.0.flag(name));
    }

    fn whole(&mut self, name: &'static str, field: &mut u32, limits: RangeInclusive<i64>) {
        set(field, self.0.number(name, limits));
    }

    fn maybe_whole(&mut self, name: &'static str, field: &mut Option<u32>) {
        set(field, self.0.number(name, COUNT).map(Some));
    }

    fn duration(&mut self, name: &'static str, field: &mut Duration) {
        set(field, self.0.duration(name));
    }

    fn maybe_duration(&mut self, name: &'static str, field: &mut Option<Duration>) {
        set(field, self.0.duration(name).map(Some));
    }

    fn texts(&mut self, name: &'static str, field: &mut Vec<String>) {
        set(field, self.0.texts(name));
    }

    fn text_map(&mut self, name: &'static str, field: &mut BTreeMap<String, String>) {
        if self.0.has(name) {
            *field = self.0.text_map(name);
        }
    }

    fn texts_map(&mut self, name: &'static str, field: &mut BTreeMap<String, Vec<String>>) {
        if self.0.has(name) {
            *field = self.0.texts_map(name);
        }
    }

    fn settings(&mut self, name: &'static str, field: &mut BTreeMap<String, Value>) {
        if self.0.has(name) {
            *field = self.0.settings(name);
        }
    }

    fn word<T: Copy + PartialEq>(&mut self, name: &'static str, field: &mut T, words: &Words<T>) {
        set(field, self.0.choice(name, words));
    }

    fn one_of(&mut self, name: &'static str, field: &mut String, words: &[&'static str]) {
        let words: Vec<(&str, &str)> = words.iter().map(|word| (*word, *word)).collect();
        set(field, self.0.choice(name, &words).map(str::to_owned));
    }

    fn label(&mut self, field: &mut String) {
        set(field, self.0.label());
    }

    fn record<R: Record + Default>(&mut self, name: &'static str, field: &mut Option<R>) {
        set(field, self.0.optional(name).map(Some));
    }

    fn records<R: Record + Default>(&mut self, name: &'static str, field: &mut Vec<R>) {
        if self.0.has(name) {
            *field = self.0.records(name);
        }
    }

    fn kept(&mut self, names: &[&'static str], field: &mut IgnoredSettings) {
        field.extend(self.0.kept(names));
    }
}
