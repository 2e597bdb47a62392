//! The names of job files: which block may hold what, in both spellings.

mod body;
mod describe;
#[cfg(test)]
mod meanings;
#[cfg(test)]
mod page;
mod position;
mod read;
#[cfg(test)]
mod since;
mod stored;
mod tables;
mod unenforced;
mod unknown;

pub(crate) use body::Body;
pub use describe::definitions;
pub(crate) use stored::{
    STORED_OF_GROUP, STORED_OF_JOB, STORED_OF_NETWORK, STORED_OF_RESOURCES, STORED_OF_TASK,
};
pub(crate) use tables::*;
pub use unenforced::unenforced;

/// A kind of block (in JSON: object) and what it may hold.
#[derive(Debug)]
pub(crate) struct Schema {
    /// What messages call it.
    pub what: &'static str,
    /// The key that holds in JSON what is the block's label in HCL.
    pub label: Option<&'static str>,
    pub fields: &'static [Field],
    /// Keys in JSON that servers add to what they give out, so that it may be sent back.
    pub server_owned: &'static [&'static str],
}

/// One name within a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// In HCL; empty if it exists in JSON only.
    pub hcl: &'static str,
    /// In JSON; empty if it exists in HCL only.
    pub json: &'static str,
    pub shape: Shape,
}

/// How a field is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// Text; numbers and truth values stand for how they are written.
    Text,
    /// A truth value.
    Flag,
    /// A whole number.
    Whole,
    /// Text as `1h30m`; in JSON a number of nanoseconds too.
    Duration,
    /// A list of texts.
    Texts,
    /// A list of whole numbers.
    Wholes,
    /// HCL: `name { ... }` or `name = { ... }`; JSON: an object. Texts with any keys.
    TextMap,
    /// The same, with lists of texts.
    TextsMap,
    /// The same, with values of any type.
    Settings,
    /// HCL: `name { ... }`, at most once; JSON: an object.
    Block(&'static Schema),
    /// HCL: `name { ... }`, any number; JSON: a list of objects.
    Blocks(&'static Schema),
    /// HCL: `name "label" { ... }`, any number; JSON: an object of objects, the labels being its keys.
    Labelled(&'static Schema),
}

impl Shape {
    /// Whether it is `name = value` in HCL, and nothing else.
    fn is_value(self) -> bool {
        matches!(self, Self::Text | Self::Flag | Self::Whole | Self::Duration | Self::Texts | Self::Wholes)
    }

    /// What its blocks may hold, if it is written as blocks only.
    fn schema(self) -> Option<&'static Schema> {
        match self {
            Self::Block(schema) | Self::Blocks(schema) | Self::Labelled(schema) => Some(schema),
            _ => None,
        }
    }

    fn repeats(self) -> bool {
        matches!(self, Self::Blocks(_) | Self::Labelled(_))
    }
}

impl Field {
    /// What the decoder calls it: the HCL name where there is one.
    pub fn name(&self) -> &'static str {
        if self.hcl.is_empty() { self.json } else { self.hcl }
    }
}
