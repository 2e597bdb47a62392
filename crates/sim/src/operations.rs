//! What people ask for, and what they were told.

use std::fmt;

use berth_model::{EvalId, Index};

/// What somebody was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the log.
    Committed(Index),
    /// It is not, and never will be.
    NotWritten,
    /// Nobody knows.
    Unknown,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Counts them.
    pub number: u64,
    /// Names it in the log.
    pub eval: EvalId,
    /// For people.
    pub what: String,
    /// None while nobody has answered.
    pub outcome: Option<Outcome>,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {} ({})", self.number, self.what)
    }
}

/// All of them.
#[derive(Default)]
pub struct Operations(pub Vec<Operation>);

impl Operations {
    /// Somebody asks for something; its number.
    pub fn begin(&mut self, eval: EvalId, what: String) -> u64 {
        let number = self.0.len() as u64;
        self.0.push(Operation { number, eval, what, outcome: None });
        number
    }
}
