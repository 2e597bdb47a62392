//! The job file that a command is given.

use std::{env, path::Path};

use berth_jobfile::{Diagnostics, Inputs, Parsed};
use berth_model::job::Job;
use clap::{Args, ValueHint};

use crate::{
    failure::{Exit, Failure},
    source::{STDIN, name, read},
};

/// Where a job is written down.
#[derive(Debug, Args)]
pub struct JobFile {
    /// The job file, in HCL or JSON; `-` for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    path: String,
    /// Give a variable of the job file a value; may be repeated
    #[arg(long = "var", value_name = "NAME=VALUE")]
    vars: Vec<String>,
    /// Take values of variables from a file, in HCL or JSON; may be repeated
    #[arg(long = "var-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    var_files: Vec<String>,
}

/// A job that a server is to be asked about.
#[derive(Debug)]
pub struct ForServer {
    /// The job.
    pub job: Job,
    /// What is wrong with it unless a node has drivers of these names.
    doubts: Option<Diagnostics>,
}

impl ForServer {
    /// What a server refused, by line and column if that is what was in doubt.
    pub fn refused(&self, failure: Failure) -> Failure {
        let told = failure.to_string();
        let is_doubt =
            |doubts: &&Diagnostics| doubts.iter().any(|mistake| told.contains(mistake.message.as_str()));
        match self.doubts.as_ref().filter(is_doubt) {
            Some(doubts) => Failure::report(failure.exit(), doubts),
            None => failure,
        }
    }
}

impl JobFile {
    /// Reads the job and what its owner should know about it, or says everything that is wrong with it.
    pub fn parse(&self) -> Result<Parsed, Failure> {
        let source = read(&self.path)?;
        berth_jobfile::parse(&source, name(&self.path), &self.inputs()?)
            .map_err(|mistakes| Failure::report(Exit::Failed, &mistakes))
    }

    /// The same, for a server: whether any node has a driver that looks misspelt, it knows alone.
    pub fn parse_for_server(&self) -> Result<ForServer, Failure> {
        let (source, inputs) = (read(&self.path)?, self.inputs()?);
        let parse = |inputs: &Inputs| berth_jobfile::parse(&source, name(&self.path), inputs);
        let mistakes = match parse(&inputs) {
            Ok(Parsed { job, .. }) => return Ok(ForServer { job, doubts: None }),
            Err(mistakes) => mistakes,
        };
        match parse(&inputs.drivers(mistakes.unknown_drivers().iter().cloned())) {
            Ok(Parsed { job, .. }) => Ok(ForServer { job, doubts: Some(mistakes) }),
            Err(_) => Err(Failure::report(Exit::Failed, &mistakes)),
        }
    }

    /// What the job file may use: variables from the environment, from files and from flags, and files beside it.
    fn inputs(&self) -> Result<Inputs, Failure> {
        let mut inputs = Inputs::default().environment(
            env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        );
        for file in &self.var_files {
            inputs = inputs.file(name(file), read(file)?);
        }
        for var in &self.vars {
            inputs = inputs.value(var).map_err(|wrong| Failure::new(Exit::Usage, wrong))?;
        }
        let folder = Path::new(&self.path).parent().filter(|_| self.path != STDIN);
        Ok(inputs.files_from(folder.unwrap_or(Path::new("."))))
    }

    /// The file as it was written on the command line.
    pub fn path(&self) -> &str {
        &self.path
    }
}
