//! `berth run`: a container or a command as a job, without a job file.

use std::time::Instant;

use clap::Args;

use super::{containers, spec::RunSpec, wait};
use crate::{
    commands::job::{AcceptedChange, DetachArgs},
    failure::{Exit, Failure},
    global::Global,
    output,
    remote::{Remote, block_on, only_if_new},
};

/// Arguments of `run`.
///
/// The job gets one group with one task. It counts as running once it stays up for a second: it has no deployment. Whatever
/// else is not said here has a job file's defaults. `-print` shows the job, which is how a one-liner becomes a job file;
/// without its `Update`, new versions of that are rolled out step by step, as those of any service.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    spec: RunSpec,
    /// Print the job as JSON, and register nothing
    #[arg(long)]
    print: bool,
    /// Run it once, print its output, and exit with its exit code
    #[arg(long, conflicts_with_all = ["detach", "count"])]
    wait: bool,
    #[command(flatten)]
    detach: DetachArgs,
}

impl RunArgs {
    /// Registers the job, and follows it.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        self.spec.check_is_no_job_file()?;
        let json = self.spec.job(global.namespace(), self.wait);
        if self.print {
            return Ok(output::print(&format!("{json:#}\n"))?);
        }
        let remote = global.remote()?;
        block_on(self.register(&remote, &json.to_string()))
    }

    async fn register(&self, remote: &Remote, json: &str) -> Result<(), Failure> {
        let since = Instant::now();
        let job = berth_jobfile::parse_json(json.as_bytes(), "berth run")
            .map_err(|mistakes| Failure::report(Exit::Usage, &mistakes))?
            .job;
        if self.spec.is_container() {
            containers::expect_a_node(remote).await?;
        }
        // A one-liner makes a job; it never changes one.
        let registered = remote.register(&job, only_if_new()).await;
        let registered = registered.map_err(|failure| taken(&job.key.id, failure))?;
        for warning in registered.warnings.lines().filter(|line| !line.trim().is_empty()) {
            output::eprint_line(&format!("warning: {}", output::clean(warning)));
        }
        if self.wait {
            return wait::until_it_ends(remote, &job.key.id, &registered).await;
        }
        let accepted = AcceptedChange {
            job: &job.key.id,
            action: "registered",
            eval: &registered.eval_id,
            index: registered.job_modify_index,
            since,
            ends: job.job_type.runs_to_completion(),
        };
        self.detach.or_follow(remote, &accepted).await
    }
}

/// Says of a name that is taken what can be done about it.
fn taken(id: &str, failure: Failure) -> Failure {
    if failure.exit() != Exit::Conflict {
        return failure;
    }
    Failure::new(
        Exit::Conflict,
        format!("there is a job `{}` already, perhaps a stopped one", output::clean(id)),
    )
    .help(format!(
        "choose another name with -name, or remove it: `berth job stop -purge {}`",
        output::clean(id)
    ))
}
