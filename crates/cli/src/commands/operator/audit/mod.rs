//! `berth operator audit`: the record of who did what.

mod verify;

use clap::Subcommand;

use crate::failure::Failure;

/// What can be done with audit logs.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that nothing in an audit log was changed, taken out or moved
    Verify(verify::AuditVerifyArgs),
}

impl AuditCommand {
    pub fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Verify(verify) => verify.run(),
        }
    }
}
