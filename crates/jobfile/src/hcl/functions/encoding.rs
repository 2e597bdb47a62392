//! Functions that write values as text and read them back.

use std::rc::Rc;

use base64::{Engine, engine::general_purpose::STANDARD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;
use serde_saphyr::budget::BudgetBreach;

use super::{Arguments, Function, function};
use crate::{
    hcl::value::{Members, Value},
    limits::DEPTH_MAX,
};

pub(super) static TABLE: &[Function] = &[
    function("base64decode", 1..=1, |a| {
        // Tools that encode break lines, and Go's decoder, which Nomad uses, skips them.
        let one_line = a.text(0)?.replace(['\n', '\r'], "");
        let bytes = STANDARD.decode(one_line.as_bytes()).map_err(|_| "the text is not base64")?;
        let text = String::from_utf8(bytes).map_err(|_| "what it decodes to is not UTF-8")?;
        Ok(Value::text(text))
    }),
    function("base64encode", 1..=1, |a| Ok(Value::text(STANDARD.encode(a.text(0)?.as_bytes())))),
    function("csvdecode", 1..=1, csv_decode),
    function("jsondecode", 1..=1, |a| {
        let json: Json = serde_json::from_str(&a.text(0)?).map_err(|wrong| format!("not JSON: {wrong}"))?;
        of_json(&json, 0)
    }),
    function("jsonencode", 1..=1, |a| Ok(Value::text(to_json(a.value(0))?.to_string()))),
    function("urlencode", 1..=1, |a| {
        Ok(Value::text(utf8_percent_encode(&a.text(0)?, ESCAPED).to_string().replace("%20", "+")))
    }),
    function("yamldecode", 1..=1, yaml_decode),
    function("yamlencode", 1..=1, |a| {
        let yaml = serde_saphyr::to_string(&to_json(a.value(0))?);
        yaml.map(Value::text).map_err(|wrong| wrong.to_string())
    }),
];

/// What a query of a URL may not hold as it is.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A value as JSON. Its size was bounded when it was made.
pub(super) fn to_json(value: &Value) -> Result<Json, String> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::Text(text) => (**text).into(),
        Value::List(list) => list.inner.iter().map(to_json).collect::<Result<_, _>>()?,
        Value::Object(object) => {
            let member = |(key, value): (&Rc<str>, &Value)| Ok((key.to_string(), to_json(value)?));
            Json::Object(object.inner.iter().map(member).collect::<Result<_, String>>()?)
        }
    })
}

fn of_json(json: &Json, depth: usize) -> Result<Value, String> {
    if depth > DEPTH_MAX {
        return Err(format!("nested more than {DEPTH_MAX} levels deep"));
    }
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::Int(whole),
            None => Value::number(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::text(text.as_str()),
        Json::Array(items) => {
            Value::list(items.iter().map(|item| of_json(item, depth + 1)).collect::<Result<_, _>>()?)
        }
        Json::Object(members) => {
            let member = |(key, value): (&String, &Json)| Ok((Rc::from(&**key), of_json(value, depth + 1)?));
            Value::object(members.iter().map(member).collect::<Result<Members, String>>()?)
        }
    })
}

/// One document. Anchors are refused: what they stand for may be written out many times over.
fn yaml_decode(arguments: &Arguments<'_>) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_anchors: 0,
            max_aliases: 0,
            max_depth: DEPTH_MAX,
        },
    };
    let json: Json = serde_saphyr::from_str_with_options(&arguments.text(0)?, options)
        .map_err(|wrong| not_yaml(&wrong))?;
    of_json(&json, 0)
}

fn not_yaml(wrong: &serde_saphyr::Error) -> String {
    match wrong.without_snippet() {
        serde_saphyr::Error::Budget { breach: BudgetBreach::Anchors { .. }, .. } => {
            "the text has anchors: write out what they stand for".to_owned()
        }
        serde_saphyr::Error::Budget { .. } => {
            format!("the text holds too much, or is nested more than {DEPTH_MAX} levels deep")
        }
        other => format!("not YAML: {other}"),
    }
}

/// An object for each line, by the names in the first line.
fn csv_decode(arguments: &Arguments<'_>) -> Result<Value, String> {
    let text = arguments.text(0)?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().map_err(|wrong| wrong.to_string())?.clone();
    let object = |line: Result<csv::StringRecord, csv::Error>| {
        let line = line.map_err(|wrong| wrong.to_string())?;
        let members = names.iter().zip(&line).map(|(name, field)| (Rc::from(name), Value::text(field)));
        Ok(Value::object(members.collect()))
    };
    reader.records().map(object).collect::<Result<_, String>>().map(Value::list)
}
