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
    /// Asks whether to do this to the thing of that id, unless instructed not to. An id that was shortened is never taken for
    /// granted.
    pub fn about(self, deed: &str, id: &str, written: &str) -> Result<(), Failure> {
        if self.yes && id == written {
            return Ok(());
        }
        let question = format!("{deed} {}", clean(id));
        if !io::stdin().is_terminal() {
            return Err(unasked(self.yes, &question, written));
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

/// What stands in the way where nobody can be asked.
fn unasked(yes: bool, question: &str, written: &str) -> Failure {
    if yes {
        let written = clean(written);
        let told = format!(
            "cannot ask whether to {question}, which `{written}` stands for: standard input is not a terminal"
        );
        return Failure::new(Exit::Usage, told)
            .help("write the whole id: -yes takes none that was shortened");
    }
    let told = format!("cannot ask whether to {question}: standard input is not a terminal");
    Failure::new(Exit::Usage, told).help("add -yes, and write the whole id")
}
