//! The contract of a route: its parameters, its request body and its response body. Tests hold handlers to it: a parameter that
//! is not named here cannot be read, and no other type can be returned.

use std::any::type_name;

use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Every answer in JSON takes this.
const JSON_PARAMETERS: &[&str] = &["pretty"];
/// Reads that can wait for a change take these.
const WAIT_PARAMETERS: &[&str] = &["index", "wait", "stale"];
/// Parameters of all lists.
const LIST_PARAMETERS: &[&str] = &["filter", "reverse"];
/// Lists that come in pages take these.
const PAGE_PARAMETERS: &[&str] = &["prefix", "per_page", "next_token"];

/// What a route takes and what it answers.
#[derive(Debug, Clone)]
pub struct Contract {
    /// Names of parameters.
    pub parameters: Vec<&'static str>,
    /// What a request carries.
    pub body: Option<RequestBody>,
    /// The body of a successful response.
    pub answer: ResponseBody,
    /// Whether the response depends on the caller's identity, and not on its rights alone: it is not shared.
    pub is_personal: bool,
}

/// What a request carries.
#[derive(Debug, Clone, Copy)]
pub enum RequestBody {
    /// A value as JSON.
    Json(Shape),
    /// Bytes, as many as they are.
    Bytes,
}

/// The body of a successful response.
#[derive(Debug, Clone)]
pub enum ResponseBody {
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
    /// No body.
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
    fn new(answer: ResponseBody, groups: &[&[&'static str]]) -> Self {
        Self { parameters: groups.concat(), body: None, answer, is_personal: false }
    }

    /// Whether a request can block until something has changed.
    pub(crate) fn waits(&self) -> bool {
        self.parameters.contains(&"index")
    }
}

/// A route that responds with a value as JSON.
pub(crate) fn json<T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract::new(ResponseBody::Json(Shape::of::<T>()), &[parameters, JSON_PARAMETERS])
}

/// Responds with a value; supports blocking reads.
pub(crate) fn reads<T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract::new(ResponseBody::Json(Shape::of::<T>()), &[parameters, WAIT_PARAMETERS, JSON_PARAMETERS])
}

/// Responds with a list; supports blocking reads.
pub(crate) fn lists<T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    let groups = &[parameters, LIST_PARAMETERS, WAIT_PARAMETERS, JSON_PARAMETERS];
    Contract::new(ResponseBody::Json(Shape::of::<Vec<T>>()), groups)
}

/// Responds with a list, or a page of it; supports blocking reads.
pub(crate) fn pages<T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    let groups = &[parameters, PAGE_PARAMETERS, LIST_PARAMETERS, WAIT_PARAMETERS, JSON_PARAMETERS];
    Contract::new(ResponseBody::Json(Shape::of::<Vec<T>>()), groups)
}

/// Takes a value and answers one.
pub(crate) fn body_json<B: JsonSchema, T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract { body: Some(RequestBody::Json(Shape::of::<B>())), ..json::<T>(parameters) }
}

/// Answers with lines of values, without an end.
pub(crate) fn streams<T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract::new(ResponseBody::Lines(Shape::of::<T>()), &[parameters])
}

/// Goes on as a WebSocket.
pub(crate) fn websocket<B: JsonSchema, T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract::new(ResponseBody::Socket { says: Shape::of::<B>(), hears: Shape::of::<T>() }, &[parameters])
}

/// A route that responds with plain text.
pub(crate) fn text() -> Contract {
    Contract::new(ResponseBody::Text, &[])
}

/// A route that responds without a body.
pub(crate) fn empty() -> Contract {
    Contract::new(ResponseBody::Empty, &[])
}

/// Takes a value and answers nothing.
pub(crate) fn accepts<B: JsonSchema>() -> Contract {
    Contract { body: Some(RequestBody::Json(Shape::of::<B>())), ..empty() }
}

/// Takes a value and responds with a list, or a page of it; supports blocking reads.
pub(crate) fn body_pages<B: JsonSchema, T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract { body: Some(RequestBody::Json(Shape::of::<B>())), ..pages::<T>(parameters) }
}

/// A route that responds with bytes.
pub(crate) fn bytes(parameters: &[&'static str]) -> Contract {
    Contract::new(ResponseBody::Bytes, &[parameters])
}

/// Takes bytes and answers a value.
pub(crate) fn bytes_json<T: JsonSchema>(parameters: &[&'static str]) -> Contract {
    Contract { body: Some(RequestBody::Bytes), ..json::<T>(parameters) }
}
