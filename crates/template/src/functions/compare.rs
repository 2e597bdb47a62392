//! Comparisons and logic.

use std::cmp::Ordering;

use super::{Function, deciding, from, of};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    deciding("and", false),
    deciding("or", true),
    of("not", 1, |_, arguments| Ok(Value::Bool(!arguments[0].is_true()))),
    from("eq", 2, |_, arguments| {
        for other in &arguments[1..] {
            if equal(&arguments[0], other)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }),
    of("ne", 2, |_, arguments| Ok(Value::Bool(!equal(&arguments[0], &arguments[1])?))),
    of("lt", 2, |_, arguments| ordered(arguments, Ordering::is_lt)),
    of("le", 2, |_, arguments| ordered(arguments, Ordering::is_le)),
    of("gt", 2, |_, arguments| ordered(arguments, Ordering::is_gt)),
    of("ge", 2, |_, arguments| ordered(arguments, Ordering::is_ge)),
];

/// # Errors
/// When the two cannot be compared.
pub(super) fn equal(one: &Value, other: &Value) -> Result<bool, String> {
    if let (Some(one), Some(other)) = (one.as_text(), other.as_text()) {
        return Ok(one == other);
    }
    match (one, other) {
        (Value::Nil, _) | (_, Value::Nil) => Ok(matches!((one, other), (Value::Nil, Value::Nil))),
        (Value::Bool(one), Value::Bool(other)) => Ok(one == other),
        _ => order(one, other).map(|order| order == Some(Ordering::Equal)),
    }
}

fn ordered(arguments: &[Value], holds: fn(Ordering) -> bool) -> Result<Value, String> {
    order(&arguments[0], &arguments[1]).map(|order| Value::Bool(order.is_some_and(holds)))
}

/// None where nothing comes before the other.
pub(super) fn order(one: &Value, other: &Value) -> Result<Option<Ordering>, String> {
    if let (Some(one), Some(other)) = (one.as_text(), other.as_text()) {
        return Ok(Some(one.cmp(other)));
    }
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => Ok(Some(one.cmp(other))),
        (Value::Float(one), Value::Float(other)) => Ok(one.partial_cmp(other)),
        (Value::Int(one), Value::Float(other)) => Ok((*one as f64).partial_cmp(other)),
        (Value::Float(one), Value::Int(other)) => Ok(one.partial_cmp(&(*other as f64))),
        _ => Err(format!(
            "a value of type {} cannot be compared with one of type {}",
            one.kind(),
            other.kind()
        )),
    }
}
