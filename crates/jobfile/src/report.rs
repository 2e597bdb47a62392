//! Collects mistakes while reading goes on, so that one run names as many as possible.

use std::cell::{Cell, RefCell};

use berth_model::job::Job;

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Excerpt, Place, shown},
    limits::DIAGNOSTICS_MAX,
    span::Span,
};

/// Where a mistake is, in the terms of the syntax.
#[derive(Debug, Clone)]
pub(crate) enum At {
    /// A part of the text.
    Span(Span),
    /// A path of a JSON document.
    Path(String),
    /// The source as a whole.
    File,
}

impl From<Span> for At {
    fn from(span: Span) -> Self {
        Self::Span(span)
    }
}

/// The mistakes found so far in one source.
#[derive(Debug)]
pub(crate) struct Report<'s> {
    file: &'s str,
    source: &'s str,
    found: RefCell<Vec<Diagnostic>>,
    omitted: Cell<usize>,
}

impl<'s> Report<'s> {
    pub fn new(file: &'s str, source: &'s str) -> Self {
        Self { file, source, found: RefCell::default(), omitted: Cell::new(0) }
    }

    /// Notes a mistake.
    pub fn error(&self, at: impl Into<At>, message: impl Into<String>) {
        self.note(at.into(), message.into(), None);
    }

    /// Notes a mistake, and what to do about it.
    pub fn error_with_help(&self, at: impl Into<At>, message: impl Into<String>, help: impl Into<String>) {
        self.note(at.into(), message.into(), Some(help.into()));
    }

    pub(crate) fn note(&self, at: At, message: String, help: Option<String>) {
        if self.is_full() {
            return self.omitted.set(self.omitted.get() + 1);
        }
        let place = match at {
            At::Span(span) => Place::Line(Excerpt::of(self.source, span.range())),
            At::Path(path) => Place::Path(shown(&path)),
            At::File => Place::File,
        };
        let (message, help) = (shown(&message), help.map(|help| shown(&help)));
        self.found.borrow_mut().push(Diagnostic { message, file: self.file.to_owned(), place, help });
    }

    /// Whether further mistakes are only counted: then nobody needs to find good words for them.
    pub fn is_full(&self) -> bool {
        self.found.borrow().len() >= DIAGNOSTICS_MAX
    }

    /// Itself, if nothing was wrong so far; for steps that make no sense after a mistake.
    pub fn checked(self) -> Result<Self, Diagnostics> {
        let (file, source) = (self.file, self.source);
        self.into_diagnostics().map_or(Ok(Self::new(file, source)), Err)
    }

    /// The job that was read, if there is one and nothing is wrong with it.
    pub fn finish(self, job: Option<Job>) -> Result<Job, Diagnostics> {
        let missing = Diagnostic {
            message: "no job in this file".to_owned(),
            file: self.file.to_owned(),
            place: Place::File,
            help: None,
        };
        self.into_diagnostics().map_or_else(|| job.ok_or_else(|| missing.into()), Err)
    }

    fn into_diagnostics(self) -> Option<Diagnostics> {
        Diagnostics::new(self.found.into_inner(), self.omitted.get())
    }
}
