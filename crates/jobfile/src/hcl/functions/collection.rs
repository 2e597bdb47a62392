//! Functions of lists and objects.

use std::rc::Rc;

use super::{Arguments, Function, SOME, check_bytes, function};
use crate::hcl::value::{Members, Value, in_order};

pub(super) static TABLE: &[Function] = &[
    function("chunklist", 2..=2, chunks),
    function("coalesce", SOME, |a| {
        let first = a.values.iter().find(|value| !matches!(value, Value::Null));
        first.cloned().ok_or_else(|| "all of its arguments are null".to_owned())
    }),
    function("coalescelist", SOME, |a| {
        let first = (0..a.values.len()).find(|at| a.list(*at).is_ok_and(|list| !list.is_empty()));
        first.map(|at| a.value(at).clone()).ok_or_else(|| "all of its lists are empty".to_owned())
    }),
    function("compact", 1..=1, |a| {
        let filled =
            |item: &&Value| !matches!(item, Value::Null) && item.to_text().is_none_or(|t| !t.is_empty());
        Ok(Value::list(a.list(0)?.iter().filter(filled).cloned().collect()))
    }),
    function("concat", SOME, |a| {
        let lists = (0..a.values.len()).map(|at| a.list(at)).collect::<Result<Vec<_>, _>>()?;
        Ok(Value::list(lists.concat()))
    }),
    function("contains", 2..=2, |a| Ok(Value::Bool(a.list(0)?.contains(a.value(1))))),
    function("distinct", 1..=1, distinct),
    function("element", 2..=2, element),
    function("flatten", 1..=1, |a| {
        let mut flat = Vec::new();
        flatten(a.list(0)?, &mut flat);
        Ok(Value::list(flat))
    }),
    function("index", 2..=2, |a| {
        let at = a.list(0)?.iter().position(|item| item == a.value(1));
        at.map(|at| Value::Int(at as i64)).ok_or_else(|| "the item is not in the list".to_owned())
    }),
    function("keys", 1..=1, |a| Ok(Value::list(a.object(0)?.keys().cloned().map(Value::Text).collect()))),
    function("length", 1..=1, length),
    function("lookup", 2..=3, lookup),
    function("merge", SOME, merge),
    function("range", 1..=3, range),
    // Nomad's takes a text under either name, and a list under none.
    function("reverse", 1..=1, |a| match a.value(0) {
        Value::Text(text) => Ok(Value::text(text.chars().rev().collect::<String>())),
        _ => Ok(Value::list(a.list(0)?.iter().rev().cloned().collect())),
    }),
    function("slice", 3..=3, slice),
    function("sort", 1..=1, |a| {
        let mut texts = a.texts(0)?;
        texts.sort();
        Ok(Value::list(texts.into_iter().map(Value::Text).collect()))
    }),
    function("values", 1..=1, |a| Ok(Value::list(a.object(0)?.values().cloned().collect()))),
    function("zipmap", 2..=2, zipmap),
];

fn chunks(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (list, size) = (arguments.list(0)?, arguments.count(1)?);
    if size == 0 {
        return Ok(Value::list(vec![arguments.value(0).clone()]));
    }
    Ok(Value::list(list.chunks(size).map(|chunk| Value::list(chunk.to_vec())).collect()))
}

/// Each item once, in the order of their first times.
fn distinct(arguments: &Arguments<'_>) -> Result<Value, String> {
    let mut items: Vec<(usize, &Value)> = arguments.list(0)?.iter().enumerate().collect();
    items.sort_by(|a, b| in_order(a.1, b.1).then(a.0.cmp(&b.0)));
    items.dedup_by(|later, earlier| later.1 == earlier.1);
    items.sort_by_key(|(at, _)| *at);
    Ok(Value::list(items.into_iter().map(|(_, item)| item.clone()).collect()))
}

/// An item; behind the end it begins again.
fn element(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (list, at) = (arguments.list(0)?, arguments.whole(1)?);
    let at = at.checked_rem_euclid(list.len() as i64).ok_or("the list is empty")?;
    Ok(list.get(at as usize).cloned().unwrap_or(Value::Null))
}

fn flatten(list: &[Value], flat: &mut Vec<Value>) {
    for item in list {
        match item {
            Value::List(inner) => flatten(&inner.inner, flat),
            other => flat.push(other.clone()),
        }
    }
}

fn length(arguments: &Arguments<'_>) -> Result<Value, String> {
    let length = match arguments.value(0) {
        Value::List(list) => list.inner.len(),
        Value::Object(object) => object.inner.len(),
        Value::Text(text) => text.chars().count(),
        other => return Err(format!("{} has no length", other.kind())),
    };
    Ok(Value::Int(length as i64))
}

fn lookup(arguments: &Arguments<'_>) -> Result<Value, String> {
    let key = arguments.text(1)?;
    let default = arguments.has(2).then(|| arguments.value(2));
    let found = arguments.object(0)?.get(&key).or(default);
    found.cloned().ok_or_else(|| format!("there is no {key:?} in it, and no default"))
}

/// Members of all objects; the last one of a name counts.
fn merge(arguments: &Arguments<'_>) -> Result<Value, String> {
    let mut members = Members::new();
    for at in 0..arguments.values.len() {
        if !matches!(arguments.value(at), Value::Null) {
            members.extend(arguments.object(at)?.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
    }
    Ok(Value::object(members))
}

/// Numbers from a start up to a limit, by steps.
fn range(arguments: &Arguments<'_>) -> Result<Value, String> {
    /// Numbers of one range.
    const RANGE_MAX: usize = 100_000;
    let (start, limit) = match arguments.values.len() {
        1 => (0.0, arguments.number(0)?),
        _ => (arguments.number(0)?, arguments.number(1)?),
    };
    let down = limit < start;
    let step = if arguments.has(2) {
        arguments.number(2)?
    } else if down {
        -1.0
    } else {
        1.0
    };
    if step == 0.0 || (step < 0.0) != down && start != limit {
        return Err("its steps never reach the limit".to_owned());
    }
    let count = ((limit - start) / step).ceil().max(0.0);
    if count > RANGE_MAX as f64 {
        return Err(format!("more than {RANGE_MAX} numbers"));
    }
    Ok(Value::list((0..count as usize).map(|i| Value::number(start + step * i as f64)).collect()))
}

fn slice(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (list, start, end) = (arguments.list(0)?, arguments.count(1)?, arguments.count(2)?);
    let part = list.get(start..end);
    let part =
        part.ok_or_else(|| format!("{start} to {end} is no part of a list of {} items", list.len()))?;
    Ok(Value::list(part.to_vec()))
}

fn zipmap(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (keys, values) = (arguments.texts(0)?, arguments.list(1)?);
    if keys.len() != values.len() {
        return Err(format!("{} keys, but {} values", keys.len(), values.len()));
    }
    check_bytes(keys.iter().map(|key| key.len()).sum())?;
    let member = |(key, value): (Rc<str>, &Value)| (key, value.clone());
    Ok(Value::object(keys.into_iter().zip(values).map(member).collect()))
}
