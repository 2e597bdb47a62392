//! HCL's syntax: text to blocks, attributes and expressions, each with its span.
//!
//! Linear in the length of the source, never deeper than [`crate::DEPTH_MAX`], and able to go on after a mistake.

mod body;
mod collection;
mod cursor;
mod expression;
mod heredoc;
mod primary;
mod template;
mod tokens;

use std::borrow::Cow;

use crate::{report::Report, span::Span, tree::Name};

pub(crate) use tokens::{Token, TokenKind, tokens};

/// One line or block of a body.
#[derive(Debug)]
pub(crate) struct Item<'s> {
    pub key: Name<'s>,
    pub kind: ItemKind<'s>,
}

/// What stands behind an item's key.
#[derive(Debug)]
pub(crate) enum ItemKind<'s> {
    Attribute(Expression<'s>),
    Block(Block<'s>),
}

/// A block without its key.
#[derive(Debug)]
pub(crate) struct Block<'s> {
    pub labels: Vec<Name<'s>>,
    pub items: Vec<Item<'s>>,
    pub span: Span,
}

/// An expression and where it stands.
#[derive(Debug)]
pub(crate) struct Expression<'s> {
    pub span: Span,
    pub kind: ExpressionKind<'s>,
}

/// What an expression is.
#[derive(Debug)]
pub(crate) enum ExpressionKind<'s> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Template(Vec<StringPart<'s>>),
    List(Vec<Expression<'s>>),
    Object(Vec<(Expression<'s>, Expression<'s>)>),
    /// A word that stands for a value.
    Name(&'s str),
    Path(Box<Path<'s>>),
    Call(Box<Call<'s>>),
    Chain(Box<Chain<'s>>),
    Unary(Unary, Box<Expression<'s>>),
    /// Condition, value if it is true, value if not.
    Condition(Box<[Expression<'s>; 3]>),
    For(Box<For<'s>>),
}

/// A value and the way to a part of it: `var.list[0].name`.
#[derive(Debug)]
pub(crate) struct Path<'s> {
    pub base: Expression<'s>,
    pub steps: Vec<Step<'s>>,
}

/// One step of the way.
#[derive(Debug)]
pub(crate) struct Step<'s> {
    pub span: Span,
    pub kind: StepKind<'s>,
}

/// How it goes on.
#[derive(Debug)]
pub(crate) enum StepKind<'s> {
    /// `.name`
    Attribute(&'s str),
    /// `[0]` or `.0`
    Index(Expression<'s>),
    /// `[*]`: what follows is taken of each item.
    Splat,
    /// `.*`: the same for attributes alone; indexes behind them are taken of the result.
    AttributeSplat,
}

/// `name(a, b, rest...)`
#[derive(Debug)]
pub(crate) struct Call<'s> {
    pub name: &'s str,
    pub arguments: Vec<Expression<'s>>,
    /// Whether the last argument is a list of arguments.
    pub expands: bool,
}

/// `a + b * c`, flat: a source of nothing but operators must not become a deep tree.
#[derive(Debug)]
pub(crate) struct Chain<'s> {
    pub first: Expression<'s>,
    pub rest: Vec<(Operator, Expression<'s>)>,
}

/// An operator between two terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
    Times,
    Divide,
    Modulo,
}

/// In front of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    Not,
    Negate,
}

/// `for k, v in values`
#[derive(Debug)]
pub(crate) struct ForHead<'s> {
    pub key: Option<&'s str>,
    pub value: &'s str,
    pub values: Expression<'s>,
}

/// A `for` expression in brackets or braces.
#[derive(Debug)]
pub(crate) struct For<'s> {
    pub head: ForHead<'s>,
    /// Given for an object.
    pub key: Option<Expression<'s>>,
    pub value: Expression<'s>,
    /// `...`: values of the same key make a list.
    pub grouped: bool,
    pub condition: Option<Expression<'s>>,
}

/// A piece of a string.
#[derive(Debug)]
pub(crate) enum StringPart<'s> {
    Text(Cow<'s, str>),
    /// `${...}`: the expression, and how it is written with its braces.
    Hole(Expression<'s>, Cow<'s, str>),
    /// `%{ if } ... %{ else } ... %{ endif }`
    If(Box<(Expression<'s>, Vec<StringPart<'s>>, Vec<StringPart<'s>>)>),
    /// `%{ for } ... %{ endfor }`
    For(Box<(ForHead<'s>, Vec<StringPart<'s>>)>),
}

/// Reads a file; mistakes go to the report.
pub(crate) fn parse<'s>(source: &'s str, report: &Report<'_>) -> Vec<Item<'s>> {
    cursor::Cursor::new(source, report).file()
}

/// Reads one expression, as the value of a variable is given; none, and a mistake in the report, if it is not one.
pub(crate) fn expression<'s>(source: &'s str, report: &Report<'_>) -> Option<Expression<'s>> {
    cursor::Cursor::new(source, report).only_expression()
}
