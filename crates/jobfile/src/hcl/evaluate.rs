//! Expressions to values. So far only what needs no evaluation: variables, functions and operators have their place
//! here, in [`Evaluator::value`].

use crate::{
    diagnostic::quoted,
    report::Report,
    span::Span,
    syntax::{Expression, Item, ItemKind, Kind, Part},
    tree::{Entry, Form, Name, Node, Tree},
};

/// First words of references that are known when the file is read, not when the task starts.
const EARLY: &[&str] = &["var", "local", "each", "path"];

/// The values of a body.
pub(super) fn entries(items: Vec<Item>, report: &Report<'_>) -> Vec<Entry<'static>> {
    Evaluator { report }.body(items)
}

struct Evaluator<'r> {
    report: &'r Report<'r>,
}

impl Evaluator<'_> {
    fn body(&self, items: Vec<Item>) -> Vec<Entry<'static>> {
        items.into_iter().map(|item| self.entry(item)).collect()
    }

    fn entry(&self, Item { key, kind }: Item) -> Entry<'static> {
        match kind {
            ItemKind::Attribute(expression) => {
                Entry { key, form: Form::Attribute, value: self.node(expression) }
            }
            ItemKind::Block { labels, items, span } => {
                let value = Node { span, tree: Tree::Object(self.body(items)) };
                Entry { key, form: Form::Block { labels: labels.into() }, value }
            }
        }
    }

    fn node(&self, expression: Expression) -> Node<'static> {
        let span = expression.span;
        Node { span, tree: self.value(expression) }
    }

    fn value(&self, Expression { span, kind }: Expression) -> Tree<'static> {
        match kind {
            Kind::Null => Tree::Null,
            Kind::Bool(value) => Tree::Bool(value),
            Kind::Int(value) => Tree::Int(value),
            Kind::Float(value) => Tree::Float(value),
            Kind::Template(parts) => {
                Tree::Text(parts.into_iter().map(|part| self.text(part)).collect::<String>().into())
            }
            Kind::List(items) => Tree::List(items.into_iter().map(|item| self.node(item)).collect()),
            Kind::Object(items) => Tree::Object(items.into_iter().map(|item| self.member(item)).collect()),
            Kind::Reference(root) => self.reference(span, &root),
            Kind::Later(what) => {
                self.report.error(span, format!("{what} is not supported yet"));
                Tree::Null
            }
        }
    }

    fn member(&self, (key, value): (Expression, Expression)) -> Entry<'static> {
        let span = key.span;
        let text = self.hole(key);
        Entry { key: Name { text: text.into(), span }, form: Form::Attribute, value: self.node(value) }
    }

    /// A piece of a string. What only the node or the agent knows stays as it is written.
    fn text(&self, part: Part) -> String {
        match part {
            Part::Text(text) => text,
            Part::Hole(Expression { kind: Kind::Reference(root), .. }, source) if !is_early(&root) => source,
            Part::Hole(expression, _) => self.hole(expression),
        }
    }

    fn hole(&self, expression: Expression) -> String {
        if let Kind::Null | Kind::List(_) | Kind::Object(_) = expression.kind {
            self.report
                .error(expression.span, "only text, numbers and truth values can stand inside of a string");
        }
        self.value(expression).to_text().unwrap_or_default()
    }

    fn reference(&self, span: Span, root: &str) -> Tree<'static> {
        if is_early(root) {
            self.report.error(span, format!("the reference to `{root}` is not supported yet"));
        } else {
            let message = format!("the reference to {} stands outside of a string", quoted(root));
            self.report.error_with_help(span, message, "for text, and for `${...}`, write quotes around it");
        }
        Tree::Null
    }
}

fn is_early(root: &str) -> bool {
    EARLY.contains(&root)
}
