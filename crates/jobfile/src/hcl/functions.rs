//! Functions of expressions.

mod collection;
mod encoding;
mod file;
mod format;
mod hash;
mod network;
mod number;
mod sets;
mod text;
mod time;

use std::{ops::RangeInclusive, path::Path, rc::Rc};

use super::{
    error::{EvalError, EvalResult},
    evaluate::Evaluator,
    scope::Scope,
    types::Type,
    value::{Members, Value},
};
use crate::{
    diagnostic::quoted,
    limits::VALUE_BYTES_MAX,
    span::Span,
    suggest::nearest,
    syntax::{Call, Expression},
};

/// A function by its name.
struct Function {
    name: &'static str,
    /// How many arguments it takes.
    arity: RangeInclusive<usize>,
    run: fn(&Arguments<'_>) -> Result<Value, String>,
}

/// Any number of arguments, but at least one.
const SOME: RangeInclusive<usize> = 1..=usize::MAX;

const fn function(
    name: &'static str,
    arity: RangeInclusive<usize>,
    run: fn(&Arguments<'_>) -> Result<Value, String>,
) -> Function {
    Function { name, arity, run }
}

/// Those that see the expressions of their arguments, not only their values.
const SPECIAL: &[&str] = &["try", "can", "convert"];

static TABLES: &[&[Function]] = &[
    collection::TABLE,
    encoding::TABLE,
    file::TABLE,
    format::TABLE,
    hash::TABLE,
    network::TABLE,
    number::TABLE,
    sets::TABLE,
    text::TABLE,
    time::TABLE,
];

/// Functions of Nomad's that are left out, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("uuidv4", "the same file must always make the same job; `uuidv5` does"),
    ("bcrypt", "the same file must always make the same job"),
    ("rsadecrypt", "keys do not belong in job files"),
];

/// The value of a call.
pub(super) fn call(
    evaluator: &Evaluator<'_>,
    call: &Call<'_>,
    span: Span,
    scope: Scope<'_>,
) -> EvalResult<Value> {
    if SPECIAL.contains(&call.name) {
        return special(evaluator, call, span, scope);
    }
    let function = TABLES.iter().flat_map(|table| table.iter()).find(|function| function.name == call.name);
    let function = function.ok_or_else(|| unknown(call.name, span))?;
    let values = arguments(evaluator, call, scope)?;
    if !function.arity.contains(&values.len()) {
        return Err(EvalError::at(span, wrong_count(function, values.len())));
    }
    evaluator.spend(values.iter().map(Value::bytes).fold(0, u64::saturating_add), span)?;
    let spend = |bytes| evaluator.spend(bytes, span);
    let arguments = Arguments { values: &values, base_dir: evaluator.base_dir, spend: &spend };
    (function.run)(&arguments).map_err(|wrong| EvalError::at(span, format!("{}: {wrong}", quoted(call.name))))
}

fn arguments(evaluator: &Evaluator<'_>, call: &Call<'_>, scope: Scope<'_>) -> EvalResult<Vec<Value>> {
    let value = |argument| evaluator.value(argument, scope);
    let mut values = call.arguments.iter().map(value).collect::<EvalResult<Vec<Value>>>()?;
    if let Some(last) = call.arguments.last().filter(|_| call.expands) {
        match values.pop() {
            Some(Value::List(list)) => values.extend(list.inner.iter().cloned()),
            _ => return Err(EvalError::at(last.span, "only a list can be spread over arguments by `...`")),
        }
    }
    Ok(values)
}

fn special(evaluator: &Evaluator<'_>, call: &Call<'_>, span: Span, scope: Scope<'_>) -> EvalResult<Value> {
    match (call.name, call.arguments.as_slice()) {
        ("try", arguments @ [_, ..]) => first_sound(evaluator, arguments, scope),
        ("can", [argument]) => match evaluator.value(argument, scope) {
            Ok(_) => Ok(Value::Bool(true)),
            Err(error) if error.is_limit => Err(error),
            Err(_) => Ok(Value::Bool(false)),
        },
        ("convert", [value, of]) => {
            let (of, value) = (Type::read(evaluator, of)?, evaluator.value(value, scope)?);
            of.convert(&value).map_err(|wrong| EvalError::at(span, format!("the value {wrong}")))
        }
        (name, _) => {
            Err(EvalError::at(span, format!("{} is given the wrong number of arguments", quoted(name))))
        }
    }
}

/// The first argument that has a value.
fn first_sound(
    evaluator: &Evaluator<'_>,
    arguments: &[Expression<'_>],
    scope: Scope<'_>,
) -> EvalResult<Value> {
    let mut result = Ok(Value::Null);
    for argument in arguments {
        result = evaluator.value(argument, scope);
        if result.is_ok() || result.as_ref().is_err_and(|error| error.is_limit) {
            break;
        }
    }
    result
}

fn unknown(name: &str, span: Span) -> EvalError {
    if let Some((name, why)) = LEFT_OUT.iter().find(|(ignored_key, _)| *ignored_key == name) {
        return EvalError::at(span, format!("the function `{name}` is left out on purpose")).help(*why);
    }
    let error = EvalError::at(span, format!("there is no function {}", quoted(name)));
    let known = TABLES.iter().flat_map(|table| table.iter()).map(|function| function.name);
    match nearest(name, known.chain(SPECIAL.iter().copied())) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error,
    }
}

fn wrong_count(function: &Function, found: usize) -> String {
    let (min, max) = (*function.arity.start(), *function.arity.end());
    let expected = match (min, max) {
        (1, 1) => "1 argument".to_owned(),
        (_, usize::MAX) => format!("{min} arguments or more"),
        _ if min == max => format!("{min} arguments"),
        _ => format!("{min} to {max} arguments"),
    };
    format!("{} takes {expected}, found {found}", quoted(function.name))
}

/// What a function is given.
struct Arguments<'a> {
    values: &'a [Value],
    /// Where the paths of file functions begin; none where there are no such functions.
    base_dir: Option<&'a Path>,
    /// Counts bytes that are looked at beyond the arguments, each once.
    spend: &'a dyn Fn(u64) -> EvalResult<()>,
}

impl<'a> Arguments<'a> {
    /// Counts so many bytes as looked at.
    fn look_at(&self, bytes: usize) -> Result<(), String> {
        (self.spend)(bytes as u64).map_err(|_| "it looks through too much text for one file".to_owned())
    }

    /// The value at a position, from 0; null if there is none.
    fn value(&self, at: usize) -> &'a Value {
        self.values.get(at).unwrap_or(&Value::Null)
    }

    fn has(&self, at: usize) -> bool {
        at < self.values.len()
    }

    fn text(&self, at: usize) -> Result<Rc<str>, String> {
        let value = self.value(at);
        match value {
            Value::Text(text) => Ok(text.clone()),
            other => other.to_text().map(|text| Rc::from(&*text)).ok_or_else(|| self.wrong(at, "text")),
        }
    }

    fn number(&self, at: usize) -> Result<f64, String> {
        self.value(at).to_number().ok_or_else(|| self.wrong(at, "a number"))
    }

    fn whole(&self, at: usize) -> Result<i64, String> {
        let number = self.number(at)?;
        let whole = number.fract() == 0.0 && number.abs() <= i64::MAX as f64;
        if whole { Ok(number as i64) } else { Err(self.wrong(at, "a whole number")) }
    }

    /// A whole number that counts something.
    fn count(&self, at: usize) -> Result<usize, String> {
        usize::try_from(self.whole(at)?).map_err(|_| self.wrong(at, "0 or more"))
    }

    fn list(&self, at: usize) -> Result<&'a [Value], String> {
        match self.value(at) {
            Value::List(list) => Ok(&list.inner),
            _ => Err(self.wrong(at, "a list")),
        }
    }

    fn object(&self, at: usize) -> Result<&'a Members, String> {
        match self.value(at) {
            Value::Object(object) => Ok(&object.inner),
            _ => Err(self.wrong(at, "an object")),
        }
    }

    fn texts(&self, at: usize) -> Result<Vec<Rc<str>>, String> {
        let text = |item: &Value| item.to_text().map(|text| Rc::from(&*text));
        let texts = self.list(at)?.iter().map(text).collect::<Option<_>>();
        texts.ok_or_else(|| self.wrong(at, "a list of texts"))
    }

    fn wrong(&self, at: usize, wanted: &str) -> String {
        format!("argument {} must be {wanted}, found {}", at + 1, self.value(at).kind())
    }
}

/// Refuses what would be longer than a value may be, before it is made.
fn check_bytes(bytes: usize) -> Result<(), String> {
    if bytes as u64 <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(format!("its value would take more than {} MiB", VALUE_BYTES_MAX >> 20))
}
