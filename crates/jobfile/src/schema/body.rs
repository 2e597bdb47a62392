//! A block whose names are known: what the decoder asks for its fields.

use std::collections::HashMap;

use super::{Field, Schema, Shape, unknown};
use crate::{
    diagnostic::quoted,
    report::{At, Report},
    source::Syntax,
    span::Span,
    tree::{Entry, Form, Name, Node, Tree},
};

/// The fields of one block, sorted by name. Opening one reports every name that does not belong.
#[derive(Debug)]
pub(crate) struct Body<'t> {
    pub report: &'t Report<'t>,
    pub(super) schema: &'static Schema,
    pub(super) syntax: Syntax,
    /// Where it stands in a JSON document.
    path: String,
    /// The block, or as much of it as messages about the whole should underline.
    span: Span,
    /// What stands in front of the brace.
    labels: &'t [Name],
    entries: HashMap<&'static str, Vec<&'t Entry>>,
}

impl<'t> Body<'t> {
    /// A file in HCL.
    pub fn of_hcl_file(entries: &'t [Entry], report: &'t Report<'t>) -> Self {
        let body = Self::new(Syntax::Hcl, &super::FILE, report);
        body.filled(entries)
    }

    /// An object of a JSON document; none, and reported, if it is something else.
    pub fn of_json(
        node: &'t Node,
        path: &str,
        schema: &'static Schema,
        report: &'t Report<'t>,
    ) -> Option<Self> {
        let body = Self { path: path.to_owned(), ..Self::new(Syntax::Json, schema, report) };
        let Tree::Object(entries) = &node.tree else {
            let message = format!("expected the object of a {}, found {}", schema.what, node.tree.kind());
            report.error(body.at_self(), message);
            return None;
        };
        Some(body.filled(entries))
    }

    fn new(syntax: Syntax, schema: &'static Schema, report: &'t Report<'t>) -> Self {
        let (path, span) = (String::new(), Span::default());
        Self { report, schema, syntax, path, span, labels: &[], entries: HashMap::new() }
    }

    fn of_block(&self, entry: &'t Entry, labels: &'t [Name], schema: &'static Schema) -> Self {
        let span = labels.iter().fold(entry.key.span, |span, label| span.to(label.span));
        let body = Self { span, labels, ..Self::new(Syntax::Hcl, schema, self.report) };
        let wanted = usize::from(schema.label.is_some());
        if let Some(extra) = labels.get(wanted) {
            let message =
                format!("{} has {wanted} {}, found {}", schema.what, plural("label", wanted), labels.len());
            self.report.error(extra.span, message);
        }
        match &entry.value.tree {
            Tree::Object(entries) => body.filled(entries),
            _ => body,
        }
    }

    fn filled(mut self, entries: &'t [Entry]) -> Self {
        for entry in entries {
            match self.field(&entry.key.text) {
                Some(field) if self.has_shape(field, entry) => self.put(field, entry),
                Some(_) => {}
                None if self.is_label(entry) => self.entries.entry("label").or_default().push(entry),
                None => unknown::report(&self, entry),
            }
        }
        self
    }

    fn field(&self, key: &str) -> Option<&'static Field> {
        self.schema.fields.iter().find(|field| !key.is_empty() && self.spelling(field) == key)
    }

    fn is_label(&self, entry: &Entry) -> bool {
        self.syntax == Syntax::Json && self.schema.label == Some(entry.key.text.as_str())
    }

    fn put(&mut self, field: &Field, entry: &'t Entry) {
        let same = self.entries.entry(field.name()).or_default();
        let repeats = matches!(entry.form, Form::Block { .. }) && field.shape == Shape::Blocks;
        if same.is_empty() || repeats {
            same.push(entry);
        } else {
            let message = format!("{} is given twice", quoted(&entry.key.text));
            self.report.error(self.at_entry(entry), message);
        }
    }

    /// Whether an entry is the attribute or block that its field should be; reports when not. JSON has no such
    /// difference.
    fn has_shape(&self, field: &Field, entry: &Entry) -> bool {
        let help = match (&entry.form, field.shape) {
            (Form::Attribute, Shape::Block | Shape::Blocks) if self.syntax == Syntax::Hcl => {
                format!("it is a block: write `{} {{ ... }}`, without `=`", field.hcl)
            }
            (Form::Block { .. }, Shape::Value) => format!("it is an attribute: write `{} = ...`", field.hcl),
            (Form::Block { labels }, Shape::Map) if !labels.is_empty() => {
                format!("it has no label: write `{} {{ ... }}`", field.hcl)
            }
            _ => return true,
        };
        let message = format!("{} is not written like this", quoted(field.hcl));
        self.report.error_with_help(self.at_entry(entry), message, help);
        false
    }

    /// The value of a field, unless it is absent or null.
    pub fn get(&self, name: &str) -> Option<&'t Node> {
        let node = &self.entries.get(name)?.first()?.value;
        if matches!(node.tree, Tree::Null) { None } else { Some(node) }
    }

    /// Whether the file says anything about a field.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether the file says nothing about a field, or leaves it empty.
    pub fn lacks(&self, name: &str) -> bool {
        let entry = self.entries.get(name).and_then(|entries| entries.first());
        entry.is_none_or(|entry| matches!(entry.form, Form::Attribute) && entry.value.tree.is_empty())
    }

    /// Reports that the block lacks something. The help is in the words of HCL; in JSON the path must do.
    pub fn missing(&self, message: &str, help: &str) {
        let help = Some(help.to_owned()).filter(|_| !self.is_json());
        self.report.note(self.at_self(), message.to_owned(), help);
    }

    /// The block's label, or the key that stands for it in JSON.
    pub fn label(&self) -> Option<String> {
        match self.syntax {
            Syntax::Hcl => self.labels.first().map(|label| label.text.clone()),
            Syntax::Json => self.text("label"),
        }
    }

    /// The block of that name, if there is one.
    pub fn block(&self, name: &str, schema: &'static Schema) -> Option<Body<'t>> {
        self.blocks(name, schema).into_iter().next()
    }

    /// All blocks of that name.
    pub fn blocks(&self, name: &str, schema: &'static Schema) -> Vec<Body<'t>> {
        let entries = self.entries.get(name).map_or(&[][..], Vec::as_slice);
        entries.iter().flat_map(|entry| self.open(name, entry, schema)).collect()
    }

    fn open(&self, name: &str, entry: &'t Entry, schema: &'static Schema) -> Vec<Body<'t>> {
        let path = self.path_of(&entry.key.text);
        let many = self.field(&entry.key.text).is_some_and(|field| field.shape == Shape::Blocks);
        match (&entry.form, &entry.value.tree) {
            (Form::Block { labels }, _) => vec![self.of_block(entry, labels, schema)],
            (Form::Attribute, Tree::Null) => Vec::new(),
            (Form::Attribute, Tree::List(items)) if many => {
                let item = |(i, node)| Self::of_json(node, &format!("{path}[{i}]"), schema, self.report);
                items.iter().enumerate().filter_map(item).collect()
            }
            (Form::Attribute, _) if !many => {
                Self::of_json(&entry.value, &path, schema, self.report).into_iter().collect()
            }
            (Form::Attribute, other) => {
                self.report
                    .error(self.at(name), format!("expected a list of objects, found {}", other.kind()));
                Vec::new()
            }
        }
    }

    pub fn is_json(&self) -> bool {
        self.syntax == Syntax::Json
    }

    /// How the user spells a field.
    pub fn spelling(&self, field: &Field) -> &'static str {
        match self.syntax {
            Syntax::Hcl => field.hcl,
            Syntax::Json => field.json,
        }
    }

    /// The user's spelling of a field of that name.
    pub fn word(&self, name: &str) -> &'static str {
        let label = self.schema.label.filter(|_| name == "label");
        let field = || self.schema.fields.iter().find(|field| field.name() == name);
        label.or_else(|| field().map(|field| self.spelling(field))).unwrap_or_default()
    }

    /// What messages call the block.
    pub fn what(&self) -> &'static str {
        self.schema.what
    }

    /// The place of a field's value; of the block, if the field is absent.
    pub fn at(&self, name: &str) -> At {
        match (self.entries.get(name).and_then(|entries| entries.first()), self.syntax) {
            (Some(entry), Syntax::Hcl) => entry.value.span.into(),
            (Some(entry), Syntax::Json) => At::Path(self.path_of(&entry.key.text)),
            (None, _) => self.at_self(),
        }
    }

    /// The place of the block's label, or of the block.
    pub fn at_label(&self) -> At {
        self.labels.first().map_or_else(|| self.at("label"), |label| label.span.into())
    }

    /// The place of an entry's key.
    pub fn at_entry(&self, entry: &Entry) -> At {
        match self.syntax {
            Syntax::Hcl => entry.key.span.into(),
            Syntax::Json => At::Path(self.path_of(&entry.key.text)),
        }
    }

    /// The place of the block.
    pub fn at_self(&self) -> At {
        match self.syntax {
            Syntax::Hcl if self.schema.label.is_none() && self.span == Span::default() => At::File,
            Syntax::Hcl => self.span.into(),
            Syntax::Json => At::Path(self.path.clone()),
        }
    }

    fn path_of(&self, key: &str) -> String {
        if self.syntax == Syntax::Hcl { String::new() } else { format!("{}.{key}", self.path) }
    }
}

fn plural(word: &str, count: usize) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}
