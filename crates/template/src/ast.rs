//! What a template consists of, once it is parsed.

use std::sync::Arc;

use crate::error::Offset;
use crate::functions::Function;
use crate::value::Value;

#[derive(Debug)]
pub(crate) enum Node {
    Text {
        text: Box<str>,
        at: Offset,
    },
    /// What it comes to is written, unless it declares a variable.
    Action(Pipeline),
    If(Branch),
    With(Branch),
    Range(Branch),
    Call {
        name: Box<str>,
        at: Offset,
        with: Option<Pipeline>,
    },
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub subject: Pipeline,
    pub then: Vec<Node>,
    pub otherwise: Vec<Node>,
}

#[derive(Debug)]
pub(crate) struct Pipeline {
    pub at: Offset,
    pub binding: Binding,
    pub commands: Vec<Command>,
}

/// The variables that have the value of a pipeline: those of a `range` its rounds' keys and values.
#[derive(Debug)]
pub(crate) enum Binding {
    Nothing,
    /// So many, which stand after all that are there.
    Declares(usize),
    /// Those that stand there.
    Assigns(Vec<usize>),
}

#[derive(Debug)]
pub(crate) struct Command {
    pub at: Offset,
    pub what: CommandKind,
}

#[derive(Debug)]
pub(crate) enum CommandKind {
    /// Arguments come after it, the value of the command before last.
    Call(&'static Function, Vec<Operand>),
    Value(Operand),
}

#[derive(Debug)]
pub(crate) struct Operand {
    pub at: Offset,
    pub term: Term,
    /// The names after the dots, as in `.a.b`.
    pub fields: Vec<Box<str>>,
}

#[derive(Debug)]
pub(crate) enum Term {
    Dot,
    /// Where it stands among all that are there.
    Variable(usize),
    Literal(Value),
    /// A function without arguments.
    Call(&'static Function),
    Parentheses(Arc<Pipeline>),
}
