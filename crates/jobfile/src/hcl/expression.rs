//! Expressions to values.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    error::{EvalError, EvalResult},
    evaluate::Evaluator,
    functions, operators,
    scope::{Frame, Scope},
    template::late,
    value::{Members, Value},
};
use crate::{
    diagnostic::quoted,
    span::Span,
    suggest::nearest,
    syntax::{Expression, ExpressionKind, For, ForHead, Path, Step, StepKind},
};

impl Evaluator<'_> {
    /// The value of an expression.
    pub fn value(&self, expression: &Expression<'_>, scope: Scope<'_>) -> EvalResult<Value> {
        let span = expression.span;
        let value = match &expression.kind {
            ExpressionKind::Null => Value::Null,
            ExpressionKind::Bool(value) => Value::Bool(*value),
            ExpressionKind::Int(value) => Value::Int(*value),
            ExpressionKind::Float(value) => Value::Float(*value),
            // What a name or path leads to was counted when it was made.
            ExpressionKind::Name(name) => return self.name(name, span, scope).cloned(),
            ExpressionKind::Path(path) => return self.path(path, scope),
            ExpressionKind::Template(parts) => self.template(parts, scope)?,
            ExpressionKind::List(items) => {
                Value::list(items.iter().map(|item| self.value(item, scope)).collect::<EvalResult<_>>()?)
            }
            ExpressionKind::Object(items) => {
                let member = |(key, value)| Ok((self.key(key, scope)?, self.value(value, scope)?));
                Value::object(items.iter().map(|(k, v)| (k, v)).map(member).collect::<EvalResult<_>>()?)
            }
            ExpressionKind::Call(call) => functions::call(self, call, span, scope)?,
            ExpressionKind::Chain(chain) => self.chain(chain, scope)?,
            ExpressionKind::Unary(operator, operand) => {
                let value = self.value(operand, scope)?;
                operators::unary(*operator, &value).map_err(|message| EvalError::at(span, message))?
            }
            ExpressionKind::Condition(parts) => {
                let [condition, yes, no] = &**parts;
                return self.value(if self.truth(condition, scope)? { yes } else { no }, scope);
            }
            ExpressionKind::For(each) => self.for_expression(each, span, scope)?,
        };
        self.bounded(value, span)
    }

    fn name<'p>(&self, name: &str, span: Span, scope: Scope<'p>) -> EvalResult<&'p Value> {
        scope.get(name).ok_or_else(|| {
            if let Some(error) = late(name, span) {
                return error;
            }
            let near = nearest(name, scope.names());
            let help = near.map_or_else(
                || "for text, and for `${...}`, write quotes around it".to_owned(),
                |near| format!("did you mean `{near}`? Text needs quotes around it"),
            );
            let message = format!("the reference to {} stands outside of a string", quoted(name));
            EvalError::at(span, message).help(help)
        })
    }

    /// The truth value of a condition.
    pub fn truth(&self, condition: &Expression<'_>, scope: Scope<'_>) -> EvalResult<bool> {
        let value = self.value(condition, scope)?;
        let wrong = || format!("a condition must be true or false, found {}", value.kind());
        value.to_bool().ok_or_else(|| EvalError::at(condition.span, wrong()))
    }

    fn path(&self, path: &Path<'_>, scope: Scope<'_>) -> EvalResult<Value> {
        let base = self.value(&path.base, scope)?;
        check_declared(path, &base)?;
        self.walk(base, &path.steps, scope)
    }

    fn walk(&self, mut value: Value, steps: &[Step<'_>], scope: Scope<'_>) -> EvalResult<Value> {
        for (i, step) in steps.iter().enumerate() {
            let rest = &steps[i + 1..];
            value = match &step.kind {
                StepKind::Attribute(name) => attribute(&value, name, step.span)?,
                StepKind::Index(index) => {
                    let key = self.value(index, scope)?;
                    at_index(&value, &key, step.span)?
                }
                StepKind::Splat => return self.splat(value, rest, step.span, scope),
                StepKind::AttributeSplat => {
                    let attributes =
                        rest.iter().take_while(|s| matches!(s.kind, StepKind::Attribute(_))).count();
                    let (of_each, of_all) = rest.split_at(attributes);
                    let list = self.splat(value, of_each, step.span, scope)?;
                    return self.walk(list, of_all, scope);
                }
            };
            self.spend(1, step.span)?;
        }
        Ok(value)
    }

    /// Walks on from each item; a value that is no list counts as a list of one, and null as one of none.
    fn splat(&self, value: Value, steps: &[Step<'_>], span: Span, scope: Scope<'_>) -> EvalResult<Value> {
        let items = match value {
            Value::Null => Vec::new(),
            Value::List(list) => list.inner.clone(),
            other => vec![other],
        };
        let walked = items.into_iter().map(|item| self.walk(item, steps, scope));
        self.bounded(Value::list(walked.collect::<EvalResult<_>>()?), span)
    }

    /// Keys and values of what a `for` goes over.
    pub fn items(&self, values: &Value, span: Span) -> EvalResult<Vec<(Value, Value)>> {
        self.spend(values.bytes(), span)?;
        match values {
            Value::List(list) => {
                let numbered = list.inner.iter().enumerate();
                Ok(numbered.map(|(i, value)| (Value::Int(i as i64), value.clone())).collect())
            }
            Value::Object(object) => {
                let named = object.inner.iter();
                Ok(named.map(|(key, value)| (Value::Text(key.clone()), value.clone())).collect())
            }
            other => Err(EvalError::at(
                span,
                format!("expected a list or an object to go over, found {}", other.kind()),
            )),
        }
    }

    /// Does something for each item, with the names of the head in scope.
    pub fn each(
        &self,
        head: &ForHead<'_>,
        scope: Scope<'_>,
        mut then: impl FnMut(Scope<'_>) -> EvalResult<()>,
    ) -> EvalResult<()> {
        let values = self.value(&head.values, scope)?;
        for (key, value) in self.items(&values, head.values.span)? {
            let outer = Frame::new(head.key.unwrap_or_default(), key, scope);
            let inner = Frame::new(head.value, value, outer.scope());
            then(inner.scope())?;
        }
        Ok(())
    }

    fn for_expression(&self, each: &For<'_>, span: Span, scope: Scope<'_>) -> EvalResult<Value> {
        let mut list = Vec::new();
        let mut groups: BTreeMap<Rc<str>, Vec<Value>> = BTreeMap::new();
        self.each(&each.head, scope, |scope| {
            if let Some(condition) = &each.condition
                && !self.truth(condition, scope)?
            {
                return Ok(());
            }
            let value = self.value(&each.value, scope)?;
            let Some(key) = &each.key else {
                list.push(value);
                return Ok(());
            };
            let group = groups.entry(self.key(key, scope)?).or_default();
            if !group.is_empty() && !each.grouped {
                let message = "two items of this `for` expression have the same key";
                return Err(EvalError::at(key.span, message)
                    .help("write `...` behind the value to make lists of them"));
            }
            group.push(value);
            Ok(())
        })?;
        if each.key.is_none() {
            return Ok(Value::list(list));
        }
        self.spend(0, span)?;
        let member = |(key, mut group): (Rc<str>, Vec<Value>)| {
            let value = if each.grouped { Value::list(group) } else { group.pop().unwrap_or(Value::Null) };
            (key, value)
        };
        Ok(Value::object(groups.into_iter().map(member).collect()))
    }
}

/// Reports a variable or local that the file does not declare.
fn check_declared(path: &Path<'_>, base: &Value) -> EvalResult<()> {
    let what = match path.base.kind {
        ExpressionKind::Name("var") => "variable",
        ExpressionKind::Name("local") => "local",
        _ => return Ok(()),
    };
    let (Value::Object(declared), Some(Step { kind: StepKind::Attribute(name), span })) =
        (base, path.steps.first())
    else {
        return Ok(());
    };
    if declared.inner.contains_key(*name) {
        return Ok(());
    }
    let error =
        EvalError::at(path.base.span.to(*span), format!("the file declares no {what} {}", quoted(name)));
    Err(match (nearest(name, declared.inner.keys().map(|key| &**key)), what) {
        (Some(near), _) => error.help(format!("did you mean `{near}`?")),
        (None, "variable") => error.help(format!("write `variable \"{name}\" {{}}` in front of the job")),
        (None, _) => error.help(format!("write `locals {{ {name} = ... }}` in front of the job")),
    })
}

fn attribute(value: &Value, name: &str, span: Span) -> EvalResult<Value> {
    match value {
        Value::Object(object) => {
            object.inner.get(name).cloned().ok_or_else(|| missing(&object.inner, name, span))
        }
        other => Err(EvalError::at(span, format!("{} has no attribute {}", other.kind(), quoted(name)))),
    }
}

fn at_index(value: &Value, key: &Value, span: Span) -> EvalResult<Value> {
    match (value, key) {
        (Value::List(list), key) => {
            let index = key.to_number().filter(|index| index.fract() == 0.0);
            let index =
                index.ok_or_else(|| EvalError::at(span, "the index of a list must be a whole number"))?;
            let item = if index < 0.0 { None } else { list.inner.get(index as usize) };
            item.cloned().ok_or_else(|| {
                let message =
                    format!("index {index} is outside of the list, which has {} items", list.inner.len());
                EvalError::at(span, message)
            })
        }
        (Value::Object(object), key) => {
            let name =
                key.to_text().ok_or_else(|| EvalError::at(span, "the key of an object must be text"))?;
            object.inner.get(&*name).cloned().ok_or_else(|| missing(&object.inner, &name, span))
        }
        (other, _) => Err(EvalError::at(span, format!("{} has no items", other.kind()))),
    }
}

fn missing(members: &Members, name: &str, span: Span) -> EvalError {
    let error = EvalError::at(span, format!("there is no {} in it", quoted(name)));
    match nearest(name, members.keys().map(|key| &**key)) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error,
    }
}
