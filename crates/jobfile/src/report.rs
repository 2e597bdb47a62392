//! Collects mistakes while reading goes on, so that one run names as many as possible, and warnings beside them.

use std::cell::{Cell, RefCell};

use berth_model::namespace::NAMESPACE_DEFAULT;

use crate::{
    Inputs,
    diagnostic::{Diagnostic, Diagnostics, Excerpt, Location, Severity, printable_text},
    limits::{BLOCKS_MAX, DIAGNOSTICS_MAX},
    span::Span,
};

/// The position of an error or warning, in the terms of the syntax.
#[derive(Debug, Clone)]
pub(crate) enum Position {
    /// A part of the text.
    Span(Span),
    /// A path of a JSON document.
    Path(String),
    /// The source as a whole.
    File,
}

impl From<Span> for Position {
    fn from(span: Span) -> Self {
        Self::Span(span)
    }
}

/// The errors and warnings that were found so far in one source.
#[derive(Debug)]
pub(crate) struct Report<'s> {
    file: &'s str,
    source: &'s str,
    errors: RefCell<Vec<Diagnostic>>,
    omitted: Cell<usize>,
    warnings: RefCell<Vec<Diagnostic>>,
    /// Unknown keys, where these are warnings.
    ignored_key: RefCell<Vec<Diagnostic>>,
    omitted_ignored_keys: Cell<usize>,
    /// Whether an unknown key of JSON is a warning instead of a mistake.
    ignores_unknown_keys: bool,
    muted: Cell<bool>,
    /// Whether expressions had no value, so that parts of the job are unknown.
    has_missing_values: Cell<bool>,
    /// Whether warnings are muted; errors are not.
    mutes_warnings: Cell<bool>,
    blocks: Cell<usize>,
    /// Drivers that nodes have besides those of Berth.
    drivers: &'s [String],
    /// The namespace of a job that names none.
    namespace: Option<&'s str>,
    unknown_drivers: RefCell<Vec<String>>,
}

impl<'s> Report<'s> {
    pub fn new(file: &'s str, source: &'s str) -> Self {
        let (errors, warnings) = (RefCell::default(), RefCell::default());
        let (omitted, muted, blocks) = (Cell::new(0), Cell::new(false), Cell::new(0));
        let (has_missing_values, mutes_warnings) = (Cell::new(false), Cell::new(false));
        let (drivers, unknown_drivers) = (&[][..], RefCell::default());
        let (ignored_key, omitted_ignored_keys) = (RefCell::default(), Cell::new(0));
        let (ignores_unknown_keys, namespace) = (false, None);
        Self {
            file,
            source,
            errors,
            omitted,
            warnings,
            ignored_key,
            omitted_ignored_keys,
            ignores_unknown_keys,
            muted,
            has_missing_values,
            mutes_warnings,
            blocks,
            drivers,
            namespace,
            unknown_drivers,
        }
    }

    /// The same, where an unknown key of JSON is a warning instead of a mistake.
    pub fn ignoring_unknown_keys(self) -> Self {
        Self { ignores_unknown_keys: true, ..self }
    }

    /// Whether an unknown key of JSON is a warning instead of a mistake.
    pub fn ignores_unknown_keys(&self) -> bool {
        self.ignores_unknown_keys
    }

    /// The same, with what is known of the cluster and of the caller.
    pub fn with(self, inputs: &'s Inputs) -> Self {
        Self { drivers: &inputs.drivers, namespace: inputs.namespace.as_deref(), ..self }
    }

    /// The namespace of a job that names none.
    pub fn namespace(&self) -> &str {
        self.namespace.unwrap_or(NAMESPACE_DEFAULT)
    }

    /// Whether a node has a driver of that name.
    pub fn has_driver(&self, name: &str) -> bool {
        self.drivers.iter().any(|known| known == name)
    }

    /// Notes a driver that is a mistake unless a node has it.
    pub fn unknown_driver(&self, at: Position, name: &str, message: String, help: String) {
        if !self.muted.get() {
            self.unknown_drivers.borrow_mut().push(name.to_owned());
        }
        self.note_of_form(at, message, Some(help));
    }

    /// Notes a mistake that one name or value is by itself.
    pub fn error_of_form(&self, at: impl Into<Position>, message: impl Into<String>) {
        self.note_of_form(at.into(), message.into(), None);
    }

    /// Notes a mistake.
    pub fn error(&self, at: impl Into<Position>, message: impl Into<String>) {
        self.note(at.into(), message.into(), None);
    }

    /// Notes a mistake, and what to do about it.
    pub fn error_with_help(
        &self,
        at: impl Into<Position>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.note(at.into(), message.into(), Some(help.into()));
    }

    /// Whether one more block may be opened; reports the first that may not. Blocks that are read again are not counted
    /// again.
    pub fn admits_block(&self, at: impl FnOnce() -> Position) -> bool {
        if !self.muted.get() {
            self.blocks.set(self.blocks.get() + 1);
            if self.blocks.get() == BLOCKS_MAX + 1 {
                let message = format!("a job may have {BLOCKS_MAX} blocks, and this is one more");
                self.error_with_help(at(), message, "make several jobs of it");
            }
        }
        self.blocks.get() <= BLOCKS_MAX
    }

    /// Does something whose mistakes have been reported before.
    pub fn quietly<T>(&self, again: impl FnOnce() -> T) -> T {
        let before = self.muted.replace(true);
        let result = again();
        self.muted.set(before);
        result
    }

    /// From here on values are missing, which has been reported: only what is wrong whatever they are is noted.
    pub fn expect_missing_values(&self) {
        self.has_missing_values.set(true);
    }

    /// Does something of which only the mistakes count.
    pub fn without_warnings<T>(&self, then: impl FnOnce() -> T) -> T {
        let before = self.mutes_warnings.replace(true);
        let result = then();
        self.mutes_warnings.set(before);
        result
    }

    /// Notes a mistake, unless it may only be one because other values are missing.
    pub fn note(&self, at: Position, message: String, help: Option<String>) {
        if !self.has_missing_values.get() {
            self.note_of_form(at, message, help);
        }
    }

    /// Notes a mistake that one name or value is by itself.
    pub fn note_of_form(&self, at: Position, message: String, help: Option<String>) {
        if self.muted.get() {
            return;
        }
        if self.is_full() {
            return self.omitted.set(self.omitted.get() + 1);
        }
        let found = self.diagnostic(Severity::Error, at, &message, help.as_deref());
        self.errors.borrow_mut().push(found);
    }

    /// Notes a warning, once however often it comes: a job of a hundred tasks says it a hundred times. Not if it may only
    /// come of other values that are missing.
    pub fn warn(&self, at: Position, message: &str, help: &str) {
        if !self.has_missing_values.get() {
            self.warn_of_form(at, message, help);
        }
    }

    /// Notes a warning of a name that stands there.
    pub fn warn_of_form(&self, at: Position, message: &str, help: &str) {
        if !self.mutes_warnings.get() {
            self.add_warning(&self.warnings, at, message, help);
        }
    }

    /// Notes a key that is left out, once however often it comes. The message is made only while the list is not full.
    pub fn ignored_key(&self, at: Position, words: impl FnOnce() -> (String, String)) {
        if self.muted.get() {
            return;
        }
        if self.ignored_key.borrow().len() >= DIAGNOSTICS_MAX {
            return self.omitted_ignored_keys.set(self.omitted_ignored_keys.get() + 1);
        }
        let (message, help) = words();
        self.add_warning(&self.ignored_key, at, &message, &help);
    }

    fn add_warning(&self, all: &RefCell<Vec<Diagnostic>>, at: Position, message: &str, help: &str) {
        let is_known = all.borrow().iter().any(|known| known.message == message);
        if !is_known && !self.muted.get() {
            let found = self.diagnostic(Severity::Warning, at, message, Some(help));
            all.borrow_mut().push(found);
        }
    }

    fn diagnostic(&self, severity: Severity, at: Position, message: &str, help: Option<&str>) -> Diagnostic {
        let location = match at {
            Position::Span(span) => Location::Line(Excerpt::of(self.source, span.range())),
            Position::Path(path) => Location::Path(printable_text(&path)),
            Position::File => Location::File,
        };
        let (message, help) = (printable_text(message), help.map(printable_text));
        Diagnostic { severity, message, file: self.file.to_owned(), location, help }
    }

    /// Whether further mistakes are only counted: then nobody needs to find good words for them.
    pub fn is_full(&self) -> bool {
        self.errors.borrow().len() >= DIAGNOSTICS_MAX
    }

    /// Whether nothing was wrong so far.
    pub fn is_sound(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    /// Itself, if nothing was wrong so far; for steps that make no sense after a mistake.
    pub fn checked(self) -> Result<Self, Diagnostics> {
        if self.is_sound() { Ok(self) } else { Err(self.into_errors()) }
    }

    /// What was read and the warnings about it, if it was read and nothing is wrong with it.
    pub fn finish<T>(self, read: Option<T>) -> Result<(T, Diagnostics), Diagnostics> {
        if !self.is_sound() {
            return Err(self.into_errors());
        }
        let help = "write `job \"name\" { ... }`; `berth job init` writes one to start from";
        let missing = || Diagnostic {
            help: Some(help.to_owned()),
            ..Diagnostic::of_file(self.file, "no job in this file")
        };
        let read = read.ok_or_else(missing)?;
        let warnings = [self.ignored_key.into_inner(), self.warnings.into_inner()].concat();
        Ok((read, Diagnostics::new(warnings, self.omitted_ignored_keys.get())))
    }

    /// The mistakes; before them the keys that were left out, as what is missing may stand under one of these, and behind them
    /// what else was found: whoever mends the file mends all of it at once.
    pub fn into_errors(self) -> Diagnostics {
        let drivers = self.unknown_drivers.into_inner();
        let errors =
            [self.ignored_key.into_inner(), self.errors.into_inner(), self.warnings.into_inner()].concat();
        let omitted = self.omitted.get() + self.omitted_ignored_keys.get();
        Diagnostics::new(errors, omitted).with_unknown_drivers(drivers)
    }
}
