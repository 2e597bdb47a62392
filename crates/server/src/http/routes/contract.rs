//! What a route takes and what it answers. Handlers are held to it when they are tested: a parameter that is not named
//! here cannot be read, and no other type can be answered.

use std::any::type_name;

use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Every answer in JSON takes this.
const JSON_PARAMETERS: &[&str] = &["pretty"];
/// Reads that can wait for a change take these.
const WAIT_PARAMETERS: &[&str] = &["index", "wait", "stale"];
/// Lists take these.
const LIST_PARAMETERS: &[&str] = &["filter", "reverse"];
/// Lists that come in pages take these.
const PAGE_PARAMETERS: &[&str] = &["prefix", "per_page", "next_token"];

/// What a route takes and what it answers.
#[derive(Debug, Clone)]
pub struct Contract {
    /// Names of parameters.
    pub parameters: Vec<&'static str>,
    /// What a request carries.
    pub body: Option<Carried>,
    /// What comes back.
    pub answer: Answer,
    /// Whether that depends on who asks, and not on what they may do alone: it is sent to nobody else.
    pub is_personal: bool,
}

/// What a request carries.
#[derive(Debug, Clone, Copy)]
pub enum Carried {
    /// A value as JSON.
    Json(Shape),
    /// Bytes, as many as they are.
    Bytes,
}

/// What comes back.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A value as JSON.
    Json(Shape),
    /// Values as JSON, one a line, without an end.
    Lines(Shape),
    /// Messages in JSON both ways, on a WebSocket.
    Socket {
        /// What a client says.
        says: Shape,
        /// What it is sent.
        hears: Shape,
    },
    /// Plain text.
    Text,
    /// Bytes, as many as they are.
    Bytes,
    /// Nothing.
    Empty,
}

/// A type, and how its JSON looks.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The type's own name.
    pub type_name: &'static str,
    /// Its schema, or a reference to it.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

impl Shape {
    /// That of a type.
    pub fn of<T: JsonSchema>() -> Self {
        Self { type_name: type_name::<T>(), schema: SchemaGenerator::subschema_for::<T> }
    }
}

impl Contract {
    fn new(answer: Answer, groups: &[&[&'static str]]) -> Self {
        Self { parameters: groups.concat(), body: None, answer, is_personal: false }
    }

    /// Whether a request can ask to be answered only once something has changed.
    pub(crate) fn waits(&self) -> bool {
        self.parameters.contains(&"index")
    }
}

/// Answers a value.
pub(crate) fn json<T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract::new(Answer::Json(Shape::of::<T>()), &[parameters, JSON_PARAMETERS])
}

/// Answers a value, once it has changed if that is asked for.
pub(crate) fn reads<T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract::new(Answer::Json(Shape::of::<T>()), &[parameters, WAIT_PARAMETERS, JSON_PARAMETERS])
}

/// Answers a list, once it has changed if that is asked for.
pub(crate) fn lists<T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    let groups = &[parameters, LIST_PARAMETERS, WAIT_PARAMETERS, JSON_PARAMETERS];
    Contract::new(Answer::Json(Shape::of::<Vec<T>>()), groups)
}

/// Answers a list, or a page of it, once it has changed if that is asked for.
pub(crate) fn pages<T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    let groups = &[parameters, PAGE_PARAMETERS, LIST_PARAMETERS, WAIT_PARAMETERS, JSON_PARAMETERS];
    Contract::new(Answer::Json(Shape::of::<Vec<T>>()), groups)
}

/// Takes a value and answers one.
pub(crate) fn body_json<B: JsonSchema, T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract { body: Some(Carried::Json(Shape::of::<B>())), ..json::<T>(parameters) }
}

/// Answers with lines of values, without an end.
pub(crate) fn streams<T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract::new(Answer::Lines(Shape::of::<T>()), &[parameters])
}

/// Goes on as a WebSocket.
pub(crate) fn websocket<B: JsonSchema, T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract::new(Answer::Socket { says: Shape::of::<B>(), hears: Shape::of::<T>() }, &[parameters])
}

/// Answers plain text.
pub(crate) fn text() -> Contract {
    Contract::new(Answer::Text, &[])
}

/// Answers nothing.
pub(crate) fn empty() -> Contract {
    Contract::new(Answer::Empty, &[])
}

/// Takes a value and answers nothing.
pub(crate) fn accepts<B: JsonSchema>() -> Contract {
    Contract { body: Some(Carried::Json(Shape::of::<B>())), ..empty() }
}

/// Takes a value and answers a list, or a page of it, once it has changed if that is asked for.
pub(crate) fn body_pages<B: JsonSchema, T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract { body: Some(Carried::Json(Shape::of::<B>())), ..pages::<T>(parameters) }
}

/// Answers bytes.
pub(crate) fn bytes(parameters: &[&'static str]) -> Contract {
    Contract::new(Answer::Bytes, &[parameters])
}

/// Takes bytes and answers a value.
pub(crate) fn bytes_json<T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract { body: Some(Carried::Bytes), ..json::<T>(parameters) }
}
