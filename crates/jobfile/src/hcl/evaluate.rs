//! Bodies to entries: every expression becomes a value, every dynamic block the blocks that it stands for.

use std::{borrow::Cow, cell::Cell, path::Path, rc::Rc};

use super::{
    dynamic,
    error::{EvalError, EvalResult},
    scope::Scope,
    value::Value,
};
use crate::{
    limits::{DEPTH_MAX, EVALUATION_BYTES_MAX, VALUE_BYTES_MAX},
    report::Report,
    span::Span,
    syntax::{Block, Expression, ExpressionKind, Item, ItemKind, StringPart},
    tree::{Entry, EntryKind, Name, Node, Tree},
};

/// What a node counts beyond its text.
const NODE_BYTES: u64 = 16;

/// Evaluates the expressions of one file.
#[derive(Debug)]
pub(super) struct Evaluator<'e> {
    pub report: &'e Report<'e>,
    /// Where the paths of file functions begin; none where there are no such functions.
    pub base_dir: Option<&'e Path>,
    /// What was read and made so far.
    spent_bytes: Cell<u64>,
}

impl<'e> Evaluator<'e> {
    pub fn new(report: &'e Report<'e>, base_dir: Option<&'e Path>) -> Self {
        Self { report, base_dir, spent_bytes: Cell::new(0) }
    }

    /// Counts what was read or made; a source that makes much of little must end somewhere.
    pub fn spend(&self, bytes: u64, span: Span) -> EvalResult<()> {
        let spent = self.spent_bytes.get().saturating_add(bytes);
        self.spent_bytes.set(spent);
        if spent <= EVALUATION_BYTES_MAX {
            return Ok(());
        }
        let limit = EVALUATION_BYTES_MAX >> 20;
        let message = format!("the expressions of this file make and look at more than {limit} MiB");
        Err(EvalError::at(span, message).help("shorten its lists, or what is done for each item").limit())
    }

    /// The value, if it is within limits, and counted.
    pub fn bounded(&self, value: Value, span: Span) -> EvalResult<Value> {
        if value.bytes() > VALUE_BYTES_MAX {
            let message = format!("this value takes more than {} MiB", VALUE_BYTES_MAX >> 20);
            return Err(EvalError::at(span, message).limit());
        }
        if value.depth() > DEPTH_MAX as u32 {
            let message = format!("this value is nested more than {DEPTH_MAX} levels deep");
            return Err(EvalError::at(span, message).limit());
        }
        self.spend(value.bytes(), span)?;
        Ok(value)
    }

    /// The entries of a body.
    pub fn body<'s>(&self, items: &[Item<'s>], scope: Scope<'_>) -> Vec<Entry<'s>> {
        let mut entries = Vec::with_capacity(items.len());
        for Item { key, kind } in items {
            match kind {
                ItemKind::Attribute(expression) => {
                    let value = self.node(expression, scope);
                    entries.push(Entry { key: key.clone(), kind: EntryKind::Attribute, value });
                }
                ItemKind::Block(block) if key.text == "dynamic" => {
                    dynamic::expand(self, block, scope, &mut entries);
                }
                ItemKind::Block(block) => entries.push(self.block(key.clone(), block, scope)),
            }
            if self.is_over() {
                break;
            }
        }
        entries
    }

    fn block<'s>(&self, key: Name<'s>, block: &Block<'s>, scope: Scope<'_>) -> Entry<'s> {
        let tree = Tree::Object(self.body(&block.items, scope).into());
        let kind = EntryKind::Block { labels: block.labels.clone().into() };
        Entry { key, kind, value: Node { span: block.span, tree } }
    }

    /// Whether there is no point in going on, as the limit has been reported.
    pub fn is_over(&self) -> bool {
        self.spent_bytes.get() > EVALUATION_BYTES_MAX
    }

    /// The value of an attribute; unknown, and a mistake in the report, if it has none.
    ///
    /// Lists and objects that are written out keep the positions of their parts, for messages about them.
    pub fn node<'s>(&self, expression: &Expression<'s>, scope: Scope<'_>) -> Node<'s> {
        let span = expression.span;
        let tree = match &expression.kind {
            ExpressionKind::List(items) => {
                Tree::List(items.iter().map(|item| self.node(item, scope)).collect())
            }
            ExpressionKind::Object(items) => {
                Tree::Object(items.iter().filter_map(|(key, value)| self.member(key, value, scope)).collect())
            }
            _ => self.tree(expression, scope).unwrap_or_else(|error| {
                error.report(self.report);
                Tree::Unknown
            }),
        };
        Node { span, tree }
    }

    fn tree<'s>(&self, expression: &Expression<'s>, scope: Scope<'_>) -> EvalResult<Tree<'s>> {
        let span = expression.span;
        self.spend(NODE_BYTES, span)?;
        Ok(match &expression.kind {
            ExpressionKind::Null => Tree::Null,
            ExpressionKind::Bool(value) => Tree::Bool(*value),
            ExpressionKind::Int(value) => Tree::Int(*value),
            ExpressionKind::Float(value) => Tree::Float(*value),
            ExpressionKind::Template(parts) => match parts.as_slice() {
                [StringPart::Text(text)] => {
                    self.spend(text.len() as u64, span)?;
                    Tree::Text(text.clone())
                }
                _ => self.value(expression, scope)?.into_tree(span),
            },
            _ => self.value(expression, scope)?.into_tree(span),
        })
    }

    /// None, and a mistake in the report, if its key has no value.
    fn member<'s>(
        &self,
        key: &Expression<'s>,
        value: &Expression<'s>,
        scope: Scope<'_>,
    ) -> Option<Entry<'s>> {
        let value = self.node(value, scope);
        let text = match &key.kind {
            ExpressionKind::Template(parts) if matches!(parts.as_slice(), [StringPart::Text(_)]) => {
                match parts.first() {
                    Some(StringPart::Text(text)) => text.clone(),
                    _ => Cow::default(),
                }
            }
            _ => match self.key(key, scope) {
                Ok(text) => Cow::Owned(text.to_string()),
                Err(error) => {
                    error.report(self.report);
                    return None;
                }
            },
        };
        let key = Name { text, span: key.span };
        Some(Entry { key, kind: EntryKind::Attribute, value })
    }

    /// The key of an object's member.
    pub fn key(&self, key: &Expression<'_>, scope: Scope<'_>) -> EvalResult<Rc<str>> {
        let value = self.value(key, scope)?;
        let text = value.to_text().map(|text| Rc::from(&*text));
        text.ok_or_else(|| EvalError::at(key.span, format!("a key must be text, found {}", value.kind())))
    }
}
