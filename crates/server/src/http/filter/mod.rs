//! Filter expressions, as in `Status == "running" and "dc1" in Datacenters`: which items of a list a client wants.
//!
//! The grammar is that of HashiCorp's go-bexpr: <https://developer.hashicorp.com/nomad/api-docs#filtering>

mod evaluate;
mod parse;
#[cfg(test)]
mod tests;
mod token;

use regex::Regex;
use serde_json::Value;

use super::failure::Failure;

/// Bytes of an expression. Its depth and the work that it takes are bounded by these too.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// A filter and its text, which errors show.
#[derive(Debug)]
pub(crate) struct Filter {
    text: String,
    expression: Expression,
}

#[derive(Debug)]
enum Expression {
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Test { selector: Selector, test: Test },
    Each { selector: Selector, all: bool, names: Names, inner: Box<Expression> },
}

/// Names a value: a member of the item, a member of that, and so on.
#[derive(Debug)]
struct Selector {
    first: String,
    deeper: Vec<String>,
    /// Where it stands, for errors.
    at: usize,
}

/// What the elements of a list or map are called in the expression about each of them.
#[derive(Debug)]
struct Names {
    first: String,
    second: Option<String>,
}

/// What is asked of a value.
#[derive(Debug)]
enum Test {
    Equals(String),
    Contains(String),
    Matches(Regex),
    IsEmpty,
    IsNil,
}

/// A filter that makes no sense, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mistake {
    /// Bytes from the start.
    at: usize,
    reason: String,
}

impl Mistake {
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
        let expression = parse::expression(text).map_err(|mistake| mistake.into_failure(text))?;
        Ok(Self { text: text.to_owned(), expression })
    }

    /// Whether an item passes. Fails when the expression names a member that such items do not have, or compares it with
    /// what it cannot be.
    pub fn passes(&self, item: &Value) -> Result<bool, Failure> {
        evaluate::passes(&self.expression, item).map_err(|mistake| mistake.into_failure(&self.text))
    }
}
