//! Typed values of a block's fields. A value of the wrong type is reported and then treated as absent.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use berth_model::value::Value;

use super::Body;
use crate::{
    diagnostic::quoted,
    report::Position,
    setting,
    source::Syntax,
    suggest::nearest,
    tree::{Entry, Node, Tree},
};

impl<'t> Body<'t> {
    /// Text; numbers and truth values stand for how they are written.
    pub fn text(&self, name: &str) -> Option<String> {
        let node = self.get(name)?;
        node.tree.to_text().or_else(|| self.mistyped(name, node, "text"))
    }

    /// Text that is not empty: many clients send empty text for what was never set.
    pub fn filled_text(&self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty())
    }

    /// A truth value.
    pub fn flag(&self, name: &str) -> Option<bool> {
        let node = self.get(name)?;
        node.tree.to_bool().or_else(|| self.mistyped(name, node, "true or false"))
    }

    /// A whole number within limits.
    pub fn number<T: TryFrom<i64>>(&self, name: &str, limits: RangeInclusive<i64>) -> Option<T> {
        let node = self.get(name)?;
        let Some(number) = node.tree.to_whole() else { return self.mistyped(name, node, "a whole number") };
        let fitting = Some(number).filter(|n| limits.contains(n)).and_then(|n| T::try_from(n).ok());
        if fitting.is_none() {
            let (word, min, max) = (self.word(name), limits.start(), limits.end());
            self.report
                .error_of_form(self.at(name), format!("`{word}` is {number}, but must be {min} to {max}"));
        }
        fitting
    }

    /// A duration: text as `1h30m`, or in JSON a number of nanoseconds.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        const HELP: &str = "write a number with its unit, as in \"1h30m\", \"5s\" or \"100ms\"";
        let node = self.get(name)?;
        let duration = match (&node.tree, self.syntax) {
            (Tree::Text(text), _) => berth_duration::parse(text),
            (Tree::Int(nanos), Syntax::Json) => {
                u128::try_from(*nanos).ok().and_then(berth_duration::from_nanos)
            }
            _ => None,
        };
        if duration.is_none() {
            let message = format!("`{}` is not a duration", self.word(name));
            self.report.note_of_form(self.at(name), message, Some(HELP.to_owned()));
        }
        duration
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.filled_text(name)?;
        let chosen = choices.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice);
        if chosen.is_none() {
            let message = format!("`{}` of {} cannot be {}", self.word(name), self.what(), quoted(&text));
            let words = choices.iter().map(|(word, _)| *word);
            let help = nearest(&text, words.clone()).map_or_else(
                || format!("known are {}", words.collect::<Vec<_>>().join(", ")),
                |word| format!("did you mean `{word}`?"),
            );
            self.report.note_of_form(self.at(name), message, Some(help));
        }
        chosen
    }

    /// A list of texts.
    pub fn texts(&self, name: &str) -> Option<Vec<String>> {
        let node = self.get(name)?;
        let texts = match &node.tree {
            Tree::List(items) => items.iter().map(|item| item.tree.to_text()).collect(),
            _ => None,
        };
        texts.or_else(|| self.mistyped(name, node, "a list of texts"))
    }

    /// A list of whole numbers.
    pub fn wholes(&self, name: &str) -> Option<Vec<i64>> {
        let node = self.get(name)?;
        let wholes = match &node.tree {
            Tree::List(items) => items.iter().map(|item| item.tree.to_whole()).collect(),
            _ => None,
        };
        wholes.or_else(|| self.mistyped(name, node, "a list of whole numbers"))
    }

    /// Texts by key.
    pub fn text_map(&self, name: &str) -> BTreeMap<String, String> {
        self.map_of(name, "text", |tree| tree.to_text())
    }

    /// Lists of texts by key.
    pub fn texts_map(&self, name: &str) -> BTreeMap<String, Vec<String>> {
        self.map_of(name, "a list of texts", |tree| match tree {
            Tree::List(items) => items.iter().map(|item| item.tree.to_text()).collect(),
            _ => None,
        })
    }

    fn map_of<T>(
        &self,
        name: &str,
        wanted: &str,
        read: impl Fn(&Tree<'_>) -> Option<T>,
    ) -> BTreeMap<String, T> {
        let mut map = BTreeMap::new();
        for entry in self.members(name).iter().filter(|entry| !entry.value.tree.holds_unknown()) {
            let key = &entry.key.text;
            let Some(value) = read(&entry.value.tree) else {
                let message = format!("expected {wanted}, found {}", entry.value.tree.kind());
                self.report.error_of_form(
                    self.at_member(name, entry),
                    format!("{} in `{}`: {message}", quoted(key), self.word(name)),
                );
                continue;
            };
            if map.insert(key.clone().into_owned(), value).is_some() {
                self.report
                    .error_of_form(self.at_member(name, entry), format!("{} is given twice", quoted(key)));
            }
        }
        map
    }

    /// Settings of any type by key.
    pub fn settings(&self, name: &str) -> BTreeMap<String, Value> {
        setting::map(self.members(name)).unwrap_or_else(|error| {
            let at = match self.syntax {
                Syntax::Hcl => error.span.into(),
                Syntax::Json => self.at(name),
            };
            self.report.error_of_form(at, error.message);
            BTreeMap::new()
        })
    }

    fn members(&self, name: &str) -> &'t [Entry<'t>] {
        match self.get(name).map(|node| (node, &node.tree)) {
            None => &[],
            Some((_, Tree::Object(entries))) => entries,
            Some((node, _)) => self.mistyped(name, node, "names with values").unwrap_or(&[]),
        }
    }

    fn at_member(&self, name: &str, entry: &Entry<'_>) -> Position {
        match self.syntax {
            Syntax::Hcl => entry.key.span.into(),
            Syntax::Json => self.at(name),
        }
    }

    fn mistyped<T>(&self, name: &str, node: &Node<'_>, wanted: &str) -> Option<T> {
        // Of what is not known in it nobody can say whether it is right.
        if !node.tree.holds_unknown() {
            let message = format!("`{}` must be {wanted}, found {}", self.word(name), node.tree.kind());
            self.report.error_of_form(self.at(name), message);
        }
        None
    }
}
