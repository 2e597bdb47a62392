//! Which locals an expression uses.

use crate::syntax::{Expression, ExpressionKind, StepKind, StringPart};

/// The names behind `local.` in an expression, each once.
pub(super) fn locals_of<'e>(expression: &'e Expression<'_>) -> Vec<&'e str> {
    let mut names = Vec::new();
    visit(expression, &mut |expression| {
        if let ExpressionKind::Path(path) = &expression.kind
            && let ExpressionKind::Name("local") = path.base.kind
            && let Some(StepKind::Attribute(name)) = path.steps.first().map(|step| &step.kind)
        {
            names.push(*name);
        }
    });
    names.sort_unstable();
    names.dedup();
    names
}

/// Shows an expression and all those inside of it.
fn visit<'e, 's>(expression: &'e Expression<'s>, see: &mut impl FnMut(&'e Expression<'s>)) {
    see(expression);
    match &expression.kind {
        ExpressionKind::Null
        | ExpressionKind::Bool(_)
        | ExpressionKind::Int(_)
        | ExpressionKind::Float(_)
        | ExpressionKind::Name(_) => {}
        ExpressionKind::Template(parts) => visit_parts(parts, see),
        ExpressionKind::List(items) => items.iter().for_each(|item| visit(item, see)),
        ExpressionKind::Object(members) => {
            for (key, value) in members {
                visit(key, see);
                visit(value, see);
            }
        }
        ExpressionKind::Path(path) => {
            visit(&path.base, see);
            for step in &path.steps {
                if let StepKind::Index(index) = &step.kind {
                    visit(index, see);
                }
            }
        }
        ExpressionKind::Call(call) => call.arguments.iter().for_each(|argument| visit(argument, see)),
        ExpressionKind::Chain(chain) => {
            visit(&chain.first, see);
            chain.rest.iter().for_each(|(_, term)| visit(term, see));
        }
        ExpressionKind::Unary(_, operand) => visit(operand, see),
        ExpressionKind::Condition(parts) => parts.iter().for_each(|part| visit(part, see)),
        ExpressionKind::For(each) => {
            visit(&each.head.values, see);
            visit(&each.value, see);
            each.key.iter().chain(&each.condition).for_each(|part| visit(part, see));
        }
    }
}

fn visit_parts<'e, 's>(parts: &'e [StringPart<'s>], see: &mut impl FnMut(&'e Expression<'s>)) {
    for part in parts {
        match part {
            StringPart::Text(_) => {}
            StringPart::Hole(expression, _) => visit(expression, see),
            StringPart::If(branches) => {
                visit(&branches.0, see);
                visit_parts(&branches.1, see);
                visit_parts(&branches.2, see);
            }
            StringPart::For(each) => {
                visit(&each.0.values, see);
                visit_parts(&each.1, see);
            }
        }
    }
}
