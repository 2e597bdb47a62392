//! Blocks that are kept as they are: of the right types, under their names in JSON, and never looked at again.

use berth_model::{job::Kept, value::Value};

use super::{Body, Field, Shape};
use crate::{duration::to_nanos, tree::Tree};

impl Body<'_> {
    /// The named fields, in as far as they say anything.
    pub fn kept(&self, names: &[&str]) -> Kept {
        let fields = names.iter().filter(|name| self.has(name)).filter_map(|name| self.field(name));
        fields.filter_map(|field| Some((field.json.to_owned(), self.kept_value(field)?))).collect()
    }

    /// Every field, and the label.
    fn kept_whole(&self) -> Kept {
        let fields = self.schema.fields.iter();
        let mut kept: Kept =
            fields.filter_map(|field| Some((field.json.to_owned(), self.kept_value(field)?))).collect();
        if let (Some(key), Some(label)) = (self.schema.label, self.label()) {
            kept.insert(key.to_owned(), Value::String(label));
        }
        kept
    }

    fn kept_value(&self, field: &Field) -> Option<Value> {
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
            Shape::Block(_) => self.kept_block(name)?,
            Shape::Blocks(_) => list(self.blocks(name).iter().map(|block| object(block.kept_whole())))?,
            Shape::Labelled(_) => map(self
                .blocks(name)
                .iter()
                .map(|block| (block.label().unwrap_or_default(), object(block.kept_whole()))))?,
        })
    }

    /// A block, even if it holds nothing: that it is there says something. An object of JSON with members that are all
    /// empty is what clients send for a block that is not there.
    fn kept_block(&self, name: &str) -> Option<Value> {
        let block = self.block(name)?;
        if matches!(&self.get(name)?.tree, Tree::Object(members) if !members.is_empty()) && self.lacks(name) {
            return None;
        }
        self.warn_unenforced(name);
        Some(object(block.kept_whole()))
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

fn object(kept: Kept) -> Value {
    Value::Map(kept.into_iter().collect())
}
