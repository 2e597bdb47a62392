//! x
use clap::Subcommand;
use crate::{failure::Failure, global::Global};
/// x
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Check a job file without a server
    Validate,
}
impl Verb {
    /// x
    pub fn run(self, _global: &Global) -> Result<(), Failure> {
        Ok(())
    }
}
