//! Free-form settings, as drivers take them: values as they are written, with nested blocks as lists of maps.

use std::collections::BTreeMap;

use berth_model::value::{Value, ValueMap};

use crate::{
    diagnostic::quoted,
    limits::SETTING_DEPTH_MAX,
    span::Span,
    tree::{Entry, EntryKind, Name, Node, Tree},
};

/// A setting that cannot be kept.
#[derive(Debug)]
pub(crate) struct SettingError {
    pub span: Span,
    pub message: String,
}

/// Settings by key. A block may stand several times; each time adds a map to its list.
pub(crate) fn map(entries: &[Entry<'_>]) -> Result<BTreeMap<String, Value>, SettingError> {
    let settings = members(entries, SETTING_DEPTH_MAX)?;
    Ok(settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn members<'t>(entries: &'t [Entry<'_>], levels: usize) -> Result<BTreeMap<&'t str, Value>, SettingError> {
    let mut map = BTreeMap::new();
    for Entry { key, kind, value } in entries {
        let before = map.remove(&*key.text);
        let value = match (kind, before) {
            (EntryKind::Attribute, None) => self::value(value, levels)?,
            (EntryKind::Block { labels }, None) => Value::List(vec![block(labels, value, levels)?]),
            (EntryKind::Block { labels }, Some(Value::List(mut blocks))) => {
                blocks.push(block(labels, value, levels)?);
                Value::List(blocks)
            }
            _ => {
                return Err(SettingError {
                    span: key.span,
                    message: format!("{} is given twice", quoted(&key.text)),
                });
            }
        };
        map.insert(&*key.text, value);
    }
    Ok(map)
}

/// A block's content; each label is one more level around it.
fn block(labels: &[Name<'_>], node: &Node<'_>, levels: usize) -> Result<Value, SettingError> {
    let levels = deeper(levels, node.span)?;
    match labels.split_first() {
        None => value(node, levels),
        Some((label, inner)) => {
            let inner = Value::List(vec![block(inner, node, levels)?]);
            Ok(Value::Map(ValueMap::from_iter([(&*label.text, inner)])))
        }
    }
}

fn value(node: &Node<'_>, levels: usize) -> Result<Value, SettingError> {
    Ok(match &node.tree {
        Tree::Null | Tree::Unknown => Value::Null,
        Tree::Bool(value) => Value::Bool(*value),
        Tree::Int(value) => Value::Int(*value),
        Tree::Float(value) => Value::Float(*value),
        Tree::Text(value) => Value::String(value.clone().into_owned()),
        Tree::List(items) => {
            let levels = deeper(levels, node.span)?;
            let mut list = Vec::with_capacity(items.len());
            for item in items {
                list.push(value(item, levels)?);
            }
            Value::List(list)
        }
        Tree::Object(entries) => {
            Value::Map(members(entries, deeper(levels, node.span)?)?.into_iter().collect())
        }
    })
}

fn deeper(levels: usize, span: Span) -> Result<usize, SettingError> {
    let message = || format!("setting is nested more than {SETTING_DEPTH_MAX} levels deep");
    levels.checked_sub(1).ok_or_else(|| SettingError { span, message: message() })
}
