//! Locals: named expressions, which may use each other in any order.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    error::EvalError,
    evaluate::Evaluator,
    references::locals_of,
    scope::{Frame, Scope},
    value::{Members, Value},
};
use crate::{
    diagnostic::quoted,
    limits::VARIABLES_MAX,
    span::Span,
    syntax::{Expression, Item, ItemKind},
};

/// A local and what is known of it.
#[derive(Debug)]
struct Local<'i, 's> {
    span: Span,
    expression: &'i Expression<'s>,
    state: State,
}

#[derive(Debug)]
enum State {
    New,
    /// Those that it needs are being evaluated.
    Begun,
    /// None if it has no value; that has been reported.
    Done(Option<Value>),
}

type Locals<'i, 's> = BTreeMap<&'i str, Local<'i, 's>>;

/// The values of all locals. Those that have none are left out, and reported.
pub(super) fn values(evaluator: &Evaluator<'_>, items: &[Item<'_>], scope: Scope<'_>) -> Value {
    let mut locals = collect(evaluator, items);
    let names: Vec<&str> = locals.keys().copied().collect();
    for name in names {
        evaluate_with_needs(evaluator, &mut locals, name, scope);
    }
    let member = |(name, local): (&str, Local<'_, '_>)| match local.state {
        State::Done(Some(value)) => Some((Rc::from(name), value)),
        _ => None,
    };
    Value::object(locals.into_iter().filter_map(member).collect())
}

fn collect<'i, 's>(evaluator: &Evaluator<'_>, items: &'i [Item<'s>]) -> Locals<'i, 's> {
    let mut locals = Locals::new();
    let blocks = items.iter().filter_map(|Item { key, kind }| match kind {
        ItemKind::Block(block) if key.text == "locals" => Some(block),
        _ => None,
    });
    for Item { key, kind } in blocks.flat_map(|block| &block.items) {
        let span = key.span;
        let error = match kind {
            _ if locals.len() == VARIABLES_MAX => {
                EvalError::at(span, format!("more than {VARIABLES_MAX} locals"))
            }
            ItemKind::Block(_) => EvalError::at(span, "a `locals` block holds names with their values alone"),
            ItemKind::Attribute(expression) => {
                match locals.insert(&*key.text, Local { span, expression, state: State::New }) {
                    Some(_) => EvalError::at(span, format!("local {} is declared twice", quoted(&key.text))),
                    None => continue,
                }
            }
        };
        error.report(evaluator.report);
    }
    locals
}

/// Evaluates a local after all that it needs. A stack of our own: they may need each other a thousand deep.
fn evaluate_with_needs<'i>(
    evaluator: &Evaluator<'_>,
    locals: &mut Locals<'i, '_>,
    name: &'i str,
    scope: Scope<'_>,
) {
    let mut stack = vec![name];
    while let Some(name) = stack.last().copied() {
        let Some(local) = locals.get_mut(name) else {
            stack.pop();
            continue;
        };
        let needs: Vec<&str> = locals_of(local.expression);
        match local.state {
            State::Done(_) => drop(stack.pop()),
            State::New => {
                local.state = State::Begun;
                let Some(open) = needs.iter().find_map(|need| begun(locals, need)) else {
                    let new = needs.iter().filter_map(|need| locals.get_key_value(need));
                    stack.extend(new.filter(|(_, l)| matches!(l.state, State::New)).map(|(name, _)| *name));
                    continue;
                };
                report_cycle(evaluator, locals, &stack, open);
            }
            State::Begun => {
                let expression = local.expression;
                let value = known(locals, &needs).and_then(|known| {
                    let frame = Frame::new("local", known, scope);
                    let value = evaluator.value(expression, frame.scope());
                    value.map_err(|error| error.report(evaluator.report)).ok()
                });
                set(locals, name, State::Done(value));
                stack.pop();
            }
        }
    }
}

fn begun<'i>(locals: &Locals<'i, '_>, name: &str) -> Option<&'i str> {
    let (name, local) = locals.get_key_value(name)?;
    matches!(local.state, State::Begun).then_some(*name)
}

fn set(locals: &mut Locals<'_, '_>, name: &str, state: State) {
    if let Some(local) = locals.get_mut(name) {
        local.state = state;
    }
}

/// Locals that need each other have no values.
fn report_cycle(evaluator: &Evaluator<'_>, locals: &mut Locals<'_, '_>, stack: &[&str], open: &str) {
    let cycle: Vec<&str> = stack
        .iter()
        .copied()
        .filter(|name| locals.get(name).is_some_and(|local| matches!(local.state, State::Begun)))
        .skip_while(|name| *name != open)
        .collect();
    let span = locals.get(open).map(|local| local.span).unwrap_or_default();
    let way = cycle.iter().chain(&[open]).map(|name| format!("local.{name}")).collect::<Vec<_>>();
    let error = EvalError::at(span, format!("locals need each other: {}", way.join(" → ")));
    error.help("one of them must do without the others").report(evaluator.report);
    for name in cycle {
        set(locals, name, State::Done(None));
    }
}

/// The locals of these names. None if one of them has no value: why has been reported.
fn known(locals: &Locals<'_, '_>, names: &[&str]) -> Option<Value> {
    let mut known = Members::new();
    for name in names {
        match locals.get(name).map(|local| &local.state) {
            Some(State::Done(Some(value))) => drop(known.insert(Rc::from(*name), value.clone())),
            Some(State::Done(None)) => return None,
            _ => {}
        }
    }
    Some(Value::object(known))
}
