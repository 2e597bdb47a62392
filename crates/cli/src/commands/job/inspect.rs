//! `berth job inspect`: a job as the server has it, for programs.

use berth_api::http::{JobStanding, JobSubmission};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    complete,
    failure::{Exit, Failure},
    output::{self, Layout, View, clean},
    remote::{Diffs, Remote},
    show::Show,
};

/// Arguments of `job inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// That version of it; the newest when left out
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
    /// The job file that it was made of, as it was written
    #[arg(long, conflicts_with_all = ["output", "json", "template", "watch"])]
    hcl: bool,
    /// With `-hcl`, say on standard error which variables were given with it
    #[arg(long, requires = "hcl")]
    with_vars: bool,
    #[command(flatten)]
    show: Show,
}

/// A job within an object, as `job run` reads it back.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Wrapped {
    job: Value,
}

impl Inspect {
    /// Prints it.
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
            Ok(Wrapped { job })
        };
        self.show.show(remote, read).await
    }
}

impl Inspect {
    /// Prints the job file that the version was made of.
    async fn print_source(&self, remote: &Remote, id: &str) -> Result<(), Failure> {
        let version = match self.version {
            Some(version) => version,
            None => JobStanding::deserialize(remote.job(id).await?).unwrap_or_default().version,
        };
        let submission = remote.submission(id, version).await?.ok_or_else(|| {
            let told = format!("nobody said how version {version} of job {} was written down", clean(id));
            Failure::new(Exit::NotFound, told)
                .help(format!("it is kept as JSON: `berth job inspect -version {version} {}`", clean(id)))
        })?;
        let JobSubmission { source, variable_flags, variables, .. } = submission.submission;
        output::print(&if source.ends_with('\n') { source } else { source + "\n" })?;
        if self.with_vars {
            let flags = variable_flags.unwrap_or_default();
            for (name, value) in &flags {
                output::tell(&format!("-var {}={}", clean(name), clean(value)));
            }
            if !variables.is_empty() {
                output::tell("files of variables:");
                variables.lines().for_each(|line| output::tell(&clean(line)));
            }
            if flags.is_empty() && variables.is_empty() {
                output::tell("no variables were given with it");
            }
        }
        Ok(())
    }
}

async fn job_at(remote: &Remote, id: &str, version: u64) -> Result<Value, Failure> {
    let versions = remote.job_versions(id, Diffs::None).await?.versions;
    versions.into_iter().find(|job| job["Version"] == version).ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("version {version} of job {id} is not kept"))
            .help(format!("`berth job history {id}` lists the versions that are"))
    })
}

impl View for Wrapped {
    /// There is no shorter way to say all of it.
    fn text(&self, _: Layout) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }

    fn names(&self) -> Vec<String> {
        self.job["ID"].as_str().map(str::to_owned).into_iter().collect()
    }
}
