//! Asks for confirmation before a change that cannot be undone.

use std::io::{self, BufRead, IsTerminal};

use clap::Args;

use crate::{
    failure::{Exit, Failure},
    output::clean,
};

/// The flag that skips the confirmation.
#[derive(Debug, Clone, Copy, Args)]
pub struct ConfirmArgs {
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// What counts as confirmation where standard input is not a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WithoutTerminal {
    /// An id that is written in full, as for commands of Nomad that scripts were written for.
    WholeId,
    /// That, and -yes.
    Yes,
}

impl ConfirmArgs {
    /// Asks on a terminal whether to do this to the object with that id. Without a terminal, the id in full is enough.
    pub fn on_terminal(self, action: &str, id: &str, written: &str) -> Result<(), Failure> {
        self.confirm(action, id, written, WithoutTerminal::WholeId)
    }

    /// Asks whether to do this to the object with that id; without a terminal -yes is required.
    pub fn always(self, action: &str, id: &str, written: &str) -> Result<(), Failure> {
        self.confirm(action, id, written, WithoutTerminal::Yes)
    }

    /// An id that was shortened is never taken for granted.
    fn confirm(self, action: &str, id: &str, written: &str, enough: WithoutTerminal) -> Result<(), Failure> {
        let is_whole = id == written;
        let is_terminal = io::stdin().is_terminal();
        if is_whole && (self.yes || !is_terminal && enough == WithoutTerminal::WholeId) {
            return Ok(());
        }
        let question = format!("{action} {}", clean(id));
        if !is_terminal {
            let lacks_yes = !self.yes && enough == WithoutTerminal::Yes;
            return Err(no_terminal_error(&question, (!is_whole).then_some(written), lacks_yes));
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

/// The error where standard input is not a terminal.
fn no_terminal_error(question: &str, shortened: Option<&str>, lacks_yes: bool) -> Failure {
    let stands_for =
        shortened.map(|written| format!(", which `{}` stands for", clean(written))).unwrap_or_default();
    let text = format!("cannot ask whether to {question}{stands_for}: standard input is not a terminal");
    let help = match (shortened, lacks_yes) {
        (None, _) => "add -yes",
        (Some(_), true) => "add -yes, and write the whole id",
        (Some(_), false) => "write the whole id",
    };
    Failure::new(Exit::Usage, text).help(help)
}
