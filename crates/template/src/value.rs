//! Values of a template. All are cheap to clone.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::source::{Metadata, Variable};

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    List(Arc<Vec<Value>>),
    Map(Arc<BTreeMap<String, Value>>),
    /// The items of a variable.
    Items(Arc<Items>),
    /// Named fields, and the text that it is shown as.
    Record(Arc<Record>),
}

/// The items of a variable, and what is known of it.
#[derive(Debug)]
pub(crate) struct Items {
    pub by_name: BTreeMap<String, Value>,
    metadata: Value,
}

#[derive(Debug)]
pub(crate) struct Record {
    text: Arc<str>,
    fields: Vec<(&'static str, Value)>,
}

/// A text, from whatever makes one.
pub(crate) fn text(text: impl Into<Arc<str>>) -> Value {
    Value::Text(text.into())
}

pub(crate) fn list(values: Vec<Value>) -> Value {
    Value::List(Arc::new(values))
}

fn record(text: &str, fields: Vec<(&'static str, Value)>) -> Value {
    Value::Record(Arc::new(Record { text: text.into(), fields }))
}

fn index(index: u64) -> Value {
    Value::Int(i64::try_from(index).unwrap_or(i64::MAX))
}

impl Value {
    /// The value that `nomadVar` returns for a variable.
    pub fn variable(variable: Variable) -> Self {
        let metadata = Self::metadata(&variable.metadata);
        let item = |(key, value): (String, String)| {
            let fields = vec![("Key", text(&*key)), ("Value", text(&*value)), ("Metadata", metadata.clone())];
            (key, record(&value, fields))
        };
        let by_name = variable.items.into_iter().map(item).collect();
        Self::Items(Arc::new(Items { by_name, metadata }))
    }

    /// What `nomadVarList` gives of each variable.
    pub fn metadata(metadata: &Metadata) -> Self {
        let Metadata { namespace, path, create_index, modify_index, create_time, modify_time } = metadata;
        let fields = vec![
            ("Namespace", text(&**namespace)),
            ("Path", text(&**path)),
            ("CreateIndex", index(*create_index)),
            ("ModifyIndex", index(*modify_index)),
            ("CreateTime", index(*create_time)),
            ("ModifyTime", index(*modify_time)),
        ];
        record(path, fields)
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Items(_) => "variable",
            Self::Record(_) => "item",
        }
    }

    pub fn is_true(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(values) => !values.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Items(items) => !items.by_name.is_empty(),
            Self::Record(record) => !record.text.is_empty(),
        }
    }

    /// The text that it is, if it is one.
    pub fn as_text(&self) -> Option<&Arc<str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Record(record) => Some(&record.text),
            _ => None,
        }
    }

    /// The member of that name.
    ///
    /// # Errors
    /// When nothing of that kind has one; or, with `is_strict`, when a map has no such entry.
    pub fn field(&self, name: &str, is_strict: bool) -> Result<Self, String> {
        match self {
            Self::Map(map) => match map.get(name) {
                Some(value) => Ok(value.clone()),
                None if is_strict => Err(format!("the map has no entry {name:?}")),
                None => Ok(Self::Nil),
            },
            Self::Items(items) => items.field(name, is_strict),
            Self::Record(record) => {
                let field = record.fields.iter().find(|(known, _)| *known == name);
                field.map(|(_, value)| value.clone()).ok_or_else(|| {
                    let known: Vec<&str> = record.fields.iter().map(|(known, _)| *known).collect();
                    format!("there is no field .{name}: known are .{}", known.join(", ."))
                })
            }
            Self::Nil => Err(format!("there is no field .{name} of a value that is nil")),
            other => Err(format!("there is no field .{name} of a value of type {}", other.kind())),
        }
    }

    /// What is copied for a member: bytes, and elements of a list.
    pub fn copied_by(&self, name: &str) -> Option<(usize, usize)> {
        let Self::Items(items) = self else { return None };
        if !matches!(name, "Keys" | "Values" | "Tuples") {
            return None;
        }
        let bytes = items.by_name.iter().map(|(key, value)| 2 * key.len() + value.bytes()).sum();
        Some((bytes, items.by_name.len()))
    }

    /// Bytes that it takes as text, about.
    pub fn bytes(&self) -> usize {
        let of_map =
            |map: &BTreeMap<String, Self>| map.iter().map(|(key, value)| key.len() + 8 + value.bytes()).sum();
        match self {
            Self::List(values) => values.iter().map(|value| 8 + value.bytes()).sum(),
            Self::Map(map) => of_map(map),
            Self::Items(items) => of_map(&items.by_name),
            Self::Text(text) => text.len(),
            Self::Record(record) => record.text.len(),
            Self::Nil | Self::Bool(_) | Self::Int(_) | Self::Float(_) => 8,
        }
    }

    /// The map that it is, if it is one.
    pub fn as_map(&self) -> Option<&BTreeMap<String, Self>> {
        match self {
            Self::Map(map) => Some(map),
            Self::Items(items) => Some(&items.by_name),
            _ => None,
        }
    }
}

impl Items {
    /// What belongs to every variable comes before its items, as methods come before the keys of a map in Go.
    fn field(&self, name: &str, is_strict: bool) -> Result<Value, String> {
        let texts = |each: fn((&String, &Value)) -> Value| list(self.by_name.iter().map(each).collect());
        match name {
            "Keys" => Ok(texts(|(key, _)| text(&**key))),
            "Values" => Ok(texts(|(_, value)| text(value.as_text().cloned().unwrap_or_default()))),
            "Tuples" => Ok(texts(|(key, value)| {
                let value = text(value.as_text().cloned().unwrap_or_default());
                record(key, vec![("K", text(&**key)), ("V", value)])
            })),
            "Metadata" => Ok(self.metadata.clone()),
            _ => match self.by_name.get(name) {
                Some(value) => Ok(value.clone()),
                None if is_strict => {
                    Err(format!("the variable has no item {name:?}, and error_on_missing_key is set"))
                }
                None => Ok(text("")),
            },
        }
    }
}
