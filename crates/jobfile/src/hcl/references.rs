//! Which locals an expression uses.

use crate::syntax::{Expression, Kind, Part, StepKind};

/// The names behind `local.` in an expression, each once.
pub(super) fn locals_of<'e>(expression: &'e Expression<'_>) -> Vec<&'e str> {
    let mut names = Vec::new();
    visit(expression, &mut |expression| {
        if let Kind::Path(path) = &expression.kind
            && let Kind::Name("local") = path.base.kind
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
        Kind::Null | Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Name(_) => {}
        Kind::Template(parts) => visit_parts(parts, see),
        Kind::List(items) => items.iter().for_each(|item| visit(item, see)),
        Kind::Object(members) => {
            for (key, value) in members {
                visit(key, see);
                visit(value, see);
            }
        }
        Kind::Path(path) => {
            visit(&path.base, see);
            for step in &path.steps {
                if let StepKind::Index(index) = &step.kind {
                    visit(index, see);
                }
            }
        }
        Kind::Call(call) => call.arguments.iter().for_each(|argument| visit(argument, see)),
        Kind::Chain(chain) => {
            visit(&chain.first, see);
            chain.rest.iter().for_each(|(_, term)| visit(term, see));
        }
        Kind::Unary(_, operand) => visit(operand, see),
        Kind::Condition(parts) => parts.iter().for_each(|part| visit(part, see)),
        Kind::For(each) => {
            visit(&each.head.values, see);
            visit(&each.value, see);
            each.key.iter().chain(&each.condition).for_each(|part| visit(part, see));
        }
    }
}

fn visit_parts<'e, 's>(parts: &'e [Part<'s>], see: &mut impl FnMut(&'e Expression<'s>)) {
    for part in parts {
        match part {
            Part::Text(_) => {}
            Part::Hole(expression, _) => visit(expression, see),
            Part::If(branches) => {
                visit(&branches.0, see);
                visit_parts(&branches.1, see);
                visit_parts(&branches.2, see);
            }
            Part::For(each) => {
                visit(&each.0.values, see);
                visit_parts(&each.1, see);
            }
        }
    }
}
