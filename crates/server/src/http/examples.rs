//! Examples for the description of the API, collected from the operations: the example that one operation has of a type is used
//! wherever the type occurs.

use std::collections::BTreeMap;

use axum::extract::Query;
use hyper::Uri;
use serde_json::{Value, json};

use super::routes::{
    Operation, RequestBody, ResponseBody, Route, Table,
    operation::in_variable,
    parameters::{Parameter, ParameterKind},
};

/// The id that examples have.
const ID_SHOWN: &str = "8e2b1f0c-5a6d-4e3b-9c7f-2d1a0b9c8e7f";
/// The name of a list's type, before and after that of its items.
const LIST: (&str, &str) = ("alloc::vec::Vec<", ">");

/// Examples of values, by the names of their types.
pub(super) struct Examples {
    by_type: BTreeMap<&'static str, Value>,
}

impl Examples {
    /// Those of the operations of a table: of answers before those of bodies, of which an answer may have more.
    pub fn of(table: &Table) -> Self {
        let mut by_type = BTreeMap::new();
        let operation_of = |route: &Route| table.operations.iter().find(|operation| operation.is_of(route));
        for (route, operation) in table.routes.iter().filter_map(|route| Some((route, operation_of(route)?)))
        {
            if let (ResponseBody::Json(shape), Some(value)) =
                (&route.contract.answer, value(operation.answer))
            {
                by_type.entry(shape.type_name).or_insert(value);
            }
        }
        for (route, operation) in table.routes.iter().filter_map(|route| Some((route, operation_of(route)?)))
        {
            if let (Some(RequestBody::Json(shape)), Some(value)) =
                (route.contract.body, value(operation.body))
            {
                by_type.entry(shape.type_name).or_insert(value);
            }
        }
        Self { by_type }
    }

    /// Of a type's value, of which a list may have one as an item, or hold one.
    pub fn of_type(&self, name: &str) -> Option<Value> {
        if let Some(value) = self.by_type.get(name) {
            return Some(value.clone());
        }
        if let Some(item) = name.strip_prefix(LIST.0).and_then(|name| name.strip_suffix(LIST.1)) {
            return self.by_type.get(item).map(|item| json!([item]));
        }
        self.by_type.get(&*format!("{}{name}{}", LIST.0, LIST.1))?.as_array()?.first().cloned()
    }
}

/// An example in JSON; none where there is none.
pub(super) fn value(text: &str) -> Option<Value> {
    serde_json::from_str(&with_ids(text)).ok()
}

/// A text with ids in the place of its variables.
fn with_ids(text: &str) -> String {
    let parts = text.split('$').enumerate();
    parts
        .map(|(at, part)| match part.trim_start_matches(in_variable) {
            rest if at > 0 => format!("{ID_SHOWN}{rest}"),
            _ => part.to_owned(),
        })
        .collect()
}

/// What an operation's example has for a part of the path.
pub(super) fn of_path(operation: &Operation, name: &str) -> Option<String> {
    let path = operation.target.split('?').next()?;
    let mut example_parts = path.split('/');
    for part in operation.path.split('/') {
        let value = example_parts.next()?;
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(all) if all.strip_prefix('*') == Some(name) => {
                let rest: Vec<&str> = [value].into_iter().chain(example_parts).collect();
                return Some(with_ids(&rest.join("/")));
            }
            Some(one) if one == name => return Some(with_ids(value)),
            _ => {}
        }
    }
    None
}

/// What an operation's example has for a parameter.
pub(super) fn of_parameter(operation: &Operation, parameter: &Parameter) -> Option<Value> {
    let uri: Uri = with_ids(operation.target).parse().ok()?;
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&uri).ok()?;
    let text = pairs.into_iter().find(|(name, _)| name == parameter.name)?.1;
    match parameter.kind {
        ParameterKind::Text | ParameterKind::Duration | ParameterKind::Word(_) => Some(text.into()),
        ParameterKind::Number => text.parse::<u64>().ok().map(Value::from),
        ParameterKind::Flag => text.parse::<bool>().ok().map(Value::from),
        ParameterKind::Texts => Some(json!([text])),
    }
}
