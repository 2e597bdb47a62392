//! `berth job validate`: parses a job file and reports all of its errors, without a server.

use clap::Args;

use super::file::JobFile;
use crate::{failure::Failure, output};

/// Arguments of `job validate`.
#[derive(Debug, Args)]
pub struct JobValidateArgs {
    #[command(flatten)]
    file: JobFile,
    /// Read the file as JSON
    #[arg(long)]
    json: bool,
}

impl JobValidateArgs {
    /// Says that the file is good, or what is wrong with it.
    pub fn run(&self) -> Result<(), Failure> {
        let job = self.file.as_json(self.json).parse()?;
        let (groups, tasks) = (job.groups.len(), job.groups.iter().map(|group| group.tasks.len()).sum());
        let summary = format!(
            "job {} is valid: {}, {}, {}\n",
            output::clean(&job.key.id),
            job.job_type.as_str(),
            output::count(groups, "group"),
            output::count(tasks, "task")
        );
        Ok(output::print(&summary)?)
    }
}
