//! HCL's syntax: text to blocks, attributes and expressions, each with its place.
//!
//! Linear in the length of the source, never deeper than [`crate::DEPTH_MAX`], and able to go on after a mistake. It
//! knows the whole grammar; what [`crate::hcl`] cannot evaluate yet is kept as its name only, [`Kind::Later`].

mod body;
mod collection;
mod cursor;
mod expression;
mod heredoc;
mod primary;
mod template;

use crate::{report::Report, span::Span, tree::Name};

/// One line or block of a body.
#[derive(Debug)]
pub(crate) struct Item {
    pub key: Name<'static>,
    pub kind: ItemKind,
}

/// What stands behind an item's key.
#[derive(Debug)]
pub(crate) enum ItemKind {
    Attribute(Expression),
    Block { labels: Vec<Name<'static>>, items: Vec<Item>, span: Span },
}

/// An expression and where it stands.
#[derive(Debug)]
pub(crate) struct Expression {
    pub span: Span,
    pub kind: Kind,
}

/// What an expression is.
#[derive(Debug)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Template(Vec<Part>),
    List(Vec<Expression>),
    Object(Vec<(Expression, Expression)>),
    /// A path such as `node.unique.id`, by its first word.
    Reference(String),
    /// Correct, but of a kind that cannot be evaluated yet; what to call it.
    Later(String),
}

/// A piece of a string.
#[derive(Debug)]
pub(crate) enum Part {
    Text(String),
    /// `${...}`: the expression, and the source text with its braces.
    Hole(Expression, String),
}

/// Reads a file; mistakes go to the report.
pub(crate) fn parse(source: &str, report: &Report<'_>) -> Vec<Item> {
    cursor::Cursor::new(source, report).file()
}
