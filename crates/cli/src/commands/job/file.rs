//! The job file that a command is given.

use std::{env, path::Path};

use berth_jobfile::{Diagnostics, Inputs, Parsed};
use berth_model::{job::Job, namespace::NAMESPACE_DEFAULT};
use clap::{Args, ValueHint};

use crate::{
    failure::{Exit, Failure},
    output::{self, clean},
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
    /// Refuse a job that says what would be left out, or would change nothing
    #[arg(long)]
    strict: bool,
}

/// A job that a server is to be asked about.
#[derive(Debug)]
pub struct ForServer {
    /// The job.
    pub job: Job,
    /// What is wrong with it unless a node has drivers of these names.
    doubts: Option<Diagnostics>,
    /// What was said of the file already, in the words in which a server says it of JSON.
    said: Vec<String>,
}

impl ForServer {
    /// Prints what a server warns of beyond what the file alone was warned of.
    pub fn warn(&self, warnings: &str) {
        for warning in self.unsaid(warnings) {
            output::tell(&format!("warning: {}", clean(warning)));
        }
    }

    fn unsaid<'w>(&self, warnings: &'w str) -> impl Iterator<Item = &'w str> {
        warnings.lines().filter(|line| !line.trim().is_empty() && !self.said.iter().any(|said| said == line))
    }

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
    /// Reads the job and prints what its owner should know about it, or says everything that is wrong with it.
    pub fn parse(&self) -> Result<Job, Failure> {
        let source = read(&self.path)?;
        let parsed = berth_jobfile::parse(&source, name(&self.path), &self.inputs()?)
            .map_err(|mistakes| Failure::report(Exit::Failed, &mistakes))?;
        self.warn(&parsed.warnings)?;
        Ok(parsed.job)
    }

    /// The same, for a server: whether any node has a driver that looks misspelt, it knows alone. A job that names no
    /// namespace is of this one.
    pub fn parse_for_server(&self, namespace: &str) -> Result<ForServer, Failure> {
        let (source, inputs) = (read(&self.path)?, self.inputs()?.namespace(namespace));
        let parse = |inputs: &Inputs| berth_jobfile::parse(&source, name(&self.path), inputs);
        let (Parsed { job, warnings }, doubts) = match parse(&inputs) {
            Ok(parsed) => (parsed, None),
            Err(mistakes) => match parse(&inputs.drivers(mistakes.unknown_drivers().iter().cloned())) {
                Ok(parsed) => (parsed, Some(mistakes)),
                Err(_) => return Err(Failure::report(Exit::Failed, &mistakes)),
            },
        };
        self.warn(&warnings)?;
        if let Some(warning) = elsewhere(&job.key.namespace, namespace) {
            output::tell(&warning);
        }
        let said = said_of_json(&job, doubts.as_ref());
        Ok(ForServer { job, doubts, said })
    }

    /// Prints warnings, or refuses the job because of them.
    fn warn(&self, warnings: &Diagnostics) -> Result<(), Failure> {
        if warnings.is_empty() {
            return Ok(());
        }
        if self.strict {
            let help = "take it out, or leave out -strict to have the job without it";
            return Err(Failure::report(Exit::Failed, warnings).help(help));
        }
        output::tell(&warnings.to_string());
        Ok(())
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

/// What a server says of the job as it is sent.
fn said_of_json(job: &Job, doubts: Option<&Diagnostics>) -> Vec<String> {
    let drivers = doubts.into_iter().flat_map(|doubts| doubts.unknown_drivers().iter().cloned());
    let json = berth_jobfile::to_json(job).to_string();
    let read = berth_jobfile::parse_json_with(json.as_bytes(), "", &Inputs::default().drivers(drivers));
    read.map(|parsed| parsed.warnings.messages().lines().map(str::to_owned).collect()).unwrap_or_default()
}

/// A warning where a job is of another namespace than the one that was asked for on the command line or in the environment.
fn elsewhere(own: &str, asked: &str) -> Option<String> {
    let is_asked = asked != own && asked != NAMESPACE_DEFAULT;
    let (own, asked) = (clean(own), clean(asked));
    is_asked.then(|| format!("warning: the job file says namespace {own}, which counts, and not {asked}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: &str = "group \"g\" {\n task \"t\" {\n driver = \"mock\"\n template {\n data = \"x\"\n destination = \"local/x\"\n}\n}\n}";

    /// A job file with this in its job.
    fn file(inside: &str, strict: bool) -> (tempfile::TempDir, JobFile) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("job.nomad.hcl");
        std::fs::write(&path, format!("job \"j\" {{\n{inside}\n{TASK}\n}}")).expect("a file");
        let path = path.to_string_lossy().into_owned();
        (dir, JobFile { path, vars: Vec::new(), var_files: Vec::new(), strict })
    }

    #[test]
    fn a_file_that_names_no_namespace_is_of_the_one_that_is_asked_for() {
        let of = |inside: &str, namespace: &str| {
            let (_dir, file) = file(inside, false);
            file.parse_for_server(namespace).expect("it is a job").job.key.namespace.to_string()
        };
        assert_eq!(of("", "ops"), "ops");
        assert_eq!(of("", "default"), "default");
        assert_eq!(of("namespace = \"web\"", "ops"), "web");
        assert_eq!(elsewhere("web", "default"), None);
        assert_eq!(elsewhere("ops", "ops"), None);
        assert!(elsewhere("web", "ops").is_some_and(|said| said.contains("web") && said.contains("ops")));
    }

    #[test]
    fn a_warning_of_the_server_that_the_file_explains_is_said_once() {
        let (_dir, file) = file("", false);
        let asked = file.parse_for_server("default").expect("it is a job");
        let json = berth_jobfile::to_json(&asked.job).to_string();
        let of_server =
            berth_jobfile::parse_json(json.as_bytes(), "request body").expect("a job").warnings.messages();
        assert!(!of_server.is_empty());
        let all = format!("{of_server}\n\ntask `t` gets less memory");
        assert_eq!(asked.unsaid(&all).collect::<Vec<_>>(), ["task `t` gets less memory"]);
    }

    #[test]
    fn strict_refuses_what_would_be_ignored() {
        let (_dir, file) = file("", true);
        let refused = file.parse_for_server("default").expect_err("templates do nothing").to_string();
        assert!(refused.contains("`template` in task is not enforced yet"), "{refused}");
        assert!(refused.contains("job.nomad.hcl:6:"), "{refused}");
    }
}
