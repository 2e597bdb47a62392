//! Evaluates a filter for an item.

use serde_json::Value;

use super::{Expression, FilterError, Names, Predicate, Selector};

/// What a name stands for within the expression about each element of something.
struct Binding<'a> {
    name: &'a str,
    value: &'a Value,
    outer: Option<&'a Binding<'a>>,
}

/// Bytes of text that are compared in one step.
const STEP_BYTES: usize = 64;

/// What an item may still cost, in steps: one for each expression that is looked at, each element of a list or map, and
/// each [`STEP_BYTES`] of text.
#[derive(Debug)]
pub(super) struct Steps {
    max: u64,
    count: u64,
}

impl Steps {
    pub fn new(max: u64) -> Self {
        Self { max, count: 0 }
    }

    /// How many steps were taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn take(&mut self, steps: usize, at: usize) -> Result<(), FilterError> {
        self.count = self.count.saturating_add(steps as u64);
        if self.count <= self.max {
            return Ok(());
        }
        let reason = format!(
            "one item takes more than {} steps: nest fewer `any` and `all`, or look at less of each item",
            self.max
        );
        Err(FilterError::new(at, reason))
    }
}

pub(super) fn passes(expression: &Expression, item: &Value, steps: &mut Steps) -> Result<bool, FilterError> {
    holds(expression, &NameScope { item, bound: None }, steps)
}

/// What names refer to at a point of an expression.
#[derive(Clone, Copy)]
struct NameScope<'a> {
    item: &'a Value,
    bound: Option<&'a Binding<'a>>,
}

fn holds(expression: &Expression, scope: &NameScope<'_>, steps: &mut Steps) -> Result<bool, FilterError> {
    match expression {
        Expression::And(left, right) => Ok(holds(left, scope, steps)? && holds(right, scope, steps)?),
        Expression::Or(left, right) => Ok(holds(left, scope, steps)? || holds(right, scope, steps)?),
        Expression::Not(inner) => Ok(!holds(inner, scope, steps)?),
        Expression::Test { selector, test } => {
            let value = find(selector, scope)?;
            steps.take(cost(test, value), selector.at)?;
            check(test, value, selector.at)
        }
        Expression::Each { selector, all, names, inner } => {
            let elements = elements(find(selector, scope)?);
            steps.take(1, selector.at)?;
            for element in elements {
                steps.take(1, selector.at)?;
                if holds_for(&element, names, inner, scope, steps)? != *all {
                    return Ok(!all);
                }
            }
            Ok(*all)
        }
    }
}

/// The steps of a test: those that look into a text or a list read all of it.
fn cost(test: &Predicate, value: &Value) -> usize {
    let reads_all = !matches!(test, Predicate::IsEmpty | Predicate::IsNil);
    1 + match value {
        Value::String(text) if reads_all => text.len() / STEP_BYTES,
        Value::Array(items) if reads_all => items.len(),
        _ => 0,
    }
}

/// An element of a list or map.
struct Element<'v> {
    /// Its position or key.
    key: Value,
    value: &'v Value,
    of_map: bool,
}

/// Made one by one: an expression may be done with the first.
fn elements(value: &Value) -> Box<dyn Iterator<Item = Element<'_>> + '_> {
    match value {
        Value::Array(items) => {
            let numbered = items.iter().enumerate();
            Box::new(numbered.map(|(at, value)| Element { key: at.into(), value, of_map: false }))
        }
        Value::Object(members) => {
            let keyed = members.iter();
            Box::new(keyed.map(|(key, value)| Element { key: key.as_str().into(), value, of_map: true }))
        }
        _ => Box::new(std::iter::empty()),
    }
}

/// Whether the expression holds for one element. A single name stands for the value in a list and for the key in a map;
/// of two names the first is position or key.
fn holds_for(
    element: &Element<'_>,
    names: &Names,
    inner: &Expression,
    scope: &NameScope<'_>,
    steps: &mut Steps,
) -> Result<bool, FilterError> {
    let first_is_key = names.second.is_some() || element.of_map;
    let value = if first_is_key { &element.key } else { element.value };
    let first = Binding { name: &names.first, value, outer: scope.bound };
    match &names.second {
        None => holds(inner, &NameScope { item: scope.item, bound: Some(&first) }, steps),
        Some(name) => {
            let second = Binding { name, value: element.value, outer: Some(&first) };
            holds(inner, &NameScope { item: scope.item, bound: Some(&second) }, steps)
        }
    }
}

/// The value that a selector names. What is missing deeper down is null: maps hold what their owners put there.
fn find<'v>(selector: &Selector, scope: &NameScope<'v>) -> Result<&'v Value, FilterError> {
    let (first, deeper) = (&selector.first, &selector.deeper);
    let NameScope { item, mut bound } = *scope;
    while let Some(binding) = bound {
        if binding.name == first {
            return Ok(descend(binding.value, deeper));
        }
        bound = binding.outer;
    }
    match item.get(first) {
        Some(value) => Ok(descend(value, deeper)),
        None => Err(FilterError::new(selector.at, unknown(first, item))),
    }
}

fn descend<'v>(value: &'v Value, parts: &[String]) -> &'v Value {
    let next = |value: &'v Value, part: &String| match value {
        Value::Array(items) => part.parse::<usize>().ok().and_then(|at| items.get(at)),
        other => other.get(part),
    };
    parts.iter().try_fold(value, next).unwrap_or(&Value::Null)
}

/// Names the member that was probably meant.
fn unknown(name: &str, item: &Value) -> String {
    let names = item.as_object().into_iter().flat_map(|members| members.keys());
    let near =
        names.map(|known| (strsim::damerau_levenshtein(&known.to_lowercase(), &name.to_lowercase()), known));
    match near.filter(|(distance, _)| *distance <= name.len() / 3 + 1).min() {
        Some((_, near)) => format!("there is no member `{name}`, did you mean `{near}`?"),
        None => format!("there is no member `{name}`"),
    }
}

fn check(test: &Predicate, value: &Value, at: usize) -> Result<bool, FilterError> {
    match test {
        Predicate::Equals(wanted) => equals(value, wanted, at),
        Predicate::Contains(wanted) => contains(value, wanted, at),
        Predicate::Matches(regex) => match value {
            Value::String(text) => Ok(regex.is_match(text)),
            Value::Null => Ok(false),
            other => Err(FilterError::new(at, format!("`matches` needs a text, this is {}", kind(other)))),
        },
        Predicate::IsEmpty => match value {
            Value::Null => Ok(true),
            Value::String(text) => Ok(text.is_empty()),
            Value::Array(items) => Ok(items.is_empty()),
            Value::Object(members) => Ok(members.is_empty()),
            other => Err(FilterError::new(at, format!("{} cannot be empty", kind(other)))),
        },
        Predicate::IsNil => Ok(value.is_null()),
    }
}

fn equals(value: &Value, wanted: &str, at: usize) -> Result<bool, FilterError> {
    let differs = || FilterError::new(at, format!("this is {}, and `{wanted}` is not", kind(value)));
    match value {
        Value::Null => Ok(false),
        Value::String(text) => Ok(text == wanted),
        Value::Bool(own) => wanted.parse().map(|wanted: bool| *own == wanted).map_err(|_| differs()),
        // As texts where both are whole: a number beyond 2^53 is no float.
        Value::Number(own) if own.to_string() == wanted => Ok(true),
        Value::Number(own) => {
            let wanted: f64 = wanted.parse().map_err(|_| differs())?;
            Ok(!own.is_u64() && !own.is_i64() && own.as_f64() == Some(wanted))
        }
        Value::Array(_) | Value::Object(_) => {
            Err(FilterError::new(at, format!("{} equals nothing: use `contains` or `is empty`", kind(value))))
        }
    }
}

fn contains(value: &Value, wanted: &str, at: usize) -> Result<bool, FilterError> {
    match value {
        Value::Null => Ok(false),
        Value::String(text) => Ok(text.contains(wanted)),
        Value::Object(members) => Ok(members.contains_key(wanted)),
        Value::Array(items) => Ok(items.iter().any(|item| equals(item, wanted, at).unwrap_or(false))),
        other => Err(FilterError::new(at, format!("{} contains nothing", kind(other)))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
