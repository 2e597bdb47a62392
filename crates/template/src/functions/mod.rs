//! The functions of templates: one table of those that there are, one of those that there are elsewhere, with the reason why not
//! here.

mod compare;
mod data;
mod encodings;
mod lists;
mod numbers;
mod texts;
mod unsupported;

use crate::eval::Evaluator;
use crate::value::Value;

/// A function.
pub(crate) use encodings::from_json;

pub(crate) struct Function {
    pub name: &'static str,
    /// How many arguments it takes, the one that is piped into it included.
    least: usize,
    most: Option<usize>,
    /// Of `and` and `or`: the truth of an argument that ends their evaluation.
    pub decides: Option<bool>,
    run: RunFn,
    /// Judges the first argument where it stands in the template.
    literal: Option<CheckFn>,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Errors say what is wrong and quote nothing that was computed: it may be secret, and they are shown to whoever may see the task.
/// Their position in the template is added by the caller.
type RunFn = fn(&mut Evaluator<'_>, &[Value]) -> Result<Value, String>;

/// Says why a text cannot be an argument.
type CheckFn = fn(&str) -> Result<(), String>;

/// One that takes so many arguments.
const fn of(name: &'static str, count: usize, run: RunFn) -> Function {
    between(name, count, count, run)
}

/// One that takes between so many and so many.
const fn between(name: &'static str, least: usize, most: usize, run: RunFn) -> Function {
    Function { name, least, most: Some(most), decides: None, run, literal: None }
}

/// One that takes so many or more.
const fn from(name: &'static str, least: usize, run: RunFn) -> Function {
    Function { name, least, most: None, decides: None, run, literal: None }
}

const fn deciding(name: &'static str, decides: bool) -> Function {
    Function { name, least: 1, most: None, decides: Some(decides), run: |_, _| Ok(Value::Nil), literal: None }
}

/// All functions, one table for each module.
static TABLES: [&[Function]; 6] = [
    compare::FUNCTIONS,
    data::FUNCTIONS,
    encodings::FUNCTIONS,
    lists::FUNCTIONS,
    numbers::FUNCTIONS,
    texts::FUNCTIONS,
];

/// The names of all functions, in order.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> =
        TABLES.iter().flat_map(|table| table.iter()).map(|function| function.name).collect();
    names.sort_unstable();
    names
}

/// The function of that name.
///
/// # Errors
/// Why there is none, and what would do.
pub(crate) fn find(name: &str) -> Result<&'static Function, String> {
    let mut all = TABLES.iter().flat_map(|table| table.iter());
    if let Some(function) = all.find(|function| function.name == name) {
        return Ok(function);
    }
    if let Some(why) = unsupported::why(name) {
        return Err(format!("the function {name:?} is not implemented: {why}"));
    }
    let lower = name.to_lowercase();
    let near = names().into_iter().find(|known| known.to_lowercase() == lower);
    let hint = near.map_or_else(
        || "the documentation of the template block lists those that there are".to_owned(),
        |near| format!("did you mean {near:?}?"),
    );
    Err(format!("there is no function {:?}: {hint}", name.chars().take(64).collect::<String>()))
}

impl Function {
    /// The same, with what judges its first argument where that stands in the template.
    const fn judged(self, literal: CheckFn) -> Self {
        Self { literal: Some(literal), ..self }
    }

    /// Whether it can be given this as its first argument.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn check_literal(&self, text: &str) -> Result<(), String> {
        self.literal.map_or(Ok(()), |judge| judge(text)).map_err(|why| format!("{}: {why}", self.name))
    }

    /// Whether it can be given so many arguments.
    ///
    /// # Errors
    /// How many it takes.
    pub fn check_count(&self, count: usize) -> Result<(), String> {
        if count >= self.least && self.most.is_none_or(|most| count <= most) {
            return Ok(());
        }
        let takes = match self.most {
            Some(most) if most == self.least => format!("{most}"),
            Some(most) => format!("{} to {most}", self.least),
            None => format!("{} or more", self.least),
        };
        Err(format!("{:?} takes {takes} arguments, and is given {count}", self.name))
    }
}

/// Calls a function; that costs a step, and more for long arguments.
pub(crate) fn call(
    function: &Function,
    evaluator: &mut Evaluator<'_>,
    arguments: &[Value],
) -> Result<Value, String> {
    evaluator.budget.steps(1)?;
    evaluator.budget.read(arguments.iter().map(Value::bytes).sum())?;
    let value = (function.run)(evaluator, arguments).map_err(|why| {
        if why.ends_with("limit of one template") { why } else { format!("{}: {why}", function.name) }
    })?;
    match &value {
        Value::Text(text) => evaluator.budget.make(text.len(), 1)?,
        Value::List(values) => evaluator.budget.make(0, values.len())?,
        _ => evaluator.budget.make(0, 1)?,
    }
    Ok(value)
}

/// An argument that is a text.
fn as_text(value: &Value) -> Result<&str, String> {
    value
        .as_text()
        .map(|text| &**text)
        .ok_or_else(|| format!("expected a string, found a value of type {}", value.kind()))
}

/// An argument that is a whole number.
fn as_int(value: &Value) -> Result<i64, String> {
    match value {
        Value::Int(value) => Ok(*value),
        other => Err(format!("expected an int, found a value of type {}", other.kind())),
    }
}

/// An argument that is a list.
fn as_list(value: &Value) -> Result<&[Value], String> {
    match value {
        Value::List(values) => Ok(values),
        Value::Nil => Ok(&[]),
        other => Err(format!("expected a list, found a value of type {}", other.kind())),
    }
}
