//! `berth job inspect`: a job's specification as the server has it, as JSON or HCL.

use std::io::{self, IsTerminal};

use berth_api::http::JobSubmission;
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::{
    complete,
    failure::{Exit, Failure},
    output::{self, Layout, View, clean},
    remote::{DiffAgainst, Remote},
    show::ShowArgs,
};

/// Arguments of `job inspect`.
#[derive(Debug, Args)]
pub struct JobInspectArgs {
    /// Id or prefix of the job
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// Version; defaults to the newest
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
    /// Print the job file that was submitted, as written
    #[arg(long, conflicts_with_all = ["output", "json", "template", "watch"])]
    hcl: bool,
    /// With `-hcl`, print on standard error the variables that were submitted with it
    #[arg(long, requires = "hcl")]
    with_vars: bool,
    #[command(flatten)]
    show: ShowArgs,
}

/// A job within an object, as `job run` reads it back.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct JobEnvelope {
    job: Value,
}

impl JobInspectArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_job(&self.id).await?;
        if self.hcl {
            return self.print_source(remote, &id).await;
        }
        let read = async |remote: &Remote| {
            let job = match self.version {
                None => remote.job(&id).await?,
                Some(version) => job_at(remote, &id, version).await?,
            };
            Ok(JobEnvelope { job })
        };
        self.show.show(remote, read).await
    }
}

impl JobInspectArgs {
    /// Prints the job file that the version was made of.
    async fn print_source(&self, remote: &Remote, id: &str) -> Result<(), Failure> {
        let submission =
            remote.submission(id, self.version).await?.ok_or_else(|| not_written_down(id, self.version))?;
        let JobSubmission { source, variable_flags, variables, .. } = submission.submission;
        output::print(&shown(&source, io::stdout().is_terminal()))?;
        if self.with_vars {
            let flags = variable_flags.unwrap_or_default();
            for (name, value) in &flags {
                output::eprint_line(&format!("-var {}={}", clean(name), clean(value)));
            }
            if !variables.is_empty() {
                output::eprint_line("files of variables:");
                variables.lines().for_each(|line| output::eprint_line(&clean(line)));
            }
            if flags.is_empty() && variables.is_empty() {
                output::eprint_line("no variables were given with it");
            }
        }
        Ok(())
    }
}

fn not_written_down(id: &str, version: Option<u64>) -> Failure {
    let id = clean(id);
    let which = version.map_or("the newest version".to_owned(), |version| format!("version {version}"));
    let flag = version.map(|version| format!("-version {version} ")).unwrap_or_default();
    Failure::new(Exit::NotFound, format!("no job file was submitted with {which} of job {id}"))
        .help(format!("it is kept as JSON: `berth job inspect {flag}{id}`"))
}

/// The job file, to the letter where a program reads it. A terminal would obey what others have written.
fn shown(source: &str, is_terminal: bool) -> String {
    if is_terminal {
        return source.lines().map(|line| clean(line) + "\n").collect();
    }
    let end = if source.ends_with('\n') { "" } else { "\n" };
    format!("{source}{end}")
}

async fn job_at(remote: &Remote, id: &str, version: u64) -> Result<Value, Failure> {
    let versions = remote.job_versions(id, DiffAgainst::None).await?.versions;
    versions.into_iter().find(|job| job["Version"] == version).ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("version {version} of job {id} is not kept"))
            .help(format!("`berth job history {id}` lists the versions that are"))
    })
}

impl View for JobEnvelope {
    /// There is no shorter way to say all of it.
    fn text(&self, _: Layout) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }

    fn names(&self) -> Vec<String> {
        self.job["ID"].as_str().map(str::to_owned).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_no_job_file() {
        let source = "job \"j\" {\r\n\t# \u{1b}[2J\u{9b}2J\u{202e}\n}";
        assert_eq!(shown(source, false), format!("{source}\n"));
        assert_eq!(shown(source, true), "job \"j\" {\n # \u{fffd}[2J\u{fffd}2J\u{fffd}\n}\n");
        assert_eq!(shown("a\n", false), shown("a\n", true));
    }
}
