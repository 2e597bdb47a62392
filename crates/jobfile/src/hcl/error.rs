//! Errors of evaluation: why an expression has no value.

use crate::{report::Report, span::Span};

/// A mistake in an expression.
#[derive(Debug)]
pub(crate) struct EvalError {
    pub span: Span,
    pub message: String,
    pub help: Option<String>,
    /// A limit that `try` and `can` do not get around.
    pub is_limit: bool,
}

/// The value of an expression, or why it has none.
pub(crate) type EvalResult<T> = Result<T, EvalError>;

impl EvalError {
    pub fn at(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None, is_limit: false }
    }

    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    pub fn limit(self) -> Self {
        Self { is_limit: true, ..self }
    }

    pub fn report(self, report: &Report<'_>) {
        report.note(self.span.into(), self.message, self.help);
    }
}
