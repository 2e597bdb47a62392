//! The lab: simulated nodes that live the real agent's life, and the experiments that use them.

pub mod engine;
pub mod nodes;
pub mod random;
pub mod record;
pub mod report;
pub mod run;
pub mod traces;
