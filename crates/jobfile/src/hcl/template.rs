//! Strings with holes to values.

use super::{
    error::{EvalError, EvalResult},
    evaluate::Evaluator,
    scope::Scope,
    value::Value,
};
use crate::{
    diagnostic::quoted,
    limits::VALUE_BYTES_MAX,
    span::Span,
    syntax::{Expression, ExpressionKind, Path, StepKind, StringPart},
};

impl Evaluator<'_> {
    /// The text that the parts make; a single hole is its value, whatever its type.
    pub(super) fn template(&self, parts: &[StringPart<'_>], scope: Scope<'_>) -> EvalResult<Value> {
        if let [StringPart::Hole(expression, _)] = parts
            && !is_late(expression, scope)
        {
            return self.value(expression, scope);
        }
        let mut text = String::new();
        self.parts(parts, scope, &mut text)?;
        Ok(Value::text(text))
    }

    fn parts(&self, parts: &[StringPart<'_>], scope: Scope<'_>, text: &mut String) -> EvalResult<()> {
        for part in parts {
            match part {
                StringPart::Text(plain) => text.push_str(plain),
                // What only the node or the agent knows stays as it is written.
                StringPart::Hole(expression, source) if is_late(expression, scope) => text.push_str(source),
                StringPart::Hole(expression, _) => self.hole(expression, scope, text)?,
                StringPart::If(branches) => {
                    let (condition, yes, no) = &**branches;
                    self.parts(if self.truth(condition, scope)? { yes } else { no }, scope, text)?;
                }
                StringPart::For(each) => {
                    let (head, inner) = &**each;
                    self.each(head, scope, |scope| self.parts(inner, scope, text))?;
                }
            }
            self.check_length(text, Span::default())?;
        }
        Ok(())
    }

    fn hole(&self, expression: &Expression<'_>, scope: Scope<'_>, text: &mut String) -> EvalResult<()> {
        let value = self.value(expression, scope)?;
        let Some(inner) = value.to_text() else {
            let message = format!(
                "only text, numbers and truth values can stand inside of a string, not {}",
                value.kind()
            );
            return Err(EvalError::at(expression.span, message));
        };
        self.spend(inner.len() as u64, expression.span)?;
        text.push_str(&inner);
        self.check_length(text, expression.span)
    }

    fn check_length(&self, text: &str, span: Span) -> EvalResult<()> {
        if text.len() as u64 <= VALUE_BYTES_MAX {
            return Ok(());
        }
        Err(EvalError::at(span, format!("this text takes more than {} MiB", VALUE_BYTES_MAX >> 20)).limit())
    }
}

/// Whether an expression names what is known only once a task runs: `node.class`, `attr.cpu.arch`, `env["HOME"]`,
/// `NOMAD_PORT_http`.
fn is_late(expression: &Expression<'_>, scope: Scope<'_>) -> bool {
    match &expression.kind {
        ExpressionKind::Name(name) => !is_early(name, scope),
        ExpressionKind::Path(path) => {
            matches!(path.base.kind, ExpressionKind::Name(name) if !is_early(name, scope)) && is_plain(path)
        }
        _ => false,
    }
}

/// Whether a name belongs to the file: `var` and `local` do even where there are none.
fn is_early(name: &str, scope: Scope<'_>) -> bool {
    matches!(name, "var" | "local") || scope.get(name).is_some()
}

/// Whether a path is written out, without anything to evaluate in it.
fn is_plain(path: &Path<'_>) -> bool {
    path.steps.iter().all(|step| match &step.kind {
        StepKind::Index(index) => match &index.kind {
            ExpressionKind::Template(parts) => matches!(parts.as_slice(), [StringPart::Text(_)]),
            kind => matches!(kind, ExpressionKind::Int(_)),
        },
        _ => true,
    })
}

/// Where names begin that nodes and agents know.
const LATE: &[&str] = &["node", "attr", "meta", "env", "device", "unique"];

/// Why a name has no value here, if it is one that nodes or agents know.
pub(super) fn late(name: &str, span: Span) -> Option<EvalError> {
    if !LATE.contains(&name) && !name.starts_with("NOMAD_") {
        return None;
    }
    let message = format!("{} is not known before the task runs", quoted(name));
    let help =
        "it may stand alone in a string, as in `\"${node.class}\"`; nothing else can be done with it here";
    Some(EvalError::at(span, message).help(help))
}
