//! Conversions between JSON and free-form values.

use berth_model::value::Value;
use serde_json::Value as Json;

/// As JSON.
pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::String(value) => value.as_str().into(),
        Value::List(items) => items.iter().map(to_json).collect(),
        Value::Map(members) => members
            .iter()
            .map(|(name, value)| (name.to_owned(), to_json(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

/// From JSON; whole numbers beyond 64 bits lose precision.
pub fn from_json(value: &Json) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(value) => {
            value.as_i64().map_or_else(|| Value::Float(value.as_f64().unwrap_or_default()), Value::Int)
        }
        Json::String(value) => Value::String(value.clone()),
        Json::Array(items) => Value::List(items.iter().map(from_json).collect()),
        Json::Object(members) => {
            Value::Map(members.iter().map(|(name, value)| (name.clone(), from_json(value))).collect())
        }
    }
}
