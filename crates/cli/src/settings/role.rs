//! The roles of a process: `berth dev`, `berth server` or `berth agent`.

use std::fmt;

/// Which of the three long-running commands a setting is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A server and an agent in one process, for trying things out.
    Dev,
    Server,
    Agent,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dev => "berth dev",
            Self::Server => "berth server",
            Self::Agent => "berth agent",
        })
    }
}
