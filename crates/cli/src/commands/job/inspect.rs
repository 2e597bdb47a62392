//! `berth job inspect`: a job as the server has it, for programs.

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::{
    complete,
    failure::{Exit, Failure},
    output::{Layout, View},
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
