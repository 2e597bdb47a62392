//! Lists and maps.

use super::compare::equal;
use super::{Function, as_int, as_list, as_text, from, of};
use crate::eval::Evaluator;
use crate::limits::BYTES_A_STEP;
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
    of("in", 2, |evaluator, arguments| Ok(Value::Bool(holds(evaluator, &arguments[0], &arguments[1])?))),
    // The second one is: `{{ if .list | contains "x" }}`.
    of("contains", 2, |evaluator, arguments| {
        Ok(Value::Bool(holds(evaluator, &arguments[1], &arguments[0])?))
    }),
    of("containsAll", 2, |evaluator, arguments| count(evaluator, arguments, |found, asked| found == asked)),
    of("containsAny", 2, |evaluator, arguments| count(evaluator, arguments, |found, _| found > 0)),
    of("containsNone", 2, |evaluator, arguments| count(evaluator, arguments, |found, _| found == 0)),
    of("containsNotAll", 2, |evaluator, arguments| count(evaluator, arguments, |found, asked| found < asked)),
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

/// Whether one of these is equal to that; values that cannot be compared are not. Each comparison costs.
fn is_among(evaluator: &mut Evaluator<'_>, all: &[Value], one: &Value) -> Result<bool, String> {
    let steps = 1 + one.as_text().map_or(0, |text| text.len() / BYTES_A_STEP) as u64;
    for value in all {
        evaluator.budget.steps(steps)?;
        if equal(value, one).unwrap_or(false) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds(evaluator: &mut Evaluator<'_>, all: &Value, one: &Value) -> Result<bool, String> {
    if let Some(text) = all.as_text() {
        return Ok(text.contains(as_text(one)?));
    }
    if let Some(map) = all.as_map() {
        return Ok(map.contains_key(as_text(one)?));
    }
    is_among(evaluator, as_list(all)?, one)
}

/// How many of the first list are in the second.
fn count(
    evaluator: &mut Evaluator<'_>,
    arguments: &[Value],
    decide: fn(usize, usize) -> bool,
) -> Result<Value, String> {
    let (required, all) = (as_list(&arguments[0])?, as_list(&arguments[1])?);
    let mut found = 0;
    for one in required {
        found += usize::from(is_among(evaluator, all, one)?);
    }
    Ok(Value::Bool(decide(found, required.len())))
}
