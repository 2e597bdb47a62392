//! The tree that both syntaxes are read into: values with their spans, before they are decoded.

use std::borrow::Cow;

use crate::span::Span;

/// A value and where it stands.
#[derive(Debug)]
pub(crate) struct Node<'s> {
    pub span: Span,
    pub tree: Tree<'s>,
}

/// The JSON data model, with entries in order and repeated ones kept: HCL repeats blocks, and mistakes repeat keys.
///
/// Text is borrowed from the source wherever it stands there as it is meant: a source of megabytes must not become
/// many times as much.
#[derive(Debug)]
pub(crate) enum Tree<'s> {
    Null,
    /// The value of an expression that has none, which has been reported.
    Unknown,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Cow<'s, str>),
    List(Box<[Node<'s>]>),
    Object(Box<[Entry<'s>]>),
}

/// One named value of an object.
#[derive(Debug)]
pub(crate) struct Entry<'s> {
    pub key: Name<'s>,
    /// Whether it was written as an attribute or as a block.
    pub kind: EntryKind<'s>,
    pub value: Node<'s>,
}

/// How an entry was written: the kind of syntax.
#[derive(Debug)]
pub(crate) enum EntryKind<'s> {
    /// `key = value`, or a member of a JSON object.
    Attribute,
    /// `key "label" { ... }`; its value is an object.
    Block { labels: Box<[Name<'s>]> },
}

/// A word and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Name<'s> {
    pub text: Cow<'s, str>,
    pub span: Span,
}

impl Tree<'_> {
    /// What messages call such a value.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Unknown => "a value that is not known",
            Self::Bool(_) => "a truth value",
            Self::Int(_) => "a number",
            Self::Float(value) if value.fract() == 0.0 => "a number out of range",
            Self::Float(_) => "a number with a fraction",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// Whether it says nothing, as the many fields do that clients send without having set them.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Unknown => false,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Float(value) => *value == 0.0,
            Self::Text(value) => value.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Object(entries) => entries.iter().all(|e| e.value.tree.is_empty()),
        }
    }

    /// Text, or what is written the same way as text.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Self::Text(value) => Some(value.clone().into_owned()),
            Self::Bool(value) => Some(value.to_string()),
            Self::Int(value) => Some(value.to_string()),
            Self::Float(value) => Some(value.to_string()),
            Self::Null | Self::Unknown | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// Whether it is unknown, or a part of it is.
    pub fn holds_unknown(&self) -> bool {
        match self {
            Self::Unknown => true,
            Self::List(items) => items.iter().any(|item| item.tree.holds_unknown()),
            Self::Object(entries) => entries.iter().any(|entry| entry.value.tree.holds_unknown()),
            _ => false,
        }
    }

    /// A whole number, or text that spells one.
    pub fn to_whole(&self) -> Option<i64> {
        /// Up to here 64-bit floats distinguish whole numbers.
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        match self {
            Self::Int(value) => Some(*value),
            Self::Float(value) if value.fract() == 0.0 && value.abs() <= EXACT_MAX => Some(*value as i64),
            Self::Text(value) => value.parse().ok(),
            _ => None,
        }
    }

    /// A truth value, or text that spells one.
    pub fn to_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Text(value) => truth(value),
            _ => None,
        }
    }
}

/// What HCL takes for a truth value where one is asked for.
pub fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}
