//! Free-form settings (a driver's config): the JSON data model, kept in order of keys.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

/// A setting whose type only its reader knows.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Value {
    /// Explicitly nothing.
    #[n(0)]
    Null,
    /// A truth value.
    #[n(1)]
    Bool(#[n(0)] bool),
    /// A whole number.
    #[n(2)]
    Int(#[n(0)] i64),
    /// A number with a fraction.
    #[n(3)]
    Float(#[n(0)] f64),
    /// Text; may hold `${...}` that the agent resolves.
    #[n(4)]
    String(#[n(0)] String),
    /// Values in order.
    #[n(5)]
    List(#[n(0)] Vec<Value>),
    /// Named values.
    #[n(6)]
    Map(#[n(0)] BTreeMap<String, Value>),
}
