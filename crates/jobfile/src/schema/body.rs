//! A block whose names are known: what the decoder asks for its fields.

use std::cell::Cell;

use super::{
    Field, Schema, Shape,
    unenforced::{instead_of, is_warned_of},
    unknown,
};
use crate::{
    diagnostic::quoted,
    report::{Position, Report},
    source::Syntax,
    span::Span,
    tree::{Entry, EntryKind, Name, Node, Tree},
};

/// The fields of one block, by name. Opening one reports every name that does not belong.
#[derive(Debug)]
pub(crate) struct Body<'t> {
    pub report: &'t Report<'t>,
    pub(super) schema: &'static Schema,
    pub(super) syntax: Syntax,
    /// Where it stands in a JSON document.
    pub(super) path: String,
    /// The block, or as much of it as messages about the whole should underline.
    pub(super) span: Span,
    /// What stands in front of the brace.
    pub(super) labels: &'t [Name<'t>],
    /// The first entry of each field, in the order of the table.
    entries: Vec<Option<&'t Entry<'t>>>,
    /// Further blocks, with the position of their field in the table.
    repeated: Vec<(usize, &'t Entry<'t>)>,
    /// Fields that unknown entries of HCL seem to mean, by their position in the table.
    misspelt: Vec<usize>,
    /// The key that stands for the label in JSON.
    label_entry: Option<&'t Entry<'t>>,
    /// Where in the table the next field is looked for first: the decoder asks for most of them in its order.
    next: Cell<usize>,
}

impl<'t> Body<'t> {
    /// A file in HCL.
    pub fn of_hcl_file(entries: &'t [Entry<'t>], schema: &'static Schema, report: &'t Report<'t>) -> Self {
        Self::new(Syntax::Hcl, schema, report).filled(entries)
    }

    /// An object of a JSON document; none, and reported, if it is something else.
    pub fn of_json(
        node: &'t Node<'t>,
        path: &str,
        schema: &'static Schema,
        report: &'t Report<'t>,
    ) -> Option<Self> {
        if !report.admits_block(|| Position::Path(path.to_owned())) {
            return None;
        }
        let body = Self { path: path.to_owned(), ..Self::new(Syntax::Json, schema, report) };
        body.of_object(node)
    }

    fn of_object(self, node: &'t Node<'t>) -> Option<Self> {
        let Tree::Object(entries) = &node.tree else {
            let message =
                format!("expected the object of a {}, found {}", self.schema.what, node.tree.kind());
            self.report.error_of_form(self.at_self(), message);
            return None;
        };
        Some(self.filled(entries))
    }

    fn new(syntax: Syntax, schema: &'static Schema, report: &'t Report<'t>) -> Self {
        let (path, span) = (String::new(), Span::default());
        let (entries, repeated) = (vec![None; schema.fields.len()], Vec::new());
        Self {
            report,
            schema,
            syntax,
            path,
            span,
            labels: &[],
            entries,
            repeated,
            misspelt: Vec::new(),
            label_entry: None,
            next: Cell::new(0),
        }
    }

    fn of_block(
        &self,
        entry: &'t Entry<'t>,
        labels: &'t [Name<'t>],
        schema: &'static Schema,
    ) -> Option<Self> {
        if !self.report.admits_block(|| entry.key.span.into()) {
            return None;
        }
        let span = labels.iter().fold(entry.key.span, |span, label| span.to(label.span));
        let body = Self { span, labels, ..Self::new(Syntax::Hcl, schema, self.report) };
        let expected = usize::from(schema.label.is_some());
        if let Some(extra) = labels.get(expected) {
            let message = format!(
                "{} has {expected} {}, found {}",
                schema.what,
                plural("label", expected),
                labels.len()
            );
            self.report.error_of_form(extra.span, message);
        }
        Some(match &entry.value.tree {
            Tree::Object(entries) => body.filled(entries),
            _ => body,
        })
    }

    fn filled(mut self, entries: &'t [Entry<'t>]) -> Self {
        for entry in entries {
            match self.position(&entry.key.text) {
                Some(at) if self.has_shape(&self.schema.fields[at], entry) => self.put(at, entry),
                Some(_) => {}
                None if self.is_label(entry) => self.label_entry = Some(entry),
                None => {
                    unknown::report(&self, entry);
                    self.misspelt.extend(unknown::intended_field(&self, entry));
                }
            }
        }
        self
    }

    /// The rank in the table of a field as the user spells it.
    pub(super) fn position(&self, key: &str) -> Option<usize> {
        self.find(|field| !key.is_empty() && self.spelling(field) == key)
    }

    /// The field that the decoder calls so.
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.rank_of(name).map(|at| &self.schema.fields[at])
    }

    /// The rank in the table of the field with this name.
    fn rank_of(&self, name: &str) -> Option<usize> {
        self.find(|field| field.name() == name)
    }

    /// A name stands once in a table, so that it does not matter where the search begins.
    fn find(&self, is_it: impl Fn(&Field) -> bool) -> Option<usize> {
        let (fields, next) = (self.schema.fields, self.next.get().min(self.schema.fields.len()));
        let behind = || fields[next..].iter().position(&is_it).map(|at| next + at);
        let found = behind().or_else(|| fields[..next].iter().position(&is_it));
        found.inspect(|at| self.next.set(at + 1))
    }

    fn is_label(&self, entry: &Entry<'_>) -> bool {
        self.syntax == Syntax::Json && self.schema.label == Some(&*entry.key.text)
    }

    fn put(&mut self, at: usize, entry: &'t Entry<'t>) {
        let field = &self.schema.fields[at];
        if self.entries[at].is_none() {
            self.entries[at] = Some(entry);
        } else if matches!(entry.kind, EntryKind::Block { .. }) && field.shape.repeats() {
            self.repeated.push((at, entry));
        } else {
            let message = format!("{} is given twice", quoted(&entry.key.text));
            return self.report.error_of_form(self.at_entry(entry), message);
        }
        // What a block says beyond its defaults is known once it has been read.
        let says_something = match (&field.shape, &entry.value.tree) {
            (Shape::Block(_), _) => false,
            (_, Tree::Text(text)) => !matches!(&**text, "" | "default"),
            (_, tree) => !tree.is_empty(),
        };
        if says_something {
            self.warn_unenforced(field.name());
        }
    }

    /// Warns if a setting is given that nothing acts upon yet.
    pub fn warn_unenforced(&self, name: &str) {
        if is_warned_of(self.schema, name) {
            let message = format!("{} in {} is not implemented", quoted(self.word(name)), self.what());
            self.report.warn_of_form(self.at_key(name), &message, instead_of(self.schema, name));
        }
    }

    /// Whether an entry is the attribute or block that its field should be; reports when not. JSON has no such
    /// difference.
    fn has_shape(&self, field: &Field, entry: &Entry<'_>) -> bool {
        let help = match &entry.kind {
            EntryKind::Attribute if self.syntax == Syntax::Hcl && field.shape.schema().is_some() => {
                format!("it is a block: write `{} {{ ... }}`, without `=`", field.hcl)
            }
            EntryKind::Block { .. } if field.shape.is_value() => {
                format!("it is an attribute: write `{} = ...`", field.hcl)
            }
            EntryKind::Block { labels } if field.shape.schema().is_none() && !labels.is_empty() => {
                format!("it has no label: write `{} {{ ... }}`", field.hcl)
            }
            _ => return true,
        };
        let message = format!("{} is not written like this", quoted(field.hcl));
        self.report.note_of_form(self.at_entry(entry), message, Some(help));
        false
    }

    pub(super) fn entry(&self, name: &str) -> Option<&'t Entry<'t>> {
        if name == "label" && self.schema.label.is_some() {
            return self.label_entry;
        }
        self.entries[self.rank_of(name)?]
    }

    /// The value of a field, unless it is absent, null or unknown.
    pub fn get(&self, name: &str) -> Option<&'t Node<'t>> {
        let node = &self.entry(name)?.value;
        if matches!(node.tree, Tree::Null | Tree::Unknown) { None } else { Some(node) }
    }

    /// Whether the file says anything about a field.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether the file says nothing about a field, or leaves it empty. One whose name is misspelt is not said to be missing,
    /// too.
    pub fn lacks(&self, name: &str) -> bool {
        if self.rank_of(name).is_some_and(|at| self.misspelt.contains(&at)) {
            return false;
        }
        let entry = self.entry(name);
        entry.is_none_or(|entry| matches!(entry.kind, EntryKind::Attribute) && entry.value.tree.is_empty())
    }

    /// Whether a block is one of JSON of nothing but zeros, which clients send for one that is not there. One without any
    /// member is there, with its defaults.
    pub fn is_left_out(&self, name: &str) -> bool {
        let members = self.get(name).map(|node| &node.tree);
        self.lacks(name) && !matches!(members, Some(Tree::Object(members)) if members.is_empty())
    }

    /// Reports that the block lacks something. The help is in the words of HCL; in JSON the path must do.
    pub fn missing(&self, message: &str, help: &str) {
        let help = Some(help.to_owned()).filter(|_| !self.is_json());
        self.report.note(self.at_self(), message.to_owned(), help);
    }

    /// The block's label, or the key that stands for it in JSON.
    pub fn label(&self) -> Option<String> {
        match self.labels.first() {
            Some(label) => Some(label.text.clone().into_owned()),
            None => self.text("label"),
        }
    }

    /// The block of that name, if there is one.
    pub fn block(&self, name: &str) -> Option<Body<'t>> {
        self.blocks(name).into_iter().next()
    }

    /// All blocks of that name.
    pub fn blocks(&self, name: &str) -> Vec<Body<'t>> {
        let Some(at) = self.rank_of(name) else { return Vec::new() };
        let field = &self.schema.fields[at];
        let Some(schema) = field.shape.schema() else { return Vec::new() };
        let more = self.repeated.iter().filter(|(of, _)| *of == at).map(|(_, entry)| *entry);
        self.entries[at].into_iter().chain(more).flat_map(|entry| self.open(field, entry, schema)).collect()
    }

    /// All blocks of that name once more, to compare them with others: their mistakes have been reported.
    pub fn again(&self, name: &str) -> Vec<Body<'t>> {
        self.report.quietly(|| self.blocks(name))
    }

    fn open(&self, field: &Field, entry: &'t Entry<'t>, schema: &'static Schema) -> Vec<Body<'t>> {
        let path = self.path_of(&entry.key.text);
        match (&entry.kind, &entry.value.tree, field.shape) {
            (EntryKind::Block { labels }, ..) => self.of_block(entry, labels, schema).into_iter().collect(),
            (EntryKind::Attribute, Tree::Null | Tree::Unknown, _) => Vec::new(),
            (EntryKind::Attribute, _, Shape::Block(_)) => {
                Self::of_json(&entry.value, &path, schema, self.report).into_iter().collect()
            }
            (EntryKind::Attribute, Tree::List(items), Shape::Blocks(_)) => {
                let item = |(i, node)| Self::of_json(node, &format!("{path}[{i}]"), schema, self.report);
                items.iter().enumerate().filter_map(item).collect()
            }
            (EntryKind::Attribute, Tree::Object(entries), Shape::Labelled(_)) => {
                entries.iter().filter_map(|entry| self.of_member(entry, &path, schema)).collect()
            }
            (EntryKind::Attribute, other, shape) => {
                let expected = if matches!(shape, Shape::Blocks(_)) { "a list" } else { "an object" };
                let message = format!("expected {expected} of objects, found {}", other.kind());
                self.report.error_of_form(self.at(field.name()), message);
                Vec::new()
            }
        }
    }

    /// An object of JSON whose key is its label.
    fn of_member(&self, entry: &'t Entry<'t>, path: &str, schema: &'static Schema) -> Option<Body<'t>> {
        let path = format!("{path}.{}", entry.key.text);
        let body = Self::of_json(&entry.value, &path, schema, self.report)?;
        Some(Self { labels: std::slice::from_ref(&entry.key), ..body })
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
        label.or_else(|| self.field(name).map(|field| self.spelling(field))).unwrap_or_default()
    }

    /// What messages call the block.
    pub fn what(&self) -> &'static str {
        self.schema.what
    }
}

fn plural(word: &str, count: usize) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}
