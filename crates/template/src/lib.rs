//! Templates of the files that tasks find: the part of Go's text/template, and of the functions that Nomad's users know of it,
//! that job files use. Parsing and evaluation are pure: what a template may learn comes from a [`DataSource`], and what it asked for
//! is part of the result, so that whoever renders knows when to render again.
//!
//! A template may be hostile: its text, nesting, steps, and the bytes that it makes are bounded by [`limits`].

mod ast;
mod budget;
mod error;
mod eval;
mod functions;
mod lex;
pub mod limits;
mod parse;
mod print;
mod scope;
mod source;
mod value;

pub use error::TemplateError;
pub use eval::{RenderOptions, Rendered};
pub use functions::names as function_names;
pub use parse::{Delimiters, ParsedTemplate};
pub use source::{DataSource, Lookup, Metadata, Query, Variable};
