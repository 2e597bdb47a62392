//! Blocks that are plain records of settings: which setting is which field is defined once, for reading and for writing.

mod read;
mod write;

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use berth_model::{job::IgnoredSettings, value::Value};

use crate::schema::{Body, Schema};

pub(crate) use write::{object, write};

/// Any number that the field can hold.
pub(crate) const COUNT: RangeInclusive<i64> = 0..=u32::MAX as i64;

/// A block and the struct that holds its settings.
pub(crate) trait Record: Clone + PartialEq {
    /// The names of its settings.
    fn schema() -> &'static Schema;

    /// Shows each setting to the reader or writer, together with the field that holds it.
    fn bind(&mut self, fields: &mut impl Fields);

    /// Reports what is wrong with settings that are right each on its own.
    fn check(&self, _: &Body<'_>) {}
}

/// What reads a record's settings, or writes them. Settings go by their names in HCL, or in JSON if they have none.
pub(crate) trait Fields {
    fn text(&mut self, name: &'static str, field: &mut String);
    fn flag(&mut self, name: &'static str, field: &mut bool);
    /// A whole number within limits.
    fn whole(&mut self, name: &'static str, field: &mut u32, limits: RangeInclusive<i64>);
    fn maybe_whole(&mut self, name: &'static str, field: &mut Option<u32>);
    fn duration(&mut self, name: &'static str, field: &mut Duration);
    fn maybe_duration(&mut self, name: &'static str, field: &mut Option<Duration>);
    fn texts(&mut self, name: &'static str, field: &mut Vec<String>);
    fn text_map(&mut self, name: &'static str, field: &mut BTreeMap<String, String>);
    fn texts_map(&mut self, name: &'static str, field: &mut BTreeMap<String, Vec<String>>);
    fn settings(&mut self, name: &'static str, field: &mut BTreeMap<String, Value>);
    /// One of a few words.
    fn word<T: Copy + PartialEq>(&mut self, name: &'static str, field: &mut T, words: &Words<T>);
    /// Text that must be one of a few words.
    fn one_of(&mut self, name: &'static str, field: &mut String, words: &[&'static str]);
    /// The block's label.
    fn label(&mut self, field: &mut String);
    fn record<R: Record + Default>(&mut self, name: &'static str, field: &mut Option<R>);
    fn records<R: Record + Default>(&mut self, name: &'static str, field: &mut Vec<R>);
    /// Settings that are only kept.
    fn kept(&mut self, names: &[&'static str], field: &mut IgnoredSettings);
}

/// Words and what they stand for.
pub(crate) type Words<T> = [(&'static str, T)];

impl<R: Record> Record for Box<R> {
    fn schema() -> &'static Schema {
        R::schema()
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        R::bind(self, fields);
    }

    fn check(&self, body: &Body<'_>) {
        R::check(self, body);
    }
}
