//! Texts of other forms: JSON, Base64, digests.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use md5::Md5;
use serde_json::Value as Json;
use serde_json::error::Category;
use sha2::{Digest, Sha256};

use super::{Function, as_text, of};
use crate::eval::Evaluator;
use crate::limits::JSON_FACTOR;
use crate::print::hex;
use crate::value::{Value, list, text};

pub(super) const FUNCTIONS: &[Function] = &[
    of("base64Encode", 1, |_, arguments| Ok(text(STANDARD.encode(as_text(&arguments[0])?)))),
    of("base64Decode", 1, |_, arguments| decode(&STANDARD, as_text(&arguments[0])?)),
    of("base64URLEncode", 1, |_, arguments| Ok(text(URL_SAFE.encode(as_text(&arguments[0])?)))),
    of("base64URLDecode", 1, |_, arguments| decode(&URL_SAFE, as_text(&arguments[0])?)),
    of("sha256Hex", 1, |_, arguments| Ok(text(hex(&Sha256::digest(as_text(&arguments[0])?), false)))),
    of("md5sum", 1, |_, arguments| Ok(text(hex(&Md5::digest(as_text(&arguments[0])?), false)))),
    of("parseJSON", 1, parse_json),
    of("toJSON", 1, |evaluator, arguments| write(evaluator, &arguments[0], false)),
    of("toJSONPretty", 1, |evaluator, arguments| write(evaluator, &arguments[0], true)),
];

/// 2⁵³: below it, each whole number is exact as a float.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

fn decode(engine: &impl Engine, encoded: &str) -> Result<Value, String> {
    // Tools that encode break lines, and Go's decoder skips them.
    let one_line = encoded.replace(['\n', '\r'], "");
    let bytes = engine.decode(one_line).map_err(|_| "it is not Base64".to_owned())?;
    String::from_utf8(bytes).map(text).map_err(|_| "what is decoded is no text in UTF-8".to_owned())
}

fn parse_json(evaluator: &mut Evaluator<'_>, arguments: &[Value]) -> Result<Value, String> {
    let from = as_text(&arguments[0])?;
    // An empty text is an empty map, as in Nomad.
    if from.is_empty() {
        return Ok(Value::Map(Arc::default()));
    }
    evaluator.budget.make(from.len().saturating_mul(JSON_FACTOR), 0)?;
    // The reader bounds the nesting.
    serde_json::from_str(from).map(from_json).map_err(|error| {
        // Where, and nothing of what stands there.
        let (line, column) = (error.line(), error.column());
        format!("it is not JSON: {} at line {line}, column {column} of it", json_reason(&error))
    })
}

/// The reader's own words may quote what it has read.
fn json_reason(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        Category::Eof => "it ends too early",
        _ if error.to_string().starts_with("recursion limit") => "it is nested too deeply",
        Category::Io | Category::Syntax | Category::Data => "something is wrong",
    }
}

pub(crate) fn from_json(json: Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::Int(whole),
            None => Value::Float(number.as_f64().unwrap_or(0.0)),
        },
        Json::String(value) => text(value),
        Json::Array(values) => list(values.into_iter().map(from_json).collect()),
        Json::Object(members) => {
            Value::Map(Arc::new(members.into_iter().map(|(key, value)| (key, from_json(value))).collect()))
        }
    }
}

/// Stops once it has counted as much as the limit allows: a list that stands in a list often is written often.
fn to_json(evaluator: &mut Evaluator<'_>, value: &Value) -> Result<Json, String> {
    evaluator.budget.steps(1)?;
    Ok(match value {
        Value::Nil => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        // As Go writes it: 1, and not 1.0.
        Value::Float(value) if value.fract() == 0.0 && value.abs() < EXACT_BELOW => Json::from(*value as i64),
        Value::Float(value) => Json::from(*value),
        Value::Text(_) | Value::Record(_) => {
            let text = value.as_text().cloned().unwrap_or_default();
            evaluator.budget.make(text.len(), 1)?;
            Json::String(text.to_string())
        }
        Value::List(values) => {
            evaluator.budget.make(0, values.len())?;
            let values = values.iter().map(|value| to_json(evaluator, value));
            Json::Array(values.collect::<Result<_, String>>()?)
        }
        Value::Map(_) | Value::Items(_) => {
            let members = value.as_map().into_iter().flatten();
            let members = members.map(|(key, value)| {
                evaluator.budget.make(key.len(), 2)?;
                Ok((key.clone(), to_json(evaluator, value)?))
            });
            Json::Object(members.collect::<Result<_, String>>()?)
        }
    })
}

fn write(evaluator: &mut Evaluator<'_>, value: &Value, is_pretty: bool) -> Result<Value, String> {
    let json = to_json(evaluator, value)?;
    let written = if is_pretty { serde_json::to_string_pretty(&json) } else { serde_json::to_string(&json) };
    let written = written.map_err(|error| error.to_string())?;
    // Go escapes what could end a script in a page.
    let escaped = written.chars().fold(String::with_capacity(written.len()), |mut out, c| {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
        out
    });
    Ok(text(escaped))
}
