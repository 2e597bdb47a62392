//! The job file that a command is given.

use std::{
    fs::File,
    io::{self, Read},
};

use berth_jobfile::SOURCE_BYTES_MAX;
use berth_model::job::Job;
use clap::Args;

use crate::failure::{Exit, Failure};

/// Where a job is written down.
#[derive(Debug, Args)]
pub struct JobFile {
    /// The job file, in HCL or JSON; `-` for standard input
    #[arg(value_name = "FILE")]
    path: String,
}

impl JobFile {
    /// Reads the job, or says everything that is wrong with it.
    pub fn parse(&self) -> Result<Job, Failure> {
        let source = self.read().map_err(|error| self.unreadable(&error))?;
        berth_jobfile::parse(&source, self.name())
            .map_err(|mistakes| Failure::report(Exit::Failed, &mistakes))
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
