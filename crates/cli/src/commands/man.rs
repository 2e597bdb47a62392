//! `berth man`: manual pages, one for each command, from the same definitions as the help.

use std::path::PathBuf;

use clap::{Args, CommandFactory, ValueHint};

use crate::{
    cli::Cli,
    failure::{Exit, Failure},
    output,
};

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory to write the pages to, such as `berth-job-run.1`; it is created
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
}

impl ManArgs {
    pub fn run(&self) -> Result<(), Failure> {
        let write = || {
            std::fs::create_dir_all(&self.dir)?;
            clap_mangen::generate_to(Cli::command(), &self.dir)
        };
        write().map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot write to {}: {error}", self.dir.display()))
        })?;
        output::eprint_line(&format!("next: man -l {}", self.dir.join("berth.1").display()));
        Ok(())
    }
}
