//! Arithmetic, and texts that are numbers. The left operand is the one that is piped: `{{ 5 | subtract 2 }}` is 3.

use std::sync::Arc;

use super::{Function, as_int, as_text, between, of};
use crate::eval::Evaluator;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    of("add", 2, |_, arguments| arithmetic(arguments, i64::checked_add, |a, b| a + b)),
    of("subtract", 2, |_, arguments| arithmetic(arguments, i64::checked_sub, |a, b| a - b)),
    of("multiply", 2, |_, arguments| arithmetic(arguments, i64::checked_mul, |a, b| a * b)),
    of("divide", 2, |_, arguments| arithmetic(arguments, i64::checked_div, |a, b| a / b)),
    of("modulo", 2, |_, arguments| {
        let (divisor, number) = (as_int(&arguments[0])?, as_int(&arguments[1])?);
        number.checked_rem(divisor).map(Value::Int).ok_or_else(out_of_range)
    }),
    of("minimum", 2, |_, arguments| arithmetic(arguments, |a, b| Some(a.min(b)), f64::min)),
    of("maximum", 2, |_, arguments| arithmetic(arguments, |a, b| Some(a.max(b)), f64::max)),
    of("parseBool", 1, |_, arguments| match as_text(&arguments[0])? {
        "" => Ok(Value::Bool(false)),
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
        _ => Err("it is not true or false".to_owned()),
    }),
    of("parseFloat", 1, |_, arguments| {
        parse(as_text(&arguments[0])?, |text| {
            text.parse().ok().filter(|f: &f64| f.is_finite()).map(Value::Float)
        })
    }),
    of("parseInt", 1, |_, arguments| {
        parse(as_text(&arguments[0])?, |text| text.parse().ok().map(Value::Int))
    }),
    of("parseUint", 1, |_, arguments| {
        let whole = |text: &str| text.parse().ok().filter(|number| *number >= 0).map(Value::Int);
        parse(as_text(&arguments[0])?, whole)
    }),
    between("loop", 1, 2, numbers),
];

fn out_of_range() -> String {
    "the result is not a number of 64 bits".to_owned()
}

/// An empty text is 0, as in Nomad.
fn parse(text: &str, parse: impl Fn(&str) -> Option<Value>) -> Result<Value, String> {
    let number = if text.is_empty() { "0" } else { text };
    parse(number).ok_or_else(|| "it is not such a number".to_owned())
}

fn arithmetic(
    arguments: &[Value],
    whole: fn(i64, i64) -> Option<i64>,
    real: fn(f64, f64) -> f64,
) -> Result<Value, String> {
    let [right, left] = arguments else { return Err(out_of_range()) };
    if let (Value::Int(left), Value::Int(right)) = (left, right) {
        return whole(*left, *right).map(Value::Int).ok_or_else(out_of_range);
    }
    let result = real(as_float(left)?, as_float(right)?);
    if result.is_finite() { Ok(Value::Float(result)) } else { Err(out_of_range()) }
}

fn as_float(value: &Value) -> Result<f64, String> {
    match value {
        Value::Int(value) => Ok(*value as f64),
        Value::Float(value) => Ok(*value),
        other => Err(format!("expected a number, found a value of type {}", other.kind())),
    }
}

/// Numbers from the first one, or 0, to before the last one.
fn numbers(evaluator: &mut Evaluator<'_>, arguments: &[Value]) -> Result<Value, String> {
    let whole = |value: &Value| match value.as_text() {
        Some(text) => text.parse().map_err(|_| "it is not a whole number".to_owned()),
        None => as_int(value),
    };
    let (first, end) = match arguments {
        [first, end] => (whole(first)?, whole(end)?),
        _ => (0, arguments.first().map_or(Ok(0), whole)?),
    };
    let count = usize::try_from(end.saturating_sub(first)).unwrap_or(0);
    evaluator.budget.make(0, count)?;
    Ok(Value::List(Arc::new((first..end).map(Value::Int).collect())))
}
