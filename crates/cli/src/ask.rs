//! Asking before something is done that cannot be taken back.

use std::io::{self, BufRead, IsTerminal};

use clap::Args;

use crate::{
    failure::{Exit, Failure},
    output::clean,
};

/// Whether to ask.
#[derive(Debug, Clone, Copy, Args)]
pub struct Ask {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Ask {
    /// Asks whether to do this to the thing of that id, unless told not to. An id that was shortened is never taken for
    /// granted.
    pub fn about(self, deed: &str, id: &str, written: &str) -> Result<(), Failure> {
        if self.yes && id == written {
            return Ok(());
        }
        let question = format!("{deed} {}", clean(id));
        if !io::stdin().is_terminal() {
            let told = format!("nobody is there to ask whether to {question}");
            return Err(Failure::new(Exit::Usage, told).help("add -yes, and write the whole id"));
        }
        eprint!("{question}? [y/N] ");
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::new(Exit::Failed, "nothing was done")),
        }
    }
}
