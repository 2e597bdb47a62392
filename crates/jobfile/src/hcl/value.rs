//! What expressions come to.

use std::{borrow::Cow, cmp::Ordering, collections::BTreeMap, rc::Rc};

use crate::{
    span::Span,
    tree::{Entry, EntryKind, Name, Node, Tree, truth},
};

/// A value. Copies share what they hold, so that a variable may be used a thousand times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    /// Never a whole number that 53 bits can hold: see [`Value::number`].
    Float(f64),
    Text(Rc<str>),
    List(Rc<SizedValue<Vec<Value>>>),
    Object(Rc<SizedValue<Members>>),
}

/// Named values, in order of their names.
pub(crate) type Members = BTreeMap<Rc<str>, Value>;

/// Something that knows how much it is when written out, however much of it is shared.
#[derive(Debug, PartialEq)]
pub(crate) struct SizedValue<T> {
    pub inner: T,
    bytes: u64,
    depth: u32,
}

/// What a value counts beyond its text.
const VALUE_BYTES: u64 = 16;

impl Value {
    pub fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(text.into())
    }

    /// A number: a whole one where that is exact.
    pub fn number(number: f64) -> Self {
        /// Up to here 64-bit floats distinguish whole numbers.
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        if number.fract() == 0.0 && number.abs() <= EXACT_MAX {
            Self::Int(number as i64)
        } else {
            Self::Float(number)
        }
    }

    pub fn list(items: Vec<Self>) -> Self {
        let bytes = items.iter().map(Self::bytes).fold(VALUE_BYTES, u64::saturating_add);
        let depth = 1 + items.iter().map(Self::depth).max().unwrap_or(0);
        Self::List(Rc::new(SizedValue { inner: items, bytes, depth }))
    }

    pub fn object(members: Members) -> Self {
        let of = |(key, value): (&Rc<str>, &Self)| key.len() as u64 + value.bytes();
        let bytes = members.iter().map(of).fold(VALUE_BYTES, u64::saturating_add);
        let depth = 1 + members.values().map(Self::depth).max().unwrap_or(0);
        Self::Object(Rc::new(SizedValue { inner: members, bytes, depth }))
    }

    /// About how many bytes it takes when it is written out.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Float(_) => VALUE_BYTES,
            Self::Text(text) => VALUE_BYTES + text.len() as u64,
            Self::List(list) => list.bytes,
            Self::Object(object) => object.bytes,
        }
    }

    /// Lists and objects inside one another.
    pub fn depth(&self) -> u32 {
        match self {
            Self::List(list) => list.depth,
            Self::Object(object) => object.depth,
            _ => 0,
        }
    }

    /// What messages call such a value.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a truth value",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// Text, or what is written the same way as text.
    pub fn to_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Bool(value) => Some(value.to_string().into()),
            Self::Int(value) => Some(value.to_string().into()),
            Self::Float(value) => Some(value.to_string().into()),
            Self::Null | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// A number, or text that spells one.
    pub fn to_number(&self) -> Option<f64> {
        match self {
            Self::Text(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
            _ => self.as_number(),
        }
    }

    /// The same as a value: whole numbers beyond 2⁵³ stay what they are.
    pub fn to_exact_number(&self) -> Option<Self> {
        let whole = match self {
            Self::Int(whole) => Some(*whole),
            Self::Text(text) => text.parse().ok(),
            _ => None,
        };
        whole.map(Self::Int).or_else(|| self.to_number().map(Self::number))
    }

    fn as_number(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// A truth value, or text that spells one.
    pub fn to_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Text(text) => truth(text),
            _ => None,
        }
    }

    /// The value as the decoder reads it, all of it at one position.
    pub fn into_tree<'s>(self, span: Span) -> Tree<'s> {
        match self {
            Self::Null => Tree::Null,
            Self::Bool(value) => Tree::Bool(value),
            Self::Int(value) => Tree::Int(value),
            Self::Float(value) => Tree::Float(value),
            Self::Text(text) => Tree::Text(Cow::Owned(text.to_string())),
            Self::List(list) => {
                let item = |item: &Self| Node { span, tree: item.clone().into_tree(span) };
                Tree::List(list.inner.iter().map(item).collect())
            }
            Self::Object(object) => {
                let member = |(key, value): (&Rc<str>, &Self)| Entry {
                    key: Name { text: Cow::Owned(key.to_string()), span },
                    kind: EntryKind::Attribute,
                    value: Node { span, tree: value.clone().into_tree(span) },
                };
                Tree::Object(object.inner.iter().map(member).collect())
            }
        }
    }

    /// A value that was read from JSON or from a file of variables.
    pub fn of_tree(tree: &Tree<'_>) -> Self {
        match tree {
            Tree::Null | Tree::Unknown => Self::Null,
            Tree::Bool(value) => Self::Bool(*value),
            Tree::Int(value) => Self::Int(*value),
            Tree::Float(value) => Self::number(*value),
            Tree::Text(text) => Self::text(&**text),
            Tree::List(items) => Self::list(items.iter().map(|item| Self::of_tree(&item.tree)).collect()),
            Tree::Object(entries) => {
                let member =
                    |entry: &Entry<'_>| (Rc::from(&*entry.key.text), Self::of_tree(&entry.value.tree));
                Self::object(entries.iter().map(member).collect())
            }
        }
    }
}

/// An order of all values: by kind, then by size or letters, then item by item.
pub(super) fn in_order(left: &Value, right: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Int(_) | Value::Float(_) => 2,
            Value::Text(_) => 3,
            Value::List(_) => 4,
            Value::Object(_) => 5,
        }
    }
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Text(left), Value::Text(right)) => left.cmp(right),
        (Value::List(left), Value::List(right)) => {
            let pairs = left.inner.iter().zip(&right.inner);
            let first = pairs.map(|(l, r)| in_order(l, r)).find(|order| order.is_ne());
            first.unwrap_or_else(|| left.inner.len().cmp(&right.inner.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let pairs = left.inner.iter().zip(&right.inner);
            let first = pairs.map(|(l, r)| l.0.cmp(r.0).then_with(|| in_order(l.1, r.1))).find(|o| o.is_ne());
            first.unwrap_or_else(|| left.inner.len().cmp(&right.inner.len()))
        }
        _ => match (left.as_number(), right.as_number()) {
            (Some(left), Some(right)) => left.total_cmp(&right),
            _ => rank(left).cmp(&rank(right)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_counts_as_often_as_it_is_used() {
        let mut value = Value::text("ten bytes.");
        for _ in 0..40 {
            value = Value::list(vec![value.clone(), value]);
        }
        assert!(value.bytes() > 1 << 40, "{}", value.bytes());
        assert_eq!(value.depth(), 40);
    }

    #[test]
    fn whole_numbers_are_whole_however_they_came_about() {
        assert_eq!(Value::number(4.0), Value::Int(4));
        assert_eq!(Value::number(0.5), Value::Float(0.5));
        assert_eq!(Value::number(1e300), Value::Float(1e300));
    }
}
