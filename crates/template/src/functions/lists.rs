//! Lists and maps.

use super::compare::equal;
use super::{Function, as_int, as_list, as_text, from, of};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    of("len", 1, |_, arguments| {
        let len = match &arguments[0] {
            Value::List(values) => values.len(),
            other => match other.as_map() {
                Some(map) => map.len(),
                None => as_text(other)?.len(),
            },
        };
        Ok(Value::Int(i64::try_from(len).unwrap_or(i64::MAX)))
    }),
    from("index", 1, |_, arguments| {
        let mut value = arguments[0].clone();
        for at in &arguments[1..] {
            value = index(&value, at)?;
        }
        Ok(value)
    }),
    // The first argument is what is searched in.
    of("in", 2, |_, arguments| Ok(Value::Bool(holds(&arguments[0], &arguments[1])?))),
    // The second one is: `{{ if .list | contains "x" }}`.
    of("contains", 2, |_, arguments| Ok(Value::Bool(holds(&arguments[1], &arguments[0])?))),
    of("containsAll", 2, |_, arguments| count(arguments, |found, asked| found == asked)),
    of("containsAny", 2, |_, arguments| count(arguments, |found, _| found > 0)),
    of("containsNone", 2, |_, arguments| count(arguments, |found, _| found == 0)),
    of("containsNotAll", 2, |_, arguments| count(arguments, |found, asked| found < asked)),
];

fn index(value: &Value, at: &Value) -> Result<Value, String> {
    if value.as_map().is_some() {
        return value.field(as_text(at)?, false);
    }
    let at = as_int(at)?;
    let within = usize::try_from(at).ok();
    let outside = || "the index is out of range".to_owned();
    match value {
        Value::List(values) => within.and_then(|at| values.get(at)).cloned().ok_or_else(outside),
        Value::Nil => Err("nothing can be indexed of a value that is nil".to_owned()),
        other => {
            let byte = within.and_then(|at| as_text(other).ok()?.as_bytes().get(at).copied());
            as_text(other)?;
            byte.map(|byte| Value::Int(i64::from(byte))).ok_or_else(outside)
        }
    }
}

/// Values that cannot be compared are not equal.
fn holds(all: &Value, one: &Value) -> Result<bool, String> {
    if let Some(text) = all.as_text() {
        return Ok(text.contains(as_text(one)?));
    }
    if let Some(map) = all.as_map() {
        return Ok(map.contains_key(as_text(one)?));
    }
    Ok(as_list(all)?.iter().any(|value| equal(value, one).unwrap_or(false)))
}

/// How many of the first list are in the second.
fn count(arguments: &[Value], decide: fn(usize, usize) -> bool) -> Result<Value, String> {
    let (asked, all) = (as_list(&arguments[0])?, as_list(&arguments[1])?);
    let is_found = |one: &&Value| all.iter().any(|value| equal(value, one).unwrap_or(false));
    Ok(Value::Bool(decide(asked.iter().filter(is_found).count(), asked.len())))
}
