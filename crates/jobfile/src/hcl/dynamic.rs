//! Dynamic blocks: a block for each item of a list or object.

use std::rc::Rc;

use super::{
    error::{EvalError, EvalResult},
    evaluate::Evaluator,
    scope::{Frame, Scope},
    value::{Members, Value},
};
use crate::{
    diagnostic::quoted,
    syntax::{Block, Expression, ExpressionKind, Item, ItemKind},
    tree::{Entry, EntryKind, Name, Node, Tree},
};

/// What a dynamic block says.
struct DynamicBlock<'i, 's> {
    /// The key of the blocks that it makes.
    key: &'i Name<'s>,
    for_each: &'i Expression<'s>,
    /// Stands for the item in what the block holds; the key unless given.
    iterator: &'i str,
    labels: Option<&'i Expression<'s>>,
    content: &'i Block<'s>,
}

/// Adds the blocks that a dynamic block stands for.
pub(super) fn expand<'s>(
    evaluator: &Evaluator<'_>,
    block: &Block<'s>,
    scope: Scope<'_>,
    entries: &mut Vec<Entry<'s>>,
) {
    let result = read(block).and_then(|dynamic| dynamic.expand(evaluator, scope, entries));
    result.unwrap_or_else(|error| error.report(evaluator.report));
}

fn read<'i, 's>(block: &'i Block<'s>) -> EvalResult<DynamicBlock<'i, 's>> {
    const HELP: &str = "write `dynamic \"name\" { for_each = ... content { ... } }`";
    let missing = |what: &str| EvalError::at(block.span, format!("dynamic block has no {what}")).help(HELP);
    let (mut for_each, mut iterator, mut labels, mut content) = (None, None, None, None);
    for Item { key, kind } in &block.items {
        match (&*key.text, kind) {
            ("for_each", ItemKind::Attribute(expression)) => for_each = Some(expression),
            ("labels", ItemKind::Attribute(expression)) => labels = Some(expression),
            ("iterator", ItemKind::Attribute(Expression { kind: ExpressionKind::Name(name), .. })) => {
                iterator = Some(*name)
            }
            ("iterator", ItemKind::Attribute(other)) => {
                return Err(EvalError::at(other.span, "iterator must be a name, without quotes"));
            }
            ("content", ItemKind::Block(block)) => content = Some(block),
            _ => {
                let message = format!("{} does not belong in a dynamic block", quoted(&key.text));
                return Err(EvalError::at(key.span, message).help(HELP));
            }
        }
    }
    let key = block.labels.first().ok_or_else(|| missing("label"))?;
    Ok(DynamicBlock {
        key,
        for_each: for_each.ok_or_else(|| missing("`for_each`"))?,
        iterator: iterator.unwrap_or(&key.text),
        labels,
        content: content.ok_or_else(|| missing("`content`"))?,
    })
}

impl<'s> DynamicBlock<'_, 's> {
    fn expand(
        &self,
        evaluator: &Evaluator<'_>,
        scope: Scope<'_>,
        entries: &mut Vec<Entry<'s>>,
    ) -> EvalResult<()> {
        let values = evaluator.value(self.for_each, scope)?;
        for (key, value) in evaluator.items(&values, self.for_each.span)? {
            let members = [("key", key), ("value", value)].map(|(name, value)| (Rc::from(name), value));
            let item = evaluator.bounded(Value::object(Members::from(members)), self.for_each.span)?;
            let frame = Frame::new(self.iterator, item, scope);
            let labels = self.labels_of(evaluator, frame.scope())?;
            let tree = Tree::Object(evaluator.body(&self.content.items, frame.scope()).into());
            let value = Node { span: self.content.span, tree };
            entries.push(Entry { key: self.key.clone(), kind: EntryKind::Block { labels }, value });
            if evaluator.is_over() {
                break;
            }
        }
        Ok(())
    }

    fn labels_of(&self, evaluator: &Evaluator<'_>, scope: Scope<'_>) -> EvalResult<Box<[Name<'s>]>> {
        let Some(expression) = self.labels else { return Ok(Box::default()) };
        let span = expression.span;
        let Value::List(labels) = evaluator.value(expression, scope)? else {
            return Err(EvalError::at(span, "labels must be a list of texts"));
        };
        let label = |label: &Value| {
            let text = label.to_text().map(|text| text.into_owned().into());
            let text = text.ok_or_else(|| EvalError::at(span, "labels must be a list of texts"))?;
            Ok(Name { text, span })
        };
        labels.inner.iter().map(label).collect()
    }
}
