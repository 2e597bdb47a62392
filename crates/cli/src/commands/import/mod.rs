//! `berth import`: writes the jobs of a running Nomad as job files for Berth, and reports what differs.

mod outcome;
mod source;

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use berth_model::job::Job;
use clap::{Args, ValueHint};

use self::{
    outcome::{ImportOutcome, ImportedJob},
    source::{NomadJob, NomadSource},
};
use crate::{
    failure::{Exit, Failure},
    global::Global,
    output::{count, eprint_line},
    remote::{Remote, block_on, only_if_new},
    show::PrintArgs,
};

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Address of the Nomad server
    #[arg(long, value_name = "URL")]
    from: String,
    /// ACL token that may read its jobs
    #[arg(long, value_name = "TOKEN", env = "NOMAD_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Namespace; defaults to all
    #[arg(long, value_name = "NAME", default_value = "*")]
    from_namespace: String,
    /// Include jobs that have ended or were stopped
    #[arg(long)]
    all: bool,
    /// Directory of the job files, one for each job
    #[arg(long, value_name = "DIR", default_value = "imported-jobs", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// Overwrite existing files
    #[arg(long)]
    overwrite: bool,
    /// Register the jobs here as well, unless a job with that id exists
    #[arg(long)]
    register: bool,
    #[command(flatten)]
    print: PrintArgs,
}

impl ImportArgs {
    /// Reads, writes and, if requested, registers jobs, and prints the result for each.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = self.register.then(|| global.remote()).transpose()?;
        let certificates = global.certificates()?;
        let source =
            NomadSource::new(&self.from, self.token.as_deref(), &self.from_namespace, &certificates)?;
        block_on(self.import(&source, remote.as_ref()))
    }

    async fn import(&self, source: &NomadSource, remote: Option<&Remote>) -> Result<(), Failure> {
        fs::create_dir_all(&self.dir).map_err(|error| unwritable(&self.dir, &error))?;
        let mut imported = Vec::new();
        for found in source.jobs(self.all).await? {
            let outcome = self.import_one(source, &found, remote).await;
            imported.push(ImportedJob::new(&found, outcome));
        }
        let failed = imported.iter().filter(|job| job.has_failed()).count();
        self.print.print(&imported)?;
        if failed > 0 {
            return Err(Failure::new(
                Exit::Failed,
                format!("{} could not be imported", count(failed, "job")),
            ));
        }
        if remote.is_none() && !imported.is_empty() {
            eprint_line(&format!("next: berth job plan {}/JOB.json", self.dir.display()));
        }
        Ok(())
    }

    async fn import_one(
        &self,
        source: &NomadSource,
        found: &NomadJob,
        remote: Option<&Remote>,
    ) -> Result<ImportOutcome, Failure> {
        let json = source.job(found).await?;
        let (job, differences) = read(&json.to_string(), &found.id)?;
        let file = self.write(found, &job)?;
        let registered = match remote {
            Some(remote) => {
                remote.in_namespace(&job.key.namespace).register(&job, only_if_new()).await?;
                true
            }
            None => false,
        };
        Ok(ImportOutcome { file, differences, registered })
    }

    fn write(&self, found: &NomadJob, job: &Job) -> Result<String, Failure> {
        let path = self.dir.join(file_name(&found.namespace, &found.id));
        let open = if self.overwrite { File::create(&path) } else { File::create_new(&path) };
        let text = format!("{:#}\n", serde_json::json!({ "Job": berth_jobfile::to_json(job) }));
        open.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| unwritable(&path, &error))?;
        Ok(path.display().to_string())
    }
}

/// The job as Berth understands it, and what it would do otherwise.
fn read(json: &str, name: &str) -> Result<(Job, Vec<String>), Failure> {
    let parsed = berth_jobfile::parse_json(json.as_bytes(), name)
        .map_err(|mistakes| Failure::report(Exit::Failed, &mistakes))?;
    let differences = parsed.warnings.iter().map(|warning| warning.message.clone()).collect();
    Ok((parsed.job, differences))
}

/// A job's file: its namespace where that is not the default one, and its id, without what steers a file system.
fn file_name(namespace: &str, id: &str) -> String {
    let safe = |text: &str| -> String {
        let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        text.trim_start_matches('.').chars().map(safe).collect()
    };
    match namespace {
        "default" | "" => format!("{}.json", safe(id)),
        namespace => format!("{}.{}.json", safe(namespace), safe(id)),
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()));
    if error.kind() == io::ErrorKind::AlreadyExists {
        failure.help("-overwrite writes over it")
    } else {
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_stay_in_their_directory() {
        assert_eq!(file_name("default", "web"), "web.json");
        assert_eq!(file_name("ops", "web/periodic-1"), "ops.web_periodic-1.json");
        assert_eq!(file_name("", "../../etc/passwd"), "_.._etc_passwd.json");
    }
}
