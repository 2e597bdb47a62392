//! Reads the job file that a command is given.

use std::{collections::BTreeMap, env, path::Path};

use berth_api::http::JobSubmission;
use berth_jobfile::{Diagnostics, Inputs, ParsedJob};
use berth_model::{
    job::{Job, SUBMISSION_BYTES_MAX},
    namespace::NAMESPACE_DEFAULT,
};
use clap::{Args, ValueHint};

use crate::{
    failure::{Exit, Failure},
    output::{self, clean},
    source::{STDIN, name, read},
};

/// The job file, and how it is read.
#[derive(Debug, Clone, Args)]
pub struct JobFile {
    /// The job file, in HCL or JSON; `-` for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    path: String,
    /// Value of a variable of the job file; repeatable. `job run` stores it with the job, in plain text
    #[arg(long = "var", value_name = "NAME=VALUE")]
    vars: Vec<String>,
    /// File with values of variables, in HCL or JSON; repeatable. `job run` stores them with the job, in plain text
    #[arg(long = "var-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    var_files: Vec<String>,
    /// Refuse a job with attributes that would be ignored or have no effect
    #[arg(long)]
    strict: bool,
    /// Refuse values of variables that the job file does not declare; `-hcl2-strict=false` ignores them
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    hcl2_strict: Option<bool>,
    /// Read as JSON, whatever it looks like.
    #[arg(skip)]
    is_json: bool,
}

/// A job that is to be sent to a server.
#[derive(Debug)]
pub struct JobForServer {
    pub job: Job,
    /// Its errors unless a node has drivers of these names.
    driver_errors: Option<Diagnostics>,
    /// Warnings that were printed already, worded as a server words them for JSON.
    local_warnings: Vec<String>,
    /// The texts that it was parsed from.
    written: JobSource,
}

/// The texts that a job was parsed from.
#[derive(Debug)]
struct JobSource {
    /// The job file.
    source: Vec<u8>,
    /// The files of variables.
    variables: Vec<(String, Vec<u8>)>,
    /// What the job file may use.
    inputs: Inputs,
}

impl JobForServer {
    /// Prints what a server warns of beyond what the file alone was warned of.
    pub fn warn(&self, warnings: &str) {
        for warning in self.new_warnings(warnings) {
            output::eprint_line(&format!("warning: {}", clean(warning)));
        }
    }

    fn new_warnings<'w>(&self, warnings: &'w str) -> impl Iterator<Item = &'w str> {
        warnings.lines().filter(|line| {
            !line.trim().is_empty()
                && !self.local_warnings.iter().any(|local_warnings| local_warnings == line)
        })
    }

    /// What a server refused, by line and column if that is what was in doubt.
    pub fn refused(&self, failure: Failure) -> Failure {
        let text = failure.to_string();
        let is_driver_error = |driver_errors: &&Diagnostics| {
            driver_errors.iter().any(|mistake| text.contains(mistake.message.as_str()))
        };
        match self.driver_errors.as_ref().filter(is_driver_error) {
            Some(driver_errors) => Failure::report(failure.exit(), driver_errors),
            None => failure,
        }
    }
}

impl JobFile {
    /// The same file, read as JSON if `is_json`, whatever it looks like.
    pub fn as_json(&self, is_json: bool) -> Self {
        Self { is_json, ..self.clone() }
    }

    fn parse_source(&self, source: &[u8], inputs: &Inputs) -> Result<ParsedJob, Diagnostics> {
        let parse = if self.is_json { berth_jobfile::parse_json_with } else { berth_jobfile::parse };
        parse(source, name(&self.path), inputs)
    }

    /// Reads the job and prints what its owner should know about it, or says everything that is wrong with it.
    pub fn parse(&self) -> Result<Job, Failure> {
        self.parse_in(NAMESPACE_DEFAULT)
    }

    /// The same; a job that names no namespace is of this one.
    pub fn parse_in(&self, namespace: &str) -> Result<Job, Failure> {
        let JobSource { source, inputs, .. } = self.read(namespace)?;
        let parsed = self
            .parse_source(&source, &inputs)
            .map_err(|mistakes| Failure::report(Exit::Failed, &mistakes))?;
        self.warn(&parsed.warnings)?;
        Ok(parsed.job)
    }

    /// The same, for a server: whether any node has a driver that looks misspelt, it knows alone. A job that names no
    /// namespace is of this one.
    pub fn parse_for_server(&self, namespace: &str) -> Result<JobForServer, Failure> {
        let written = self.read(namespace)?;
        let parse = |inputs: &Inputs| self.parse_source(&written.source, inputs);
        let (ParsedJob { job, warnings }, driver_errors) = match parse(&written.inputs) {
            Ok(parsed) => (parsed, None),
            Err(mistakes) => {
                match parse(&written.inputs.clone().drivers(mistakes.unknown_drivers().iter().cloned())) {
                    Ok(parsed) => (parsed, Some(mistakes.errors())),
                    Err(_) => return Err(Failure::report(Exit::Failed, &mistakes)),
                }
            }
        };
        self.warn(&warnings)?;
        if let Some(warning) = namespace_mismatch(&job.key.namespace, namespace) {
            output::eprint_line(&warning);
        }
        let local_warnings = json_warnings(&job, driver_errors.as_ref());
        Ok(JobForServer { job, driver_errors, local_warnings, written })
    }

    /// Reads all that the job is made of, each file once: what comes through a pipe is gone after that.
    fn read(&self, namespace: &str) -> Result<JobSource, Failure> {
        let source = read(&self.path)?;
        let variables = self.var_files.iter().map(|file| Ok((file.clone(), read(file)?)));
        let variables = variables.collect::<Result<Vec<_>, Failure>>()?;
        let inputs = self.inputs(&variables)?.namespace(namespace);
        Ok(JobSource { source, variables, inputs })
    }

    /// The file and the values of its variables, as a server keeps them beside the job; none, and a warning, where they are
    /// too long for that.
    pub fn submission(&self, prepared: &JobForServer) -> Option<JobSubmission> {
        let JobSource { source, variables: files, inputs } = &prepared.written;
        let flags = self.vars.iter().filter_map(|var| var.split_once('='));
        let flags = flags.map(|(name, value)| (name.trim().to_owned(), value.to_owned()));
        // What the environment gave is not there when the file is read again.
        let flags: BTreeMap<_, _> =
            self.taken_from_environment(source, inputs).into_iter().chain(flags).collect();
        let mut variables = String::new();
        for (_, file) in files {
            variables += &String::from_utf8_lossy(file);
            if !variables.ends_with('\n') {
                variables.push('\n');
            }
        }
        let format =
            if self.is_json || berth_jobfile::is_json(source, name(&self.path)) { "json" } else { "hcl2" };
        let of_flags = flags.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        let bytes = source.len() + variables.len() + of_flags;
        if bytes > SUBMISSION_BYTES_MAX {
            output::eprint_line(&format!(
                "warning: the job file has {bytes} bytes with its variables, at most {SUBMISSION_BYTES_MAX} are kept beside \
                 the job: `berth job inspect -hcl` cannot print it"
            ));
            return None;
        }
        Some(JobSubmission {
            source: String::from_utf8_lossy(source).into_owned(),
            format: format.to_owned(),
            variable_flags: (!flags.is_empty()).then_some(flags),
            variables,
        })
    }

    fn taken_from_environment(&self, source: &[u8], inputs: &Inputs) -> BTreeMap<String, String> {
        match self.is_json {
            true => BTreeMap::new(),
            false => berth_jobfile::from_environment(source, name(&self.path), inputs),
        }
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
        output::eprint_line(&warnings.to_string());
        Ok(())
    }

    /// What the job file may use: variables from the environment, from these files and from flags, and files beside it.
    fn inputs(&self, variables: &[(String, Vec<u8>)]) -> Result<Inputs, Failure> {
        let mut inputs = Inputs::default().environment(
            env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        );
        for (file, source) in variables {
            inputs = inputs.file(name(file), source.clone());
        }
        for var in &self.vars {
            inputs = inputs.value(var).map_err(|wrong| Failure::new(Exit::Usage, wrong))?;
        }
        if !self.hcl2_strict.unwrap_or(true) {
            inputs = inputs.ignoring_undeclared();
        }
        let folder = Path::new(&self.path).parent().filter(|_| self.path != STDIN);
        Ok(inputs.files_from(folder.unwrap_or(Path::new("."))))
    }

    /// The file as it was written on the command line.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// The warnings that a server gives for the job as it is sent.
fn json_warnings(job: &Job, driver_errors: Option<&Diagnostics>) -> Vec<String> {
    let drivers =
        driver_errors.into_iter().flat_map(|driver_errors| driver_errors.unknown_drivers().iter().cloned());
    let json = berth_jobfile::to_json(job).to_string();
    let read = berth_jobfile::parse_json_with(json.as_bytes(), "", &Inputs::default().drivers(drivers));
    read.map(|parsed| parsed.warnings.messages().lines().map(str::to_owned).collect()).unwrap_or_default()
}

/// A warning where a job file names another namespace than the command line or the environment.
fn namespace_mismatch(own: &str, requested: &str) -> Option<String> {
    let differs = requested != own && requested != NAMESPACE_DEFAULT;
    let (own, requested) = (clean(own), clean(requested));
    differs.then(|| format!("warning: the job file says namespace {own}, which counts, and not {requested}"))
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, os::fd::AsRawFd as _};

    use super::*;

    const TASK: &str = "group \"g\" {\n task \"t\" {\n driver = \"mock\"\n vault {\n role = \"x\"\n}\n}\n}";

    /// A job file with this in its job.
    fn file(inside: &str, strict: bool) -> (tempfile::TempDir, JobFile) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("job.nomad.hcl");
        std::fs::write(&path, format!("job \"j\" {{\n{inside}\n{TASK}\n}}")).expect("a file");
        let path = path.to_string_lossy().into_owned();
        (
            dir,
            JobFile {
                path,
                vars: Vec::new(),
                var_files: Vec::new(),
                strict,
                hcl2_strict: None,
                is_json: false,
            },
        )
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
        assert_eq!(namespace_mismatch("web", "default"), None);
        assert_eq!(namespace_mismatch("ops", "ops"), None);
        assert!(
            namespace_mismatch("web", "ops").is_some_and(
                |local_warnings| local_warnings.contains("web") && local_warnings.contains("ops")
            )
        );
    }

    #[test]
    fn a_warning_that_the_file_explains_is_printed_once() {
        let (_dir, file) = file("", false);
        let prepared = file.parse_for_server("default").expect("it is a job");
        let json = berth_jobfile::to_json(&prepared.job).to_string();
        let of_server =
            berth_jobfile::parse_json(json.as_bytes(), "request body").expect("a job").warnings.messages();
        assert!(!of_server.is_empty());
        let all = format!("{of_server}\n\ntask `t` gets less memory");
        assert_eq!(prepared.new_warnings(&all).collect::<Vec<_>>(), ["task `t` gets less memory"]);
    }

    #[test]
    fn values_of_variables_that_are_not_declared_are_left_out_where_that_is_asked_for() {
        let (_dir, file) = file("", false);
        let given = JobFile { vars: vec!["unknown=1".to_owned()], ..file };
        let refused = given.parse().expect_err("nobody declares it").to_string();
        assert!(refused.contains("declares no variable `unknown`"), "{refused}");
        assert!(JobFile { hcl2_strict: Some(false), ..given }.parse().is_ok());
    }

    #[test]
    fn a_file_is_sent_with_its_variables() {
        let (dir, file) = file("", false);
        let values = dir.path().join("values.hcl");
        std::fs::write(&values, "b = 2").expect("a file");
        let var_files = vec![values.to_string_lossy().into_owned()];
        let given = JobFile { vars: vec!["a=x=y".to_owned()], var_files, hcl2_strict: Some(false), ..file };
        let prepared = given.parse_for_server("default").expect("it is a job");
        let submission = given.submission(&prepared).expect("it is short");
        assert!(submission.source.starts_with("job \"j\""), "{submission:?}");
        assert_eq!((&*submission.format, &*submission.variables), ("hcl2", "b = 2\n"));
        assert_eq!(submission.variable_flags, Some([("a".to_owned(), "x=y".to_owned())].into()));
    }

    #[test]
    fn what_comes_through_a_pipe_is_sent_as_it_was_read() {
        let (_dir, file) = file("", false);
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(b"b = 2").expect("it has room");
        drop(writer);
        let var_files = vec![format!("/dev/fd/{}", reader.as_raw_fd())];
        let given = JobFile { var_files, hcl2_strict: Some(false), ..file };
        let prepared = given.parse_for_server("default").expect("it is a job");
        assert_eq!(given.submission(&prepared).expect("it is short").variables, "b = 2\n");
    }

    #[test]
    fn a_file_that_is_too_long_to_be_kept_is_registered_without_it() {
        let comment = format!("# {}\n", "x".repeat(SUBMISSION_BYTES_MAX));
        let (_dir, file) = file(&comment, false);
        assert_eq!(file.submission(&file.parse_for_server("default").expect("it is a job")), None);
    }

    #[test]
    fn strict_refuses_what_would_be_ignored() {
        let (_dir, file) = file("", true);
        let refused = file.parse_for_server("default").expect_err("the block does nothing").to_string();
        assert!(refused.contains("`vault` in task is not implemented"), "{refused}");
        assert!(refused.contains("job.nomad.hcl:6:"), "{refused}");
    }
}
