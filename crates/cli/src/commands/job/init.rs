//! `berth job init`: writes a job file to start from.

use std::{
    fs::File,
    io::{self, Write},
};

use berth_jobfile::{STARTERS, Starter};
use clap::{Args, ValueHint, builder::PossibleValuesParser};

use crate::{
    failure::{Exit, Failure},
    output,
};

/// Arguments of `job init`.
#[derive(Debug, Args)]
pub struct JobInitArgs {
    /// File to write; it must not exist yet
    #[arg(value_name = "FILE", default_value = "example.nomad.hcl", value_hint = ValueHint::FilePath)]
    path: String,
    /// Without comments
    #[arg(long)]
    short: bool,
    /// Template to use
    #[arg(long, value_name = "NAME", default_value = STARTERS[0].name, value_parser = names())]
    template: String,
    /// List the templates
    #[arg(long)]
    list_templates: bool,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(STARTERS.iter().map(|starter| starter.name))
}

impl JobInitArgs {
    /// Writes the file, and says what to do with it.
    pub fn run(&self) -> Result<(), Failure> {
        if self.list_templates {
            let line = |starter: &Starter| format!("{:<10} {}\n", starter.name, starter.about);
            return Ok(output::print(&STARTERS.iter().map(line).collect::<String>())?);
        }
        let starter = STARTERS.iter().find(|starter| starter.name == self.template).unwrap_or(&STARTERS[0]);
        let source = if self.short { starter.short() } else { starter.source.to_owned() };
        let written = File::create_new(&self.path).and_then(|mut file| file.write_all(source.as_bytes()));
        written.map_err(|error| self.unwritten(&error))?;
        output::eprint_line(&format!("next: berth job run {}", self.path));
        Ok(output::print(&format!("{}\n", self.path))?)
    }

    fn unwritten(&self, error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::AlreadyExists {
            return Failure::new(Exit::Failed, format!("{} is there already", self.path))
                .help("name another file: `berth job init FILE`");
        }
        Failure::new(Exit::Failed, format!("cannot write {}: {error}", self.path))
    }
}
