//! Filter expressions, as in `Status == "running" and "dc1" in Datacenters`: which items of a list a client wants.
//!
//! The grammar is that of HashiCorp's go-bexpr: <https://developer.hashicorp.com/nomad/api-docs#filtering>

mod evaluate;
#[cfg(test)]
mod fuzz;
mod parse;
#[cfg(test)]
mod tests;
mod token;

use regex::Regex;
use serde_json::Value;

use self::evaluate::Steps;
use super::failure::Failure;

/// Bytes of an expression. Its depth is bounded too; the work that it takes is not, as `any` and `all` multiply.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Steps that one item may take, some milliseconds: others wait for their turn meanwhile.
pub(crate) const ITEM_STEPS_MAX: u64 = 200_000;
/// Steps that all items of an answer may take together, about a second.
pub(crate) const ANSWER_STEPS_MAX: u64 = 20_000_000;

/// So many bytes of an item count as one step of the answer: the whole item is built before the filter sees any of it.
const STEP_BUILT_BYTES: u64 = 1 << 10;

/// A filter and its text, which errors show.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    text: String,
    expression: Expression,
    /// Steps that items have taken so far.
    steps_taken: u64,
    /// Bytes of the items that were built for the filter.
    built_bytes: u64,
}

#[derive(Debug, Clone)]
enum Expression {
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Test { selector: Selector, test: Predicate },
    Each { selector: Selector, all: bool, names: Names, inner: Box<Expression> },
}

/// Names a value: a member of the item, a member of that, and so on.
#[derive(Debug, Clone)]
struct Selector {
    first: String,
    deeper: Vec<String>,
    /// Where it stands, for errors.
    at: usize,
}

/// What the elements of a list or map are called in the expression about each of them.
#[derive(Debug, Clone)]
struct Names {
    first: String,
    second: Option<String>,
}

/// A predicate on a value.
#[derive(Debug, Clone)]
enum Predicate {
    Equals(String),
    Contains(String),
    Matches(Regex),
    IsEmpty,
    IsNil,
}

/// A filter that makes no sense, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FilterError {
    /// Bytes from the start.
    at: usize,
    reason: String,
}

impl FilterError {
    fn new(at: usize, reason: impl Into<String>) -> Self {
        Self { at, reason: reason.into() }
    }

    /// Shows the mistake under the expression.
    fn into_failure(self, text: &str) -> Failure {
        let before = text.get(..self.at).unwrap_or(text).chars().count();
        let indent = " ".repeat(before);
        let column = before + 1;
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let reason = self.reason;
        Failure::bad_request(format!(
            "query parameter filter, column {column}: {reason}\n  {line}\n  {indent}^"
        ))
    }
}

impl Filter {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(Failure::bad_request(format!(
                "query parameter filter has {} bytes, at most {TEXT_BYTES_MAX} are read",
                text.len()
            )));
        }
        let expression = parse::expression(text).map_err(|error| error.into_failure(text))?;
        Ok(Self { text: text.to_owned(), expression, steps_taken: 0, built_bytes: 0 })
    }

    /// Whether an item passes. Fails when the expression names a member that such items do not have, or compares it with
    /// what it cannot be; and when that takes too many steps, of this item or of all so far.
    pub fn passes(&mut self, item: &Value) -> Result<bool, Failure> {
        if self.is_spent() {
            return Err(Failure::bad_request(format!(
                "query parameter filter has taken more than {ANSWER_STEPS_MAX} steps: ask for less with `prefix`, \
                 `namespace` or another path, or for pages with `per_page`"
            )));
        }
        let mut steps = Steps::new(ITEM_STEPS_MAX);
        let passes = evaluate::passes(&self.expression, item, &mut steps);
        let bytes = bytes_of(item);
        self.built_bytes += bytes;
        self.steps_taken += steps.count() + bytes / STEP_BUILT_BYTES;
        passes.map_err(|error| error.into_failure(&self.text))
    }

    /// Bytes of the items that were built for the filter.
    pub fn built_bytes(&self) -> u64 {
        self.built_bytes
    }

    /// Steps that items have taken so far.
    pub fn steps_taken(&self) -> u64 {
        self.steps_taken
    }

    /// Whether the answer must end here.
    pub fn is_spent(&self) -> bool {
        self.steps_taken > ANSWER_STEPS_MAX
    }
}

/// How much an item is, in bytes of its texts and of what each value takes.
fn bytes_of(item: &Value) -> u64 {
    const VALUE_BYTES: u64 = size_of::<Value>() as u64;
    let within = match item {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(bytes_of).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() as u64 + bytes_of(value)).sum()
        }
    };
    VALUE_BYTES + within
}
