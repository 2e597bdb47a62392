//! The names of job files: which block may hold what, in both spellings, and what only Nomad supports so far.

mod body;
mod read;
mod tables;
mod unknown;

pub(crate) use body::Body;
pub(crate) use tables::*;

/// A kind of block (in JSON: object) and what it may hold.
#[derive(Debug)]
pub(crate) struct Schema {
    /// What messages call it.
    pub what: &'static str,
    /// The key that holds in JSON what is the block's label in HCL.
    pub label: Option<&'static str>,
    pub fields: &'static [Field],
    /// Known to Nomad and not to us.
    pub later: &'static [Field],
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// HCL: `name = value`.
    Value,
    /// HCL: `name { ... }`, at most once; JSON: an object.
    Block,
    /// HCL: `name { ... }`, any number; JSON: a list of objects.
    Blocks,
    /// HCL: `name { ... }` or `name = { ... }`; JSON: an object with any keys.
    Map,
}

impl Field {
    /// What the decoder calls it: the HCL name where there is one.
    pub fn name(&self) -> &'static str {
        if self.hcl.is_empty() { self.json } else { self.hcl }
    }
}
