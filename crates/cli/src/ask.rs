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
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// What stands in for an answer where nobody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Enough {
    /// An id that is written in full, as for commands of Nomad that scripts were written for.
    WholeId,
    /// That, and -yes.
    Yes,
}

impl Ask {
    /// Asks on a terminal whether to do this to the object with that id. Without a terminal, the id in full is enough.
    pub fn on_terminal(self, deed: &str, id: &str, written: &str) -> Result<(), Failure> {
        self.ask(deed, id, written, Enough::WholeId)
    }

    /// Asks whether to do this to the object with that id; without a terminal -yes is required.
    pub fn always(self, deed: &str, id: &str, written: &str) -> Result<(), Failure> {
        self.ask(deed, id, written, Enough::Yes)
    }

    /// An id that was shortened is never taken for granted.
    fn ask(self, deed: &str, id: &str, written: &str, enough: Enough) -> Result<(), Failure> {
        let is_whole = id == written;
        let can_ask = io::stdin().is_terminal();
        if is_whole && (self.yes || !can_ask && enough == Enough::WholeId) {
            return Ok(());
        }
        let question = format!("{deed} {}", clean(id));
        if !can_ask {
            let lacks_yes = !self.yes && enough == Enough::Yes;
            return Err(unasked(&question, (!is_whole).then_some(written), lacks_yes));
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

/// What to write where nobody can be asked.
fn unasked(question: &str, shortened: Option<&str>, lacks_yes: bool) -> Failure {
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
