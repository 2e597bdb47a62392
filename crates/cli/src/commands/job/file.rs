//! The job file that a command is given.

use std::{
    fs::File,
    io::{self, Read},
};

use berth_jobfile::{Inputs, Parsed, SOURCE_BYTES_MAX};
use clap::{Args, ValueHint};

use crate::failure::{Exit, Failure};

/// Where a job is written down.
#[derive(Debug, Args)]
pub struct JobFile {
    /// The job file, in HCL or JSON; `-` for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    path: String,
}

impl JobFile {
    /// Reads the job and what its owner should know about it, or says everything that is wrong with it.
    pub fn parse(&self) -> Result<Parsed, Failure> {
        let source = self.read().map_err(|error| self.unreadable(&error))?;
        berth_jobfile::parse(&source, self.name(), &Inputs::default())
            .map_err(|mistakes| Failure::report(Exit::Failed, &mistakes))
    }

    /// The file as it was written on the command line.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// One byte more than is allowed, so that the parser can say so without anyone holding a huge file.
    fn read(&self) -> io::Result<Vec<u8>> {
        let bytes_max = SOURCE_BYTES_MAX as u64 + 1;
        let mut source = Vec::new();
        match self.path.as_str() {
            "-" => io::stdin().lock().take(bytes_max).read_to_end(&mut source)?,
            path => File::open(path)?.take(bytes_max).read_to_end(&mut source)?,
        };
        Ok(source)
    }

    fn name(&self) -> &str {
        if self.path == "-" { "<stdin>" } else { &self.path }
    }

    fn unreadable(&self, error: &io::Error) -> Failure {
        let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
        Failure::new(exit, format!("cannot read {}: {error}", self.name()))
    }
}
