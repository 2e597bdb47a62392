//! Types of variables: `string`, `list(number)`, `object({ name = string })`.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    error::{EvalError, EvalResult},
    evaluate::Evaluator,
    scope::Scope,
    value::{Members, Value},
};
use crate::{
    diagnostic::quoted,
    suggest::nearest,
    syntax::{Call, Expression, ExpressionKind},
};

/// What a value must be, and is made if it can be.
#[derive(Debug, Clone)]
pub(super) enum Type {
    Any,
    Text,
    Number,
    Bool,
    List(Box<Type>),
    /// A list without doubles, in order.
    Set(Box<Type>),
    Map(Box<Type>),
    Tuple(Vec<Type>),
    Object(BTreeMap<Rc<str>, Attribute>),
}

/// An attribute of an object.
#[derive(Debug, Clone)]
pub(super) struct Attribute {
    of: Type,
    /// What stands in for one that is absent; it must be there if this is none.
    default: Option<Value>,
}

const WORDS: &[&str] =
    &["string", "number", "bool", "any", "list", "set", "map", "object", "tuple", "optional"];

impl Type {
    /// The type that a value has that nothing more is known of.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Text(_) => Self::Text,
            Value::Int(_) | Value::Float(_) => Self::Number,
            Value::Bool(_) => Self::Bool,
            Value::Null | Value::List(_) | Value::Object(_) => Self::Any,
        }
    }

    /// Reads a type.
    pub fn read(evaluator: &Evaluator<'_>, expression: &Expression<'_>) -> EvalResult<Self> {
        match &expression.kind {
            ExpressionKind::Name("string") => Ok(Self::Text),
            ExpressionKind::Name("number") => Ok(Self::Number),
            ExpressionKind::Name("bool") => Ok(Self::Bool),
            ExpressionKind::Name("any") => Ok(Self::Any),
            ExpressionKind::Name("list") => Ok(Self::List(Box::new(Self::Any))),
            ExpressionKind::Name("set") => Ok(Self::Set(Box::new(Self::Any))),
            ExpressionKind::Name("map") => Ok(Self::Map(Box::new(Self::Any))),
            ExpressionKind::Call(call) => Self::read_call(evaluator, call, expression),
            ExpressionKind::Name(other) => Err(unknown(other, expression)),
            _ => Err(EvalError::at(expression.span, "expected a type, as `string` or `list(number)`")),
        }
    }

    fn read_call(
        evaluator: &Evaluator<'_>,
        call: &Call<'_>,
        expression: &Expression<'_>,
    ) -> EvalResult<Self> {
        let [argument] = call.arguments.as_slice() else {
            let message = format!("the type {} takes one argument", quoted(call.name));
            return Err(EvalError::at(expression.span, message));
        };
        let inner = |argument| Self::read(evaluator, argument).map(Box::new);
        match (call.name, &argument.kind) {
            ("list", _) => inner(argument).map(Self::List),
            ("set", _) => inner(argument).map(Self::Set),
            ("map", _) => inner(argument).map(Self::Map),
            ("tuple", ExpressionKind::List(items)) => items
                .iter()
                .map(|item| Self::read(evaluator, item))
                .collect::<EvalResult<_>>()
                .map(Self::Tuple),
            ("object", ExpressionKind::Object(members)) => {
                let member =
                    |(key, of)| Ok((evaluator.key(key, Scope::default())?, Attribute::read(evaluator, of)?));
                members.iter().map(|(k, v)| (k, v)).map(member).collect::<EvalResult<_>>().map(Self::Object)
            }
            ("tuple", _) => Err(EvalError::at(argument.span, "a tuple takes a list of types")),
            ("object", _) => Err(EvalError::at(argument.span, "an object takes names with types, in braces")),
            (other, _) => Err(unknown(other, expression)),
        }
    }

    /// The value as one of this type; if it cannot be one, why.
    pub fn convert(&self, value: &Value) -> Result<Value, String> {
        if *value == Value::Null {
            return Ok(Value::Null);
        }
        let wrong = |wanted: &str| format!("must be {wanted}, found {}", value.kind());
        match self {
            Self::Any => Ok(value.clone()),
            Self::Text => value.to_text().map(|text| Value::text(&*text)).ok_or_else(|| wrong("text")),
            Self::Number => value.to_exact_number().ok_or_else(|| wrong("a number")),
            Self::Bool => value.to_bool().map(Value::Bool).ok_or_else(|| wrong("true or false")),
            Self::List(of) => {
                let items = items(value).ok_or_else(|| wrong("a list"))?;
                items.iter().map(|item| of.item(item)).collect::<Result<_, _>>().map(Value::list)
            }
            Self::Set(of) => {
                let items = items(value).ok_or_else(|| wrong("a list"))?;
                let items = items.iter().map(|item| of.item(item)).collect::<Result<_, _>>()?;
                Ok(Value::list(without_doubles(items)))
            }
            Self::Map(of) => {
                let Value::Object(object) = value else { return Err(wrong("an object")) };
                let member = |(key, value): (&Rc<str>, &Value)| Ok((key.clone(), of.member(key, value)?));
                object.inner.iter().map(member).collect::<Result<Members, String>>().map(Value::object)
            }
            Self::Tuple(types) => {
                let items = items(value).filter(|items| items.len() == types.len());
                let items = items.ok_or_else(|| wrong(&format!("a list of {} items", types.len())))?;
                let pairs = types.iter().zip(items);
                pairs.map(|(of, item)| of.item(item)).collect::<Result<_, _>>().map(Value::list)
            }
            Self::Object(attributes) => {
                let Value::Object(object) = value else { return Err(wrong("an object")) };
                let attribute = |(name, attribute): (&Rc<str>, &Attribute)| {
                    Ok((name.clone(), attribute.convert(name, object.inner.get(name))?))
                };
                attributes.iter().map(attribute).collect::<Result<Members, String>>().map(Value::object)
            }
        }
    }

    fn item(&self, value: &Value) -> Result<Value, String> {
        self.convert(value).map_err(|wrong| format!("has an item that {wrong}"))
    }

    fn member(&self, name: &str, value: &Value) -> Result<Value, String> {
        self.convert(value).map_err(|wrong| format!("has {} which {wrong}", quoted(name)))
    }
}

impl Attribute {
    fn read(evaluator: &Evaluator<'_>, expression: &Expression<'_>) -> EvalResult<Self> {
        let ExpressionKind::Call(call) = &expression.kind else {
            return Ok(Self { of: Type::read(evaluator, expression)?, default: None });
        };
        match (call.name, call.arguments.as_slice()) {
            ("optional", [of]) => Ok(Self { of: Type::read(evaluator, of)?, default: Some(Value::Null) }),
            ("optional", [of, default]) => {
                let default = evaluator.value(default, Scope::default())?;
                Ok(Self { of: Type::read(evaluator, of)?, default: Some(default) })
            }
            _ => Ok(Self { of: Type::read(evaluator, expression)?, default: None }),
        }
    }

    fn convert(&self, name: &str, value: Option<&Value>) -> Result<Value, String> {
        match (value, &self.default) {
            (None | Some(Value::Null), Some(default)) => self.of.member(name, default),
            (Some(value), _) => self.of.member(name, value),
            (None, None) => Err(format!("lacks {}", quoted(name))),
        }
    }
}

fn items(value: &Value) -> Option<&[Value]> {
    match value {
        Value::List(list) => Some(&list.inner),
        _ => None,
    }
}

/// The items in an order of their own, each once.
pub(super) fn without_doubles(mut items: Vec<Value>) -> Vec<Value> {
    items.sort_by(super::value::in_order);
    items.dedup();
    items
}

fn unknown(name: &str, expression: &Expression<'_>) -> EvalError {
    let error = EvalError::at(expression.span, format!("there is no type {}", quoted(name)));
    match nearest(name, WORDS.iter().copied()) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.help(format!("known are {}", WORDS.join(", "))),
    }
}
